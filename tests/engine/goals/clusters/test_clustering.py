"""k-means: a partition, reproducible bit for bit; outliers; splits; the proposed number of clusters; later members."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score

from engine.base.errors import UsageError
from engine.goals.clusters import clustering, kmeans
from engine.goals.clusters.clustering import (
    MAX_OTHERS,
    MEDIAN_SCORE,
    MIN_OTHER_SCORE,
    NOVEL,
    OUTLIER,
    Assigned,
    Clusters,
    assign,
    cluster,
    membership_of,
    outlier_limits,
    split,
)
from engine.goals.clusters.kmeans import propose_k, silhouette
from engine.model.embedders.vectors import Numbers, Vectors, has_vector, unit_rows
from tests.engine.goals.groups import grouped, same_partition
from tests.engine.project.support import REPOSITORY

ARRAYS = ("labels", "centres", "distances", "nearest", "second", "second_distances")


def bits(found: Clusters) -> str:
    """A hash of a clustering's arrays."""
    digest = hashlib.sha256(repr((found.inertia, found.seed)).encode())
    for name in ARRAYS:
        digest.update(getattr(found, name).tobytes())
    return digest.hexdigest()


def any_rows(seed: int, count: int, dimensions: int) -> Vectors:
    """Rows without structure, some of them zeros and some equal."""
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng.standard_normal((count, dimensions)))
    rows[rng.random(count) < 0.1] = 0
    if count > 3:
        rows[rng.integers(count, size=count // 3)] = rows[0]
    return rows


class TestPartition:
    def test_groups_are_found(self) -> None:
        """Well separated groups become the clusters."""
        vectors, truth = grouped()
        assert same_partition(cluster(vectors, 6, cut=None).labels, truth)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10**6), st.integers(2, 90), st.integers(1, 9), st.integers(1, 30))
    def test_shape(self, seed: int, count: int, dimensions: int, k: int) -> None:
        """For any rows no cluster is empty, each row is in one cluster or an outlier, clusters are numbered by size,
        and distances are those to the nearest centre.
        """
        vectors = any_rows(seed, count, dimensions)
        live = has_vector(vectors)
        if not live.any():
            return
        found = cluster(vectors, k, seed)
        assert 1 <= found.k <= k
        assert found.labels.dtype == np.int32
        assert (found.labels[~live] == OUTLIER).all()
        assert (found.sizes > 0).all()
        assert (np.diff(found.sizes) <= 0).all()
        assert found.sizes.sum() == (found.labels >= 0).sum()
        inside = found.labels >= 0
        assert (found.labels[inside] == found.nearest[inside]).all()
        assert (found.nearest[live] >= 0).all()
        distances = 1 - vectors[live] @ found.centres.T
        assert np.allclose(found.distances[live], distances.min(axis=1), atol=1e-5)
        assert all(np.isfinite(getattr(found, name)).all() for name in ARRAYS)
        assert np.allclose(np.linalg.norm(found.centres, axis=1), 1, atol=1e-5)
        if found.k > 1:
            assert (found.second[live] != found.nearest[live]).all()
            assert (found.second_distances >= found.distances - 1e-6).all()

    def test_fewer_different_rows_than_clusters(self) -> None:
        """Two different texts make two clusters, however many clusters are asked for."""
        vectors = np.tile(unit_rows([[1, 0], [0, 1]]), (10, 1))
        found = cluster(vectors, 7)
        assert sorted(found.sizes) == [10, 10]

    def test_nothing_to_cluster(self) -> None:
        """Clustering without vectors, or into no clusters, raises UsageError."""
        with pytest.raises(UsageError, match="vector"):
            cluster(np.zeros((3, 2), np.float32), 2)
        with pytest.raises(UsageError, match="clusters"):
            cluster(unit_rows([[1, 0]]), 0)

    def test_beside_scikit_learn(self) -> None:
        """The sum of squared distances is about that of scikit-learn's k-means with as many attempts."""
        vectors, _ = grouped(10, 60, noise=0.6)
        plain = KMeans(14, n_init=kmeans.RESTARTS, random_state=0).fit(vectors)
        centres = unit_rows(plain.cluster_centers_)
        theirs = float((1 - (vectors @ centres.T).max(axis=1)).mean())
        assert cluster(vectors, 14, cut=None).inertia < 1.01 * theirs

    def test_stopping(self) -> None:
        """An exception of the `note` callback ends the work; the steps that it is called with add up to the total."""
        steps_noted: list[tuple[int, int]] = []

        def stop(done: int, total: int) -> None:
            steps_noted.append((done, total))
            if done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cluster(grouped()[0], 6, note=stop)
        assert steps_noted == [(0, kmeans.RESTARTS), (1, kmeans.RESTARTS), (2, kmeans.RESTARTS)]


