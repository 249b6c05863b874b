"""Assignment: near rows join a cluster, far ones are novel, and scores are comparable between embedders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import UsageError
from engine.goals.clusters.clustering import (
    MEDIAN_SCORE,
    MOST_OTHERS,
    NOVEL,
    OTHERS_ABOVE,
    Assigned,
    assign,
    membership_of,
)
from engine.model.embedders.vectors import Numbers, Vectors, unit_rows
from tests.engine.goals.groups import grouped


def learnt(noise: float = 0.3) -> tuple[Vectors, Numbers, Assigned]:
    """A membership model learnt from half of the rows, and the other half, assigned, with its truth."""
    vectors, truth = grouped(5, 200, noise=noise)
    known = membership_of(vectors[::2], truth[::2], 5)
    return vectors[1::2], truth[1::2], assign(vectors[1::2], known)


class TestAssigned:
    def test_more_of_the_same(self) -> None:
        """Rows of the learnt groups are assigned to them; about one in a hundred is novel."""
        _, truth, found = learnt(0.1)
        inside = found.labels != NOVEL
        assert inside.mean() > 0.95
        assert (found.labels[inside] == truth[inside]).all()

    def test_novel(self) -> None:
        """A row of a goal that was not learnt is in no cluster; its nearest cluster is given."""
        vectors, truth = grouped(6, 100, noise=0.1)
        old = truth < 5
        found = assign(vectors[~old], membership_of(vectors[old], truth[old], 5))
        assert (found.labels == NOVEL).all()
        assert ((found.nearest >= 0) & (found.nearest < 5)).all()

    def test_no_vector(self) -> None:
        """A text without a vector is novel, without nearest cluster or score."""
        vectors, truth = grouped(3, 20)
        found = assign(np.zeros((1, 16), np.float32), membership_of(vectors, truth, 3))
        assert (found.labels.tolist(), found.nearest.tolist()) == ([NOVEL], [NOVEL])
        assert (found.scores.tolist(), found.distances.tolist(), found.others) == ([0], [1], ((),))

    def test_few_members_reject_less(self) -> None:
        """A cluster of three accepts most similar rows, though its three members are nearer to their own mean."""
        vectors, truth = grouped(5, 60, noise=0.2)
        rows = np.concatenate([np.flatnonzero(truth > 0), np.flatnonzero(truth == 0)[:3]])
        known = membership_of(vectors[rows], truth[rows], 5)
        rest = np.flatnonzero(truth == 0)[3:]
        found = assign(vectors[rest], known)
        own = assign(vectors[rows[-3:]], known).distances.max()
        assert (found.labels == 0).mean() > 0.5 > (found.distances <= own).mean()

    def test_one_cluster(self) -> None:
        """With one cluster the score is whole and there are no others."""
        vectors, _ = grouped(1, 30)
        found = assign(vectors, membership_of(vectors, np.zeros(30, np.int32), 1))
        assert (found.scores == 1).all()
        assert set(found.others) == {()}


class TestScores:
    @pytest.mark.parametrize("noise", [0.1, 0.3, 0.5])
    def test_same_meaning(self, noise: float) -> None:
        """The median member has about the same score in tight and in wide groups."""
        vectors, truth = grouped(2, 200, noise=noise)
        found = assign(vectors, membership_of(vectors, truth, 2))
        own = np.where(found.nearest == truth, found.scores, 1 - found.scores)
        assert float(np.median(own)) == pytest.approx(MEDIAN_SCORE, abs=0.01)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.integers(2, 8), st.floats(0.01, 0.5))
    def test_shares(self, seed: int, k: int, least: float) -> None:
        """The scores of the other clusters are in descending order, at least the threshold and at most the first; all
        scores of a row add up to at most 1.
        """
        rng = np.random.default_rng(seed)
        vectors = unit_rows(rng.standard_normal((60, 4)))
        labels = np.concatenate([np.arange(k), rng.integers(k, size=60 - k)]).astype(np.int32)
        found = assign(vectors, membership_of(vectors, labels, k), others_above=least)
        for first, score, others in zip(found.nearest, found.scores, found.others, strict=True):
            scores = [share for _, share in others]
            assert 1 / k - 1e-6 <= score <= 1
            assert scores == sorted(scores, reverse=True)
            assert all(least <= share <= score + 1e-6 for share in scores)
            assert score + sum(scores) <= 1 + 1e-6
            assert first not in {number for number, _ in others}
            assert len(others) <= MOST_OTHERS

    def test_between_two(self) -> None:
        """A conversation with two goals is assigned to both clusters."""
        vectors, truth = grouped(4, 50, noise=0.1)
        centres = [vectors[truth == number].mean(axis=0) for number in (1, 3)]
        found = assign(unit_rows([sum(centres)]), membership_of(vectors, truth, 4))
        ((other, share),) = found.others[0]
        assert {int(found.nearest[0]), other} == {1, 3}
        assert share > OTHERS_ABOVE


def test_empty_cluster() -> None:
    """Learning a cluster without members raises an error."""
    vectors, truth = grouped(3, 10)
    with pytest.raises(UsageError, match="members"):
        membership_of(vectors, truth, 4)
