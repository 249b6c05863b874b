"""k-means: a partition, reproducible bit for bit; outliers; the proposed number of clusters; later members; stability;
distinctive words; themes."""

from __future__ import annotations

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

from engine.goals.clusters import kmeans
from engine.goals.clusters.clustering import (
    DISSOLVED,
    OUTLIER,
    STABLE,
    Clusters,
    Kind,
    Repetition,
    assign,
    cluster,
    learn_membership,
    repeat_clustering,
)
from engine.goals.clusters.granularity import group_by_theme
from engine.goals.clusters.kmeans import measure_silhouette, propose_k
from engine.goals.labels.distinctive_words import distinctive_words
from engine.goals.stages.deciding import theme_label
from engine.model.embedders.vectors import Numbers, Vectors, has_vector, unit_rows
from tests.engine.goals.groups import grouped, same_partition, wishes
from tests.engine.project.support import REPOSITORY

ARRAYS = ("labels", "centers", "distances")


def bits(found: Clusters) -> str:
    """A clustering's arrays."""
    return b"".join(getattr(found, name).tobytes() for name in ARRAYS).hex()


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

    def test_equal_rows_are_no_outliers(self) -> None:
        """Rows that are equal are clusters of their own, however their distances to the center round."""
        for seed in range(20):
            rows = unit_rows(np.random.default_rng(seed).standard_normal((3, 3)))
            labels = cluster(np.repeat(rows, 4, axis=0), 3).labels
            assert same_partition(labels, np.repeat(np.arange(3), 4))

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10**6), st.integers(2, 90), st.integers(1, 9), st.integers(1, 30))
    def test_shape(self, seed: int, count: int, dimensions: int, k: int) -> None:
        """For any rows no cluster is empty, each row is in one cluster or an outlier, clusters are numbered by size,
        and distances are those to the nearest center.
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
        distances = 1 - vectors[live] @ found.centers.T
        own_distances = distances[np.arange(len(distances)), found.labels[live]]
        assert np.allclose(own_distances[inside[live]], found.distances[inside], atol=1e-5)
        assert np.allclose(found.distances[live], distances.min(axis=1), atol=1e-5)
        assert all(np.isfinite(getattr(found, name)).all() for name in ARRAYS)
        assert np.allclose(np.linalg.norm(found.centers, axis=1), 1, atol=1e-5)

    def test_beside_scikit_learn(self) -> None:
        """The sum of squared distances is about that of scikit-learn's k-means with as many attempts."""
        vectors, _ = grouped(10, 60, noise=0.6)
        plain = KMeans(14, n_init=kmeans.RESTARTS, random_state=0).fit(vectors)
        centers = unit_rows(plain.cluster_centers_)
        theirs = float((1 - (vectors @ centers.T).max(axis=1)).mean())
        found = cluster(vectors, 14, cut=None)
        assert found.distances.mean() < 1.01 * theirs

    def test_stopping(self) -> None:
        """An exception of the `note` callback ends the work; the steps that it is called with add up to the total."""
        steps_noted: list[tuple[int, int]] = []

        def stop(done: int, total: int) -> None:
            steps_noted.append((done, total))
            if done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cluster(grouped()[0], 6, note=stop)
        assert steps_noted == [
            (0, kmeans.RESTARTS),
            (1, kmeans.RESTARTS),
            (2, kmeans.RESTARTS),
        ]