class TestRepetition:
    def test_same_in_another_process(self) -> None:
        """The same rows and seed give the same bits in another process, with another number of threads."""
        code = (
            "from tests.engine.goals.clusters.test_clustering import bits, cluster, grouped\n"
            "print(bits(cluster(grouped(noise=0.4)[0], 9, 3)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=REPOSITORY,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "7"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == bits(cluster(grouped(noise=0.4)[0], 9, 3))

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10**6), st.integers(2, 120))
    @example(10893, 5)
    def test_order_of_rows_does_not_matter(self, seed: int, count: int) -> None:
        """Rows in another order get the same partition and centres, bit for bit, even without structure; distances to
        the last digit, which depends on the place of a row in a product of matrices."""
        vectors = any_rows(seed, count, 5)
        if not has_vector(vectors).any():
            return
        turned = np.random.default_rng(seed).permutation(count)
        one, other = cluster(vectors, 6, seed), cluster(vectors[turned], 6, seed)
        assert one.inertia == other.inertia
        assert (one.centres == other.centres).all()
        for name in ("labels", "nearest", "second"):
            assert (getattr(one, name)[turned] == getattr(other, name)).all()
        for name in ("distances", "second_distances"):
            assert np.allclose(getattr(one, name)[turned], getattr(other, name), atol=1e-6)

    def test_many_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Above the limit of rows mini-batches find the groups too, and are reproducible bit for bit."""
        monkeypatch.setattr(kmeans, "FULL_BATCH_ROWS", 200)
        monkeypatch.setattr(clustering, "FULL_BATCH_ROWS", 200)
        monkeypatch.setattr(kmeans, "MINI_BATCH_ROWS", 64)
        vectors, truth = grouped(6, 150)
        found = cluster(vectors, 6, 1, cut=None)
        assert same_partition(found.labels, truth)
        assert bits(found) == bits(cluster(vectors, 6, 1, cut=None))

    def test_mini_batches_use_all_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A group too rare for the sample still moves the centre that is nearest to it."""
        monkeypatch.setattr(kmeans, "FULL_BATCH_ROWS", 200)
        monkeypatch.setattr(clustering, "FULL_BATCH_ROWS", 200)
        monkeypatch.setattr(kmeans, "MINI_BATCH_ROWS", 64)
        vectors, _ = grouped(6, 150, noise=0.4)
        whole = cluster(vectors, 6, 1, cut=None).inertia
        monkeypatch.setattr(kmeans, "FULL_BATCH_ROWS", 10**6)
        monkeypatch.setattr(clustering, "FULL_BATCH_ROWS", 10**6)
        assert whole < 1.02 * cluster(vectors, 6, 1, cut=None).inertia


class TestOutliers:
    def test_odd_rows_are_marked(self) -> None:
        """Rows unlike every group are outliers and the groups stay whole; `cut=None` marks none."""
        vectors, _ = grouped(6, 60, dimensions=32, noise=0.05)
        odd = unit_rows(np.random.default_rng(3).standard_normal((4, 32)))
        mixed = np.concatenate([vectors, odd])
        found = cluster(mixed, 6)
        assert (found.labels[-4:] == OUTLIER).all()
        assert (found.nearest[-4:] >= 0).all()
        assert (found.labels[:-4] >= 0).mean() > 0.97
        assert (cluster(mixed, 6, cut=None).labels >= 0).all()

    def test_limits_are_robust(self) -> None:
        """Outliers do not move the limit above which a row is an outlier."""
        labels = np.zeros(100, dtype=np.int32)
        distances = np.linspace(0.1, 0.2, 100, dtype=np.float32)
        before = outlier_limits(distances, labels, 1)
        distances[-10:] = 2
        assert outlier_limits(distances, labels, 1) == pytest.approx(before, rel=0.15)

    def test_few_members_borrow_from_all(self) -> None:
        """In a cluster of equal texts a slightly different one is no outlier if the other clusters are wide."""
        distances = np.concatenate([np.zeros(3), np.linspace(0.2, 0.4, 300)]).astype(np.float32)
        labels = np.repeat(np.array([0, 1], dtype=np.int32), [3, 300])
        narrow, wide = outlier_limits(distances, labels, 2)
        assert 0.2 < narrow < wide

    def test_a_cluster_of_one_is_none(self) -> None:
        """With more clusters than groups, a single odd row does not become a cluster."""
        vectors, _ = grouped(4, 50, noise=0.05)
        odd = unit_rows(-vectors[:1])
        found = cluster(np.concatenate([vectors, odd]), 8)
        assert found.labels[-1] == OUTLIER
        assert (found.sizes >= 2).all()


