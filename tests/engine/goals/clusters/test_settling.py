"""Settling, which moves conversations to the group of most of their nearest neighbours, on vectors whose groups are
known.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.goals.clusters.neighbors import (
    SETTLE_NEIGHBOURS,
    SETTLE_SHARE,
    NearestRows,
    Neighbours,
    settle,
)
from engine.model.embedders.vectors import Numbers, Vectors
from tests.engine.goals.groups import grouped, same_partition


def near_of(vectors: Vectors) -> NearestRows:
    """The neighbours of every row."""
    return Neighbours(vectors, "").of_rows(np.arange(len(vectors)), SETTLE_NEIGHBOURS)


def nobody(labels: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """No row is fixed to its group."""
    return np.zeros(len(labels), dtype=np.bool_)


class TestWhatMoves:
    def test_strays_come_home(self) -> None:
        """Rows in a wrong group or in none move to the group of their neighbours."""
        vectors, gold = grouped()
        labels = gold.copy()
        strays = np.random.default_rng(0).choice(len(labels), 24, replace=False)
        labels[strays[:12]] = (labels[strays[:12]] + 1) % 6
        labels[strays[12:]] = -1
        assert not same_partition(labels, gold)
        assert settle(near_of(vectors), labels, nobody(labels)).tolist() == gold.tolist()

    def test_a_row_between_groups_stays(self) -> None:
        """A row whose neighbours are half of one and half of another group stays in whichever of them it is, or in
        none.
        """
        rows = np.array([[1, 2, 3, 4]])
        near = NearestRows(np.repeat(rows, 5, axis=0), np.full((5, 4), 0.1, dtype=np.float32))
        for own in (0, 1, -1):
            labels = np.array([own, 0, 0, 1, 1], dtype=np.int32)
            fixed = np.array([False, True, True, True, True])
            assert settle(near, labels, fixed)[0] == own

    def test_what_points_away_has_no_vote(self) -> None:
        """Neighbours with a cosine of zero or less do not vote, however many they are."""
        near = NearestRows(
            np.array([[1, 2, 3, 4]]).repeat(5, axis=0),
            np.array([[0.5, 1.0, 1.2, 1.9]], dtype=np.float32).repeat(5, axis=0),
        )
        labels = np.array([-1, 0, 1, 1, 1], dtype=np.int32)
        fixed = np.array([False, True, True, True, True])
        assert settle(near, labels, fixed)[0] == 0


class TestWhatStays:
    def test_what_a_person_placed(self) -> None:
        """A row fixed by a person stays where it is, and votes."""
        vectors, gold = grouped()
        labels = gold.copy()
        labels[0] = (gold[0] + 1) % 6
        fixed = nobody(labels)
        fixed[0] = True
        found = settle(near_of(vectors), labels, fixed)
        assert found[0] == labels[0]
        assert found[1:].tolist() == gold[1:].tolist()

    def test_no_group_is_emptied(self) -> None:
        """A group whose members all lie among others' members keeps them."""
        vectors, gold = grouped()
        labels = gold.copy()
        labels[:2] = 6
        found = settle(near_of(vectors), labels, nobody(labels))
        assert np.flatnonzero(found == 6).tolist() == [0, 1]

    @pytest.mark.parametrize("count", [0, 1, 3])
    def test_few_rows(self, count: int) -> None:
        """With fewer rows than neighbours, even with none, settling works."""
        vectors, gold = grouped(groups=1, each=3)
        labels = gold[:count]
        near = near_of(vectors[:count])
        assert settle(near, labels, nobody(labels)).tolist() == labels.tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 5))
@example(22, 8, 5)  # a group kept takes back the only row of another
def test_the_same_whatever_groups_are_called(seed: int, rows: int, groups: int) -> None:
    """Renumbering the groups renumbers the result; no group is emptied, and no row leaves the group of most of its
    neighbours.
    """
    rng = np.random.default_rng(seed)
    near = NearestRows(
        rng.integers(0, rows, (rows, 4)), rng.uniform(0, 0.9, (rows, 4)).astype(np.float32)
    )
    labels = rng.integers(-1, groups, rows).astype(np.int32)
    found = settle(near, labels, nobody(labels))
    names = rng.permutation(groups).astype(np.int32) + 10
    renamed = np.where(labels >= 0, names[labels], -1).astype(np.int32)
    expected = np.where(found >= 0, names[found], -1)
    assert settle(near, renamed, nobody(labels)).tolist() == expected.tolist()
    assert set(labels[labels >= 0].tolist()) <= set(found.tolist())
    assert SETTLE_SHARE > 0.5
