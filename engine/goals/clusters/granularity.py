"""Finds how similar two groups must be to count as one goal, from the vectors of the clustering alone.

The right cosine differs between data and embedders (0.5 with TF-IDF, 0.7 with MiniLM on the same dialogues), so groups
are compared by a similarity that is scaled to have the same meaning for all of them:

    similarity(a, b) = (cross(a, b) - b0) / (sqrt(within(a) within(b)) - b0)

cross is the mean cosine between members of a and members of b, within the mean cosine between members of one group, and
b0 the mean cosine between unrelated clusters (a low quantile of cross over all pairs of clusters). The scaled
similarity is 0 for unrelated groups and 1 for two halves of one group. The threshold above which two groups are one
goal still depends on how broad goals are in the data. `find_granularity` finds it:

1. Merge the clusters agglomeratively, the most similar pair first, which gives a partition for each number of groups.
2. Do the same with clusterings of random subsamples of the rows.
3. Compute the quality of each partition: silhouette times the share of pairs of rows in different groups times
   (agreement times persistence) squared. The silhouette compares the distances of members to their own group and to
   the next one (Rousseeuw 1987, J. Comput. Appl. Math. 20). Agreement is the adjusted Rand index with the partitions
   of the subsamples (Ben-Hur, Elisseeff & Guyon 2002, Pac. Symp. Biocomput.). Persistence is the ratio of the
   similarity of the last merge to that of the next one: a real partition holds over a range of thresholds. The
   silhouette alone prefers groups of near duplicates; agreement alone prefers few groups, most of all one that holds
   nearly all rows.
4. Near its maximum the quality is often flat, so that its maximum is partly chance. Take the partition with the highest
   mean adjusted Rand index with all partitions, weighted by their quality.

Exponents and priors below were chosen on nine public data sets; docs/lab/goals.md has the result on each set when
it was left out of that choice.

The threshold lies halfway between the similarities of the last merge and of the next one at that partition.

`group_by_theme` goes one step further: it groups goals that are alike, though not one goal, under themes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.goals.clusters.kmeans import (
    find_closest,
    order_canonically,
    silhouette_from_distances,
    solve,
)
from engine.model.embedders.vectors import Numbers, Vectors

_STREAM = 0x677261
"""Number of the stream of random numbers that this module draws (ASCII "gra"), so that no other use of the seed draws
the same ones."""

MAX_ROWS = 3_000
"""Most rows that are used; of more, a random sample."""
SUBSAMPLES, SUBSAMPLE_SHARE = 4, 0.75
"""Number of random subsamples of the rows, and the share of the rows in each."""
MIN_ROWS_FOR_ONE_START, STARTS_FOR_FEW_ROWS = 100, 10
"""With fewer rows, k-means on a subsample takes the best of so many starts, else one. From one start, few rows end so
often in a poor optimum that rounding (another processor) decided on the threshold."""
BACKGROUND_QUANTILE = 0.25
"""Quantile of cross that is b0; each pair of clusters is weighted by its number of pairs of members."""
PSEUDO_MEMBERS = 3
"""Weight, in members, of the mean of within over all groups when within of one group is estimated. Without it no group
would be similar to one of two near-equal texts."""
MIN_WITHIN_EXCESS = 0.02
"""Least difference between within and b0, so that the scaled similarity stays finite."""
DEFAULT_THRESHOLD = 0.5
"""Threshold if there are fewer than `_MIN_CLUSTERS` clusters or fewer than `MIN_ROWS` rows."""
_MIN_CLUSTERS = 3
"""Least number of clusters of which a threshold is estimated: two have no choice of partitions."""
MIN_ROWS = 20
"""Least number of rows of which a threshold is estimated."""
STABILITY_EXPONENT = 2
"""Exponent of agreement times persistence."""
RATIO_OFFSET = 0.2
"""Added to both similarities before their ratio, the persistence, is taken: near 0 the ratio would be noise."""
QUALITY_EXPONENT = 6
"""Exponent of the quality as a weight: at 6, a partition of 90% of the best quality has half the weight of the best."""
PRIOR_THRESHOLD, PRIOR_WIDTH = 0.4, 0.6
"""Mean and standard deviation of a normal prior of the threshold. It is broad, so it decides only between partitions of
about equal quality, such as groups of near duplicates and groups of whole goals."""

MIN_THEME_QUANTILE = 0.9
"""Quantile of the similarities of all pairs of goals that the mean similarity within a theme must reach
(docs/lab/goals.md)."""


class Baseline(NamedTuple):
    """The mean cosines from which a scaled similarity is measured.

    Attributes:
        background: b0, the mean cosine between unrelated clusters.
        within_mean: Mean of within over clusters, weighted by members.
    """

    background: float
    within_mean: float


@dataclass(frozen=True, slots=True)
class Granularity:
    """How broad the goals of a clustering are.

    Attributes:
        baseline: The mean cosines of the clusters.
        threshold: Scaled similarity above which two groups are more probably one goal than two.
        groups: Number of groups after merging the clusters down to the threshold.
    """

    baseline: Baseline
    threshold: float
    groups: int

    def scaled_similarity(self, sums: Floats, sizes: Floats) -> Floats:
        """Returns the scaled similarity of all pairs of groups, shape (groups, groups).

        Args:
            sums: Sum of the members' vectors of each group, shape (groups, d).
            sizes: Number of members of each group, shape (groups,).
        """
        return _scaled_similarity(sums @ sums.T, sizes, self.baseline)

    def cosine_at_threshold(self, sums: Floats, sizes: Floats) -> Floats:
        """Returns the cosine of the centers of each pair of groups at which their scaled similarity would be the
        threshold, for the given spread of each group; shape (groups, groups), at most 1. Arguments as for
        `scaled_similarity`."""
        scale = _scale(np.square(sums).sum(axis=1), sizes, self.baseline)
        cross = self.baseline.background + self.threshold * scale
        mean_lengths = sizes / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)
        cosines: Floats = np.clip(cross * np.outer(mean_lengths, mean_lengths), -1, 1)
        return cosines


@dataclass(frozen=True, slots=True)
class _Step:
    """One agglomerative merge: group `second` is merged into group `first`; both are indices of clusters, and
    `similarity` is their scaled similarity."""

    first: int
    second: int
    similarity: float


class _Merges(NamedTuple):
    """Clusters and the order in which they are merged.

    Attributes:
        labels: Cluster of each row, shape (rows,).
        steps: The merges, down to one group.
        k: Number of clusters.
    """

    labels: Numbers
    steps: Sequence[_Step]
    k: int


def find_granularity(
    vectors: Vectors,
    labels: Numbers,
    seed: int = 0,
) -> Granularity:
    """Returns how broad goals are; see the module docstring. The same rows, labels and seed give the same result.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row, negative for outliers, shape (n,).
        seed: Seed of all random numbers.
    """
    rng = np.random.default_rng([seed, _STREAM])
    clustered = np.flatnonzero(labels >= 0)
    if len(clustered) > MAX_ROWS:
        clustered = np.sort(rng.choice(clustered, MAX_ROWS, replace=False))
    rows = np.ascontiguousarray(vectors[clustered], dtype=np.float32)
    # numbered anew: of a cluster that the sample missed there is no row
    present, new_numbers = np.unique(labels[clustered], return_inverse=True)
    row_clusters, k = new_numbers.astype(np.int32), len(present)
    sums, sizes = _sums(rows, row_clusters, k)
    baseline = _baseline_of(sums, sizes)
    if k < _MIN_CLUSTERS or len(rows) < MIN_ROWS:
        return Granularity(baseline, DEFAULT_THRESHOLD, k)
    steps = _agglomerate(sums, sizes, baseline)
    agreement = _agreement_of_samples(rows, _Merges(row_clusters, steps, k), baseline, seed, rng)
    # All arrays from here on have one entry for each partition, of k groups, k - 1, and so on down to 2; heights has
    # one more, because a partition lies between two merges. Running minima, because a later merge can be more similar.
    heights = np.minimum.accumulate([1.0, *(step.similarity for step in steps)])
    thresholds = (heights[:-1] + heights[1:]) / 2
    prior = np.exp(-(((thresholds - PRIOR_THRESHOLD) / PRIOR_WIDTH) ** 2) / 2)
    scale = np.maximum(heights, 0) + RATIO_OFFSET
    pairs_in_groups, all_pairs = _pairs_inside(sizes, steps[:-1])
    separated = 1 - pairs_in_groups / all_pairs
    # `[:1:-1]` turns an array by number of groups, 0 to k, into one from k groups down to 2.
    stability = np.maximum(agreement[:1:-1], 0) * scale[:-1] / scale[1:]
    silhouettes = np.maximum(_silhouettes(rows, row_clusters, sums, sizes, steps)[:1:-1], 0)
    index = _consensus(
        silhouettes * separated * stability**STABILITY_EXPONENT * prior, pairs_in_groups, all_pairs
    )
    return Granularity(baseline, float(thresholds[index]), k - index)


def _agreement_of_samples(
    rows: Vectors,
    merges: _Merges,
    baseline: Baseline,
    seed: int,
    rng: np.random.Generator,
) -> Floats:
    """Returns the mean agreement of merges with those of random subsamples of the rows, at each number of groups, shape
    (k + 1,)."""
    restarts = STARTS_FOR_FEW_ROWS if len(rows) < MIN_ROWS_FOR_ONE_START else 1
    sample_size = max(merges.k, int(SUBSAMPLE_SHARE * len(rows)))
    agreement = np.zeros(merges.k + 1)
    for subsample in range(SUBSAMPLES):
        sample = np.sort(rng.choice(len(rows), sample_size, replace=False))
        sample_rows = rows[sample]
        order = order_canonically(sample_rows, np.arange(sample_size), seed)
        centers = solve(sample_rows, order, merges.k, seed + subsample, restarts=restarts).centers
        sample_labels, _ = find_closest(sample_rows, centers)
        steps = _agglomerate(*_sums(sample_rows, sample_labels, len(centers)), baseline)
        agreement += _agreement(
            merges._replace(labels=merges.labels[sample]),
            _Merges(sample_labels, steps, len(centers)),
        )
    return agreement / SUBSAMPLES


def _pairs_inside(sizes: Floats, steps: Sequence[_Step]) -> tuple[Floats, float]:
    """Returns the number of pairs of rows in the same group, for each partition from the clusters down to two groups,
    shape (partitions,); and the number of all pairs. `sizes` has the shape (clusters,)."""
    sizes, count = sizes.copy(), float(sizes.sum())
    pair_counts = [float((sizes * (sizes - 1)).sum()) / 2]
    for step in steps:
        pair_counts.append(pair_counts[-1] + float(sizes[step.first] * sizes[step.second]))
        sizes[step.first] += sizes[step.second]
    return np.array(pair_counts), count * (count - 1) / 2


def _consensus(quality: Floats, pairs: Floats, all_pairs: float) -> int:
    """Returns the index of the partition with the highest mean adjusted Rand index with all, weighted by quality; the
    first of equals.

    Each partition is made from the one before by merging, so a pair of rows that shares a group in the finer one shares
    one in the coarser too. Their adjusted Rand index therefore follows from the two numbers of such pairs.

    Args:
        quality: Of each partition, not negative, the finest first, shape (partitions,).
        pairs: Number of pairs of rows in the same group, for each partition, shape (partitions,).
        all_pairs: Number of all pairs of rows.
    """
    best = quality.max()
    if best <= 0:
        return 0
    fine, coarse = np.minimum.outer(pairs, pairs), np.maximum.outer(pairs, pairs)
    expected_pairs = fine * coarse / all_pairs
    max_pairs = (fine + coarse) / 2
    rand_indices = np.divide(
        fine - expected_pairs,
        max_pairs - expected_pairs,
        out=np.ones_like(max_pairs),
        where=max_pairs > expected_pairs,
    )
    return int(np.argmax(rand_indices @ (quality / best) ** QUALITY_EXPONENT))


def _sums(rows: Vectors, labels: Numbers, k: int) -> tuple[Floats, Floats]:
    """Returns the sum of the rows and the number of rows of each cluster, shapes (k, d) and (k,)."""
    sums = np.zeros((k, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return sums, np.bincount(labels, minlength=k).astype(float)


def _baseline_of(sums: Floats, sizes: Floats) -> Baseline:
    """Returns the baseline of clusters, from the sums and sizes of `_sums`.

    The product of two sums is the sum of the cosines of all pairs of their members. That of a sum with itself has the
    cosine 1 of each member with itself too, which is subtracted.
    """
    products, pairs = sums @ sums.T, np.outer(sizes, sizes)
    cluster_pairs = np.triu_indices(len(sizes), 1)
    has_pairs = sizes > 1
    within = (np.diag(products)[has_pairs] - sizes[has_pairs]) / (
        sizes[has_pairs] * (sizes[has_pairs] - 1)
    )
    within_mean = float(np.average(within, weights=sizes[has_pairs])) if has_pairs.any() else 1.0
    if len(sizes) < 2:
        return Baseline(0.0, within_mean)
    cross, weights = products[cluster_pairs] / pairs[cluster_pairs], pairs[cluster_pairs]
    order = np.argsort(cross, kind="stable")
    cumulative_weights = np.cumsum(weights[order])
    rank = np.searchsorted(cumulative_weights, BACKGROUND_QUANTILE * cumulative_weights[-1])
    background = float(cross[order][rank])
    return Baseline(background, max(within_mean, background + MIN_WITHIN_EXCESS))


def _scaled_similarity(products: Floats, sizes: Floats, baseline: Baseline) -> Floats:
    """Returns the scaled similarities of all pairs of groups, from the products of their sums; shape (groups,
    groups)."""
    scale = _scale(np.diag(products), sizes, baseline)
    similarities: Floats = (products / np.outer(sizes, sizes) - baseline.background) / scale
    return similarities


def _scale(squares: Floats, sizes: Floats, baseline: Baseline) -> Floats:
    """Returns what the scaled similarity of each pair is divided by, shape (groups, groups); `squares` are the squared
    lengths of the sums, shape (groups,)."""
    own_pairs, pseudo_pairs = sizes * (sizes - 1), PSEUDO_MEMBERS * (PSEUDO_MEMBERS - 1)
    within = (squares - sizes + baseline.within_mean * pseudo_pairs) / (own_pairs + pseudo_pairs)
    scale = np.sqrt(np.maximum(0.0, np.outer(within, within))) - baseline.background
    bounded_scale: Floats = np.maximum(scale, MIN_WITHIN_EXCESS)
    return bounded_scale


def _agglomerate(sums: Floats, sizes: Floats, baseline: Baseline) -> list[_Step]:
    """Returns the merges, in order, of the most similar pair until one group is left; `sums` and `sizes` are those that
    `_sums` returns of the clusters."""
    products, sizes = sums @ sums.T, sizes.copy()
    remaining = np.arange(len(sizes))
    steps: list[_Step] = []
    while len(remaining) > 1:
        similarities = _scaled_similarity(
            products[np.ix_(remaining, remaining)], sizes[remaining], baseline
        )
        similarities[np.tril_indices(len(remaining))] = -np.inf
        a, b = np.unravel_index(int(similarities.argmax()), similarities.shape)
        first, second = int(remaining[a]), int(remaining[b])
        steps.append(_Step(first, second, float(similarities[a, b])))
        products[first] += products[second]
        products[:, first] += products[:, second]
        sizes[first] += sizes[second]
        remaining = np.delete(remaining, b)
    return steps


def _agreement(merges: _Merges, other: _Merges) -> Floats:
    """Returns the adjusted Rand index of two partitions of the same rows at each number of groups, shape (k + 1,); 0
    below 2 groups.

    Each merge updates the contingency table, so no step looks at rows. While one partition has fewer groups than asked
    for, it is compared unmerged.
    """
    table = np.zeros((merges.k, other.k), dtype=np.int64)
    np.add.at(table, (merges.labels, other.labels), 1)
    rand_indices = np.zeros(merges.k + 1)
    first_groups, second_groups = merges.k, other.k
    for groups in range(merges.k, 1, -1):
        while first_groups > groups:
            step = merges.steps[merges.k - first_groups]
            table[step.first] += table[step.second]
            table[step.second] = 0
            first_groups -= 1
        while second_groups > groups:
            step = other.steps[other.k - second_groups]
            table[:, step.first] += table[:, step.second]
            table[:, step.second] = 0
            second_groups -= 1
        rand_indices[groups] = _adjusted_rand(table)
    return rand_indices


def _adjusted_rand(table: Ints) -> float:
    """Returns the adjusted Rand index of a contingency table, by numbers of pairs in integers without bound."""
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    total, squares = int(table.sum()), int((table**2).sum())
    by_rows, by_columns = int((rows**2).sum()) - squares, int((columns**2).sum()) - squares
    if not by_rows and not by_columns:
        return 1.0
    same, apart = squares - total, total**2 - by_rows - by_columns - squares
    return (
        2.0
        * (same * apart - by_rows * by_columns)
        / ((same + by_rows) * (by_rows + apart) + (same + by_columns) * (by_columns + apart))
    )


def _silhouettes(
    rows: Vectors, labels: Numbers, sums: Floats, sizes: Floats, steps: Sequence[_Step]
) -> Floats:
    """Returns the mean silhouette at each number of groups, shape (k + 1,), by mean cosine distance to the members of
    groups. A row alone in its group counts as 0.

    Args:
        rows: Shape (n, d).
        labels: Cluster of each row, shape (n,).
        sums, sizes: From `_sums` of the clusters.
        steps: The merges of the clusters.
    """
    k = len(sizes)
    # Sums of cosines of each row with the members of each group, shape (n, k).
    cosine_sums = np.asarray(rows, dtype=np.float64) @ sums.T
    sizes, group_of_row, is_group = sizes.copy(), labels.astype(np.int64), np.ones(k, dtype=bool)
    silhouettes = np.zeros(k + 1)
    for groups in range(k, 1, -1):
        distances = np.where(is_group, 1 - cosine_sums / sizes, np.inf)
        silhouettes[groups] = silhouette_from_distances(distances, group_of_row, sizes)
        if groups == 2:
            break
        step = steps[k - groups]
        cosine_sums[:, step.first] += cosine_sums[:, step.second]
        sizes[step.first] += sizes[step.second]
        group_of_row[group_of_row == step.second] = step.first
        is_group[step.second] = False
    return silhouettes


def group_by_theme(similarity: Floats) -> list[list[int]]:
    """Returns the goals of each theme, by index, the first goals first; a goal that is like no other is in none.

    Themes are joined as long as the mean similarity of the goals of the two most similar ones is at least
    the `MIN_THEME_QUANTILE` of all pairs, so that the number of themes does not depend on how large the cosines of an
    embedder are.

    Args:
        similarity: Cosines of the centers of the goals, shape (goals, goals).
    """
    count, _ = similarity.shape
    if count < 3:  # two goals have one similarity, which says nothing of itself
        return []
    least = float(np.quantile(similarity[np.triu_indices(count, 1)], MIN_THEME_QUANTILE))
    themes = [[index] for index in range(count)]
    means = similarity.copy()
    np.fill_diagonal(means, -np.inf)
    while True:
        first, second = sorted(divmod(int(means.argmax()), len(themes)))
        if means[first, second] < least:
            return [theme for theme in themes if len(theme) > 1]
        sizes = len(themes[first]), len(themes[second])
        joined = np.average(means[[first, second]], axis=0, weights=sizes)
        means[first], means[:, first], means[first, first] = joined, joined, -np.inf
        means = np.delete(np.delete(means, second, axis=0), second, axis=1)
        themes[first] = sorted(themes[first] + themes.pop(second))
        if len(themes) == 1:
            return themes
