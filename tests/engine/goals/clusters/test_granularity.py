"""Granularity: the scaled similarity of groups, and the merge threshold that is found from the vectors alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score, silhouette_score

from engine.goals.clusters import granularity as granularity_module
from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.granularity import find_granularity
from engine.model.embedders.vectors import Numbers, Vectors, unit_rows


def tree(
    goals: int, kinds: int, each: int, *, apart: float, seed: int = 0
) -> tuple[Vectors, Numbers]:
    """Rows of goals that consist of several kinds; `apart` is the distance between kinds of one goal, as a share of
    that between goals.
    """
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.standard_normal((64, 64)))[0]
    centers = [
        axes[g] + apart * axes[8 + g * kinds + n] for g in range(goals) for n in range(kinds)
    ]
    rows = np.repeat(unit_rows(centers), each, axis=0)
    rows = unit_rows(rows + 0.08 * rng.standard_normal(rows.shape))
    return rows, np.repeat(np.arange(goals), kinds * each).astype(np.int32)


class TestThreshold:
    def test_finds_goals(self) -> None:
        """Clusters that overestimate the number of goals are merged into the goals, whether these are narrow or
        broad.
        """
        for kinds, apart in ((1, 0.0), (4, 0.4)):
            vectors, gold = tree(6, kinds, 120 // kinds, apart=apart)
            clusters = cluster(vectors, 24, 0)
            found = find_granularity(vectors, clusters.labels)
            assert found.groups == 6
            sums = np.zeros((clusters.k, vectors.shape[1]))
            inside = clusters.labels >= 0
            np.add.at(sums, clusters.labels[inside], vectors[inside])
            near = found.scaled_similarity(sums, clusters.sizes.astype(float))
            goal = np.array(
                [np.bincount(gold[clusters.labels == n]).argmax() for n in range(clusters.k)]
            )
            same = goal[:, None] == goal
            assert near[~same].max() < found.threshold

    def test_few_rows_whatever_the_seed(self) -> None:
        """Of few rows, the groups do not depend on where k-means starts: from one start each they do, and then rounding
        on another processor changes the groups too.
        """
        wordings = {
            "exchange my damaged desk lamp for a new one": 7,
            "move my flight to another day a later day": 5,
            "return my damaged desk lamp for a refund": 4,
            "book a flight ticket book a plane seat": 4,
            "count the files in the folder count them all": 4,
            "book a table in a restaurant for dinner": 3,
            "move a table booking dinner at another restaurant": 2,
        }
        places = ("rome", "oslo", "lima", "cairo", "kyoto", "quito", "delhi")
        texts = [f"{text} {place}" for text, n in wordings.items() for place in places[:n]]
        labels = np.repeat(np.arange(7), list(wordings.values())).astype(np.int32)
        counts = CountVectorizer().fit_transform(texts).toarray()
        vectors = unit_rows(counts * np.log(len(texts) / (counts > 0).sum(axis=0)))
        assert {find_granularity(vectors, labels, seed).groups for seed in range(4)} == {7}

    def test_cosine_at_threshold(self) -> None:
        """A pair whose centers are more alike than this cosine is above the threshold of the scaled similarity, any
        other is below it."""
        vectors, _ = tree(6, 4, 30, apart=0.4)
        clusters = cluster(vectors, 24, 0)
        found = find_granularity(vectors, clusters.labels)
        sums = np.array([vectors[clusters.labels == n].sum(axis=0) for n in range(clusters.k)])
        centers = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        sizes = clusters.sizes.astype(float)
        above = found.scaled_similarity(sums, sizes) > found.threshold
        pairs = np.triu_indices(clusters.k, 1)
        needed = found.cosine_at_threshold(sums, sizes)
        assert ((centers @ centers.T > needed) == above)[pairs].all()
        assert 0 < above[pairs].sum() < len(above[pairs])


class TestFigures:
    @settings(max_examples=10, deadline=None)
    @given(st.integers(0, 10**6), st.integers(3, 9))
    def test_the_consensus(self, seed: int, k: int) -> None:
        """The chosen partition agrees best with all others, weighted by quality, as measured by scikit-learn; the pairs
        within its clusters are counted exactly.
        """
        rng = np.random.default_rng(seed)
        rows = unit_rows(rng.standard_normal((30, 4)))
        labels = np.concatenate([np.arange(k), rng.integers(k, size=30 - k)]).astype(np.int32)
        sums, sizes = granularity_module._sums(rows, labels, k)
        steps = granularity_module._agglomerate(sums, sizes, granularity_module.Baseline(0.0, 0.5))
        partitions = [labels.copy()]
        for step in steps:
            partitions.append(np.where(partitions[-1] == step.second, step.first, partitions[-1]))
        pairs, every = granularity_module._pairs_inside(sizes, steps)
        inside = [int((one[:, None] == one).sum() - 30) // 2 for one in partitions]
        assert pairs.tolist() == inside
        assert every == 30 * 29 / 2
        quality = rng.random(len(partitions))
        weights = (quality / quality.max()) ** granularity_module.QUALITY_EXPONENT
        expected = [
            sum(w * adjusted_rand_score(a, b) for w, b in zip(weights, partitions, strict=True))
            for a in partitions
        ]
        at = granularity_module._consensus(quality, pairs, every)
        assert expected[at] == pytest.approx(max(expected))

    def test_silhouettes(self) -> None:
        """The silhouette of each partition of the hierarchy equals what scikit-learn computes from all pairs of
        rows.
        """
        rng = np.random.default_rng(4)
        rows = unit_rows(rng.standard_normal((40, 5)))
        labels = np.arange(40, dtype=np.int32) % 6
        sums, sizes = granularity_module._sums(rows, labels, 6)
        steps = granularity_module._agglomerate(sums, sizes, granularity_module.Baseline(0.0, 0.5))
        found = granularity_module._silhouettes(rows, labels, sums, sizes, steps)
        now = labels.copy()
        for groups, step in zip(range(6, 1, -1), steps, strict=True):
            expected = silhouette_score(rows, now, metric="cosine")
            assert found[groups] == pytest.approx(expected, abs=1e-5)
            now[now == step.second] = step.first