class TestSplit:
    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 7))
    def test_partition(self, seed: int, count: int, parts: int) -> None:
        """The parts partition the members, none is empty, and the largest comes first."""
        vectors = any_rows(seed, 80, 4)
        members = np.random.default_rng(seed).choice(80, count, replace=False)
        found = split(vectors, members, parts, seed)
        assert 1 <= len(found) <= parts
        assert sorted(np.concatenate(found)) == sorted(members)
        assert [len(part) for part in found] == sorted((len(part) for part in found), reverse=True)
        assert all(len(part) for part in found)
        again = split(vectors, members[::-1], parts, seed)
        assert all((a == b).all() for a, b in zip(found, again, strict=True))

    def test_cannot_be_told_apart(self) -> None:
        """Equal rows are not split."""
        vectors = np.tile(unit_rows([[1, 0]]), (6, 1))
        assert [part.tolist() for part in split(vectors, np.arange(6), 3)] == [list(range(6))]

    def test_too_large_clusters_are_split(self) -> None:
        """With a limit the large group is cut and the others are left as they are."""
        vectors, truth = grouped(5, 40)
        rows = np.flatnonzero((truth == 0) | (np.arange(len(truth)) % 4 == 0))
        whole = cluster(vectors[rows], 5, cut=None)
        cut = cluster(vectors[rows], 5, cut=None, largest=25)
        assert whole.sizes[0] == 40
        assert cut.k == 6
        assert cut.sizes[0] < 40


class TestProposedNumber:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10**6), st.integers(5, 60), st.integers(2, 6))
    @example(6, 5, 6)
    def test_silhouette(self, seed: int, count: int, k: int) -> None:
        """The silhouette equals what scikit-learn computes from all pairs."""
        rng = np.random.default_rng(seed)
        rows = unit_rows(rng.standard_normal((count, 4)))
        labels = rng.integers(k, size=count).astype(np.int32)
        groups = len(set(labels.tolist()))
        if (
            groups == count
        ):  # scikit-learn refuses it; a row that is alone in its cluster counts as 0
            assert silhouette(rows, labels) == 0
        elif groups > 1:
            expected = silhouette_score(rows, labels, metric="cosine")
            assert silhouette(rows, labels) == pytest.approx(expected, abs=1e-4)

    def test_groups_are_overestimated(self) -> None:
        """The proposal is between the true number of groups and about its double."""
        for groups in (4, 10, 16):
            k = propose_k(grouped(groups, 60, dimensions=24)[0])
            assert groups <= k <= max(2 * groups, math.isqrt(60 * groups))

    @pytest.mark.parametrize("count", [1, 9])
    def test_few(self, count: int) -> None:
        """A handful of conversations also gets a proposed number of clusters."""
        vectors = unit_rows(np.random.default_rng(0).standard_normal((count, 4)))
        assert 1 <= propose_k(vectors) <= count

    def test_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For many rows the number is proposed from a sample."""
        monkeypatch.setattr(kmeans, "TRIAL_ROWS", 200)
        assert propose_k(grouped(6, 200)[0]) >= 6

    def test_nothing(self) -> None:
        """Without vectors no number is proposed."""
        with pytest.raises(UsageError, match="vector"):
            propose_k(np.zeros((3, 2), np.float32))


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
            assert len(others) <= MAX_OTHERS

    def test_between_two(self) -> None:
        """A conversation with two goals is assigned to both clusters."""
        vectors, truth = grouped(4, 50, noise=0.1)
        centres = [vectors[truth == number].mean(axis=0) for number in (1, 3)]
        found = assign(unit_rows([sum(centres)]), membership_of(vectors, truth, 4))
        ((other, share),) = found.others[0]
        assert {int(found.nearest[0]), other} == {1, 3}
        assert share > MIN_OTHER_SCORE


def test_empty_cluster() -> None:
    """Learning a cluster without members raises an error."""
    vectors, truth = grouped(3, 10)
    with pytest.raises(UsageError, match="members"):
        membership_of(vectors, truth, 4)