class TestRepetition:
    def test_same_in_another_process(self) -> None:
        """The same rows and seed give the same bits in another process, with another number of threads."""
        code = (
            "from engine.goals.clusters.clustering import cluster\n"
            "from tests.engine.goals.groups import grouped\n"
            "found = cluster(grouped(noise=0.4)[0], 9, 3)\n"
            f"print(b''.join(getattr(found, name).tobytes() for name in {ARRAYS}).hex())"
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
        """Rows in another order get the same partition and centers, bit for bit, even without structure; distances to
        the last digit, which depends on the place of a row in a product of matrices."""
        vectors = any_rows(seed, count, 5)
        if not has_vector(vectors).any():
            return
        turned = np.random.default_rng(seed).permutation(count)
        one, other = cluster(vectors, 6, seed), cluster(vectors[turned], 6, seed)
        assert (one.centers == other.centers).all()
        assert (one.labels[turned] == other.labels).all()
        assert np.allclose(one.distances[turned], other.distances, atol=1e-6)

    def test_many_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Above the limit of rows mini-batches find the groups too, and are reproducible bit for bit."""
        monkeypatch.setattr(kmeans, "FULL_BATCH_ROWS", 200)
        monkeypatch.setattr(kmeans, "MINI_BATCH_ROWS", 64)
        vectors, truth = grouped(6, 150)
        found = cluster(vectors, 6, 1, cut=None)
        assert same_partition(found.labels, truth)
        assert bits(found) == bits(cluster(vectors, 6, 1, cut=None))


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
            assert measure_silhouette(rows, labels) == 0
        elif groups > 1:
            expected = silhouette_score(rows, labels, metric="cosine")
            assert measure_silhouette(rows, labels) == pytest.approx(expected, abs=1e-4)

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


class TestAssigned:
    def test_more_of_the_same(self) -> None:
        """Rows of the learnt groups are assigned to them; about one in a hundred is novel."""
        vectors, truth = grouped(5, 200, noise=0.1)
        labels, _ = assign(vectors[1::2], learn_membership(vectors[::2], truth[::2], 5))
        inside = labels != OUTLIER
        assert inside.mean() > 0.95
        assert (labels[inside] == truth[1::2][inside]).all()


def repeated(
    vectors: Vectors, labels: Numbers, k: int, seed: int, *, seeds: int, bootstraps: int
) -> list[Repetition]:
    """So many repetitions of each kind."""
    wanted: list[tuple[Kind, int]] = [("seed", number) for number in range(seeds)]
    wanted += [("bootstrap", number) for number in range(bootstraps)]
    return [repeat_clustering(vectors, labels, k, seed, kind, number) for kind, number in wanted]


def mean_jaccard(repetitions: list[Repetition]) -> list[float]:
    """The mean Jaccard similarity of each cluster over the bootstraps that have it."""
    values = [r.jaccard for r in repetitions if r.kind == "bootstrap"]
    return [
        float(np.mean([v for v in each if v is not None])) for each in zip(*values, strict=True)
    ]


def mean_ari(repetitions: list[Repetition], kind: Kind) -> float:
    """The mean adjusted Rand index of the repetitions of a kind."""
    return float(np.mean([r.ari for r in repetitions if r.kind == kind]))


class TestRepetitions:
    def test_groups_come_again(self) -> None:
        """Well separated groups are found again with other seeds and in bootstraps."""
        vectors, _ = grouped(5, 40)
        labels = cluster(vectors, 5).labels
        found = repeated(vectors, labels, 5, 0, seeds=2, bootstraps=4)
        assert mean_ari(found, "seed") == pytest.approx(1, abs=0.02)
        assert mean_ari(found, "bootstrap") == pytest.approx(1, abs=0.05)
        assert min(mean_jaccard(found)) > STABLE

    def test_arbitrary_cuts_do_not(self) -> None:
        """A cloud without groups is cut differently each time."""
        vectors = unit_rows(np.random.default_rng(0).standard_normal((300, 12)))
        labels = cluster(vectors, 8).labels
        found = repeated(vectors, labels, 8, 0, seeds=2, bootstraps=4)
        assert mean_ari(found, "seed") < 0.5
        assert sum(value < DISSOLVED for value in mean_jaccard(found)) > 5


class TestWords:
    def test_tell_apart(self) -> None:
        """Each group of goals gets words that only it contains."""
        texts, kinds = wishes()
        names = sorted(set(kinds))
        labels = np.array([names.index(kind) for kind in kinds], dtype=np.int32)
        found = distinctive_words(texts, labels, 2)
        assert set(found[names.index("flight")]) <= {"flight", "book", "plane", "ticket", "need"}
        assert set(found[names.index("refund")]) <= {"refund", "money", "broke", "want"}
        assert set(found[names.index("weather")]) <= {"weather", "rain", "expected", "tomorrow"}


def alike(*themes: tuple[int, ...], goals: int = 8) -> np.ndarray:
    """Similarities that are high within themes, and low with noise elsewhere."""
    rng = np.random.default_rng(0)
    similarity = rng.uniform(0, 0.2, (goals, goals))
    similarity = (similarity + similarity.T) / 2
    for theme in themes:
        similarity[np.ix_(theme, theme)] += 0.6
    np.fill_diagonal(similarity, 1)
    return similarity


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_goals_that_are_alike_are_a_theme(scale: float) -> None:
    """Goals that are more alike than most stand under one theme, however large the cosines are; the others in none."""
    assert group_by_theme(scale * alike((0, 3, 7), (1, 2))) == [[0, 3, 7], [1, 2]]


@pytest.mark.parametrize(
    ("goals", "label"),
    [
        (
            ["Return something", "Get a refund", "Exchange a size"],
            "Return something, get a refund, exchange a size",
        ),
        (["Find a flat", "A", "ATM search", "Pay"], "Find a flat, A and 2 more"),
        (["Find food · Thai", "Find food (2)", "FAQ"], "Find food, FAQ"),
    ],
)
def test_a_theme_is_named_by_its_goals(goals: list[str], label: str) -> None:
    """The name of a theme lists its goals, namesakes once, and counts those beyond three."""
    assert theme_label(goals) == label
