"""Finds how similar two groups must be to count as one goal, from the vectors of the clustering alone.

The right cosine differs between data and embedders (0.5 with TF-IDF, 0.7 with MiniLM on the same dialogues), so groups
are compared by a similarity that is scaled to have the same meaning for all of them:

    similarity(a, b) = (cross(a, b) - b0) / (sqrt(within(a) within(b)) - b0)

cross is the mean cosine between members of a and members of b, within the mean cosine between members of one group, and
b0 the mean cosine between unrelated clusters (a low quantile of cross over all pairs of clusters). The scaled
similarity is 0 for unrelated groups and 1 for two halves of one group. The threshold above which two groups are one
goal still depends on how broad goals are in the data. `granularity` finds it:

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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.base.statistics.agreement import adjusted_rand
from engine.goals.clusters.kmeans import canonical_order, closest, solve
from engine.model.embedders.vectors import Numbers, Vectors

Floats = npt.NDArray[np.float64]

SAMPLE = 3_000
"""Most rows that are used; of more, a random sample."""
SUBSAMPLES, SUBSAMPLE_SHARE = 4, 0.75
"""Number of random subsamples of the rows, and the share of the rows in each."""
FEW_ROWS, STARTS = 100, 10
"""With fewer rows, k-means on a subsample takes the best of so many starts, else one. From one start, few rows end so
often in a poor optimum that rounding (another processor) decided on the threshold."""
BACKGROUND_QUANTILE = 0.25
"""Quantile of cross that is b0; each pair of clusters is weighted by its number of pairs of members."""
PSEUDO_MEMBERS = 3
"""Weight, in members, of the mean of within over all groups when within of one group is estimated. Without it no group
would be similar to one of two near-equal texts."""
MIN_RANGE = 0.02
"""Least difference between within and b0, so that the scaled similarity stays finite."""
DEFAULT = 0.5
"""Threshold if there are fewer than three clusters or fewer than `LEAST_ROWS` rows."""
LEAST_ROWS = 20
STABILITY_EXPONENT = 2
"""Exponent of agreement times persistence."""
RATIO_OFFSET = 0.2
"""Added to both similarities before their ratio, the persistence, is taken: near 0 the ratio would be noise."""
QUALITY_EXPONENT = 6
"""Exponent of the quality as a weight: at 6, a partition of 90% of the best quality has half the weight of the best."""
PRIOR_THRESHOLD, PRIOR_WIDTH = 0.4, 0.6
"""Mean and standard deviation of a normal prior of the threshold. It is broad, so it decides only between partitions of
about equal quality, such as groups of near duplicates and groups of whole goals."""


@dataclass(frozen=True, slots=True)
class Granularity:
    """How broad the goals of a clustering are.

    Attributes:
        background: b0, the mean cosine between unrelated clusters.
        within_mean: Mean of within over clusters, weighted by members.
        threshold: Scaled similarity above which two groups are more probably one goal than two.
        groups: Number of groups after merging the clusters down to the threshold.
    """

    background: float
    within_mean: float
    threshold: float
    groups: int

    def scaled_similarity(self, sums: Floats, sizes: Floats) -> Floats:
        """Scaled similarity of all pairs of groups, shape (groups, groups).

        Args:
            sums: Sum of the members' vectors of each group, shape (groups, d).
            sizes: Number of members of each group, shape (groups,).
        """
        return _scaled_similarity(sums @ sums.T, sizes, self.background, self.within_mean)

    def cosine_at_threshold(self, sums: Floats, sizes: Floats) -> Floats:
        """Cosine of the centers of each pair of groups at which their scaled similarity would be the threshold, for the
        given spread of each group; shape (groups, groups), at most 1. Arguments as for `scaled_similarity`."""
        scale = _scale(np.square(sums).sum(axis=1), sizes, self.background, self.within_mean)
        cross = self.background + self.threshold * scale
        share = sizes / np.maximum(np.linalg.norm(sums, axis=1), 1e-12)
        found: Floats = np.clip(cross * np.outer(share, share), -1, 1)
        return found


@dataclass(frozen=True, slots=True)
class _Step:
    """One agglomerative merge: group `second` is merged into group `first`; both are indices of clusters."""

    first: int
    second: int
    similarity: float


def granularity(
    vectors: Vectors,
    labels: Numbers,
    seed: int = 0,
    note: Callable[[int, int], None] = lambda done, total: None,
) -> Granularity:
    """Finds how broad goals are; see the module docstring. The same rows, labels and seed give the same result.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row, negative for outliers.
        note: Called with (subsamples done, subsamples in all); may raise to stop the work.
    """
    rng = np.random.default_rng([seed, 0x677261])
    inside = np.flatnonzero(labels >= 0)
    if len(inside) > SAMPLE:
        inside = np.sort(rng.choice(inside, SAMPLE, replace=False))
    rows = np.ascontiguousarray(vectors[inside], dtype=np.float32)
    own = _without_gaps(labels[inside])
    k = int(own.max(initial=-1)) + 1
    sums, sizes = _sums(rows, own, k)
    background, within_mean = _background(sums, sizes)
    if k < 3 or len(rows) < LEAST_ROWS:
        return Granularity(background, within_mean, DEFAULT, k)
    steps = _agglomerate(sums, sizes, background, within_mean)
    agreement = np.zeros(k + 1)
    starts = STARTS if len(rows) < FEW_ROWS else 1
    for part in range(SUBSAMPLES):
        note(part, SUBSAMPLES)
        chosen = np.sort(
            rng.choice(len(rows), max(k, int(SUBSAMPLE_SHARE * len(rows))), replace=False)
        )
        order = canonical_order(rows[chosen], np.arange(len(chosen)), seed)
        found = solve(rows[chosen], order, k, seed + part, restarts=starts, note=lambda *_: None)
        other = closest(rows[chosen], found.centres)[0]
        other_steps = _agglomerate(
            *_sums(rows[chosen], other, len(found.centres)),
            background=background,
            within_mean=within_mean,
        )
        agreement += _agreement(own[chosen], steps, k, other, other_steps, len(found.centres))
    heights = np.minimum.accumulate([1.0, *(step.similarity for step in steps)])
    thresholds = (heights[:-1] + heights[1:]) / 2  # of k groups, k - 1, and so on down to 2
    expected = np.exp(-(((thresholds - PRIOR_THRESHOLD) / PRIOR_WIDTH) ** 2) / 2)
    scale = np.maximum(heights, 0) + RATIO_OFFSET
    inside_groups, every = _pairs_inside(sizes, steps[:-1])
    separated = 1 - inside_groups / every
    stability = np.maximum(agreement[:1:-1] / SUBSAMPLES, 0) * scale[:-1] / scale[1:]
    silhouettes = np.maximum(_silhouettes(rows, own, sums, sizes, steps)[:1:-1], 0)
    at = _consensus(
        silhouettes * separated * stability**STABILITY_EXPONENT * expected, inside_groups, every
    )
    return Granularity(background, within_mean, float(thresholds[at]), k - at)


def _pairs_inside(sizes: Floats, steps: Sequence[_Step]) -> tuple[Floats, float]:
    """Number of pairs of rows in the same group, for each partition from the clusters down to two groups; and the
    number of all pairs."""
    sizes, count = sizes.copy(), float(sizes.sum())
    found = [float((sizes * (sizes - 1)).sum()) / 2]
    for step in steps:
        found.append(found[-1] + float(sizes[step.first] * sizes[step.second]))
        sizes[step.first] += sizes[step.second]
    return np.array(found), count * (count - 1) / 2


def _consensus(quality: Floats, pairs: Floats, every: float) -> int:
    """Index of the partition with the highest mean adjusted Rand index with all, weighted by quality; the first of
    equals.

    Each partition is made from the one before by merging, so a pair of rows that shares a group in the finer one shares
    one in the coarser too. Their adjusted Rand index therefore follows from the two numbers of such pairs.

    Args:
        quality: Of each partition, not negative, the finest first.
        pairs: Number of pairs of rows in the same group, for each partition.
        every: Number of all pairs of rows.
    """
    best = quality.max()
    if best <= 0:
        return 0
    fine, coarse = np.minimum.outer(pairs, pairs), np.maximum.outer(pairs, pairs)
    chance = fine * coarse / every
    most = (fine + coarse) / 2
    alike = np.divide(fine - chance, most - chance, out=np.ones_like(most), where=most > chance)
    return int(np.argmax(alike @ (quality / best) ** QUALITY_EXPONENT))


def _without_gaps(labels: Numbers) -> Numbers:
    """Renumbers labels to 0, 1, 2, ... without gaps, in their order."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def _sums(rows: Vectors, labels: Numbers, k: int) -> tuple[Floats, Floats]:
    sums = np.zeros((k, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return sums, np.bincount(labels, minlength=k).astype(float)


def _background(sums: Floats, sizes: Floats) -> tuple[float, float]:
    """(b0, mean of within over clusters)."""
    products, pairs = sums @ sums.T, np.outer(sizes, sizes)
    upper = np.triu_indices(len(sizes), 1)
    several = sizes > 1
    within = (np.diag(products)[several] - sizes[several]) / (sizes[several] * (sizes[several] - 1))
    within_mean = float(np.average(within, weights=sizes[several])) if several.any() else 1.0
    if not len(upper[0]):
        return 0.0, within_mean
    cross, weights = products[upper] / pairs[upper], pairs[upper]
    order = np.argsort(cross, kind="stable")
    reached = np.cumsum(weights[order])
    background = cross[order][np.searchsorted(reached, BACKGROUND_QUANTILE * reached[-1])]
    return float(background), max(within_mean, float(background) + MIN_RANGE)


def _scaled_similarity(
    products: Floats, sizes: Floats, background: float, within_mean: float
) -> Floats:
    scale = _scale(np.diag(products), sizes, background, within_mean)
    found: Floats = (products / np.outer(sizes, sizes) - background) / scale
    return found


def _scale(squares: Floats, sizes: Floats, background: float, within_mean: float) -> Floats:
    """What the scaled similarity of each pair is divided by; `squares` are the squared lengths of the sums."""
    own, pooled = sizes * (sizes - 1), PSEUDO_MEMBERS * (PSEUDO_MEMBERS - 1)
    within = (squares - sizes + within_mean * pooled) / (own + pooled)
    scale = np.sqrt(np.maximum(0.0, np.outer(within, within))) - background
    found: Floats = np.maximum(scale, MIN_RANGE)
    return found


def _agglomerate(sums: Floats, sizes: Floats, background: float, within_mean: float) -> list[_Step]:
    """Merges the most similar pair until one group is left; returns the merges in order."""
    products, sizes = sums @ sums.T, sizes.copy()
    alive = np.arange(len(sizes))
    steps: list[_Step] = []
    while len(alive) > 1:
        near = _scaled_similarity(
            products[np.ix_(alive, alive)], sizes[alive], background, within_mean
        )
        near[np.tril_indices(len(alive))] = -np.inf
        a, b = np.unravel_index(int(near.argmax()), near.shape)
        first, second = int(alive[a]), int(alive[b])
        steps.append(_Step(first, second, float(near[a, b])))
        products[first] += products[second]
        products[:, first] += products[:, second]
        sizes[first] += sizes[second]
        alive = np.delete(alive, b)
    return steps


def _agreement(
    labels: Numbers, steps: Sequence[_Step], k: int,
    others: Numbers, other_steps: Sequence[_Step], other_k: int,
) -> Floats:  # fmt: skip
    """Adjusted Rand index of two partitions of the same rows at each number of groups, shape (k + 1,); 0 below 2
    groups.

    Each merge updates the contingency table, so no step looks at rows. While one partition has fewer groups than asked
    for, it is compared unmerged.
    """
    table = np.zeros((k, other_k), dtype=np.int64)
    np.add.at(table, (labels, others), 1)
    found = np.zeros(k + 1)
    groups_here, groups_there = k, other_k
    for groups in range(k, 1, -1):
        while groups_here > groups:
            step = steps[k - groups_here]
            table[step.first] += table[step.second]
            table[step.second] = 0
            groups_here -= 1
        while groups_there > groups:
            step = other_steps[other_k - groups_there]
            table[:, step.first] += table[:, step.second]
            table[:, step.second] = 0
            groups_there -= 1
        found[groups] = adjusted_rand(table)
    return found


def _silhouettes(
    rows: Vectors, labels: Numbers, sums: Floats, sizes: Floats, steps: Sequence[_Step]
) -> Floats:
    """Mean silhouette at each number of groups, shape (k + 1,), by mean cosine distance to the members of groups."""
    k = len(sizes)
    to = np.asarray(rows, dtype=np.float64) @ sums.T  # sums of cosines to the members of each group
    sizes, own, alive = sizes.copy(), labels.astype(np.int64), np.ones(k, dtype=bool)
    all_rows = np.arange(len(rows))
    found = np.zeros(k + 1)
    for groups in range(k, 1, -1):
        inside = to[all_rows, own]
        near = np.where(sizes[own] > 1, 1 - (inside - 1) / np.maximum(sizes[own] - 1, 1), 0.0)
        means = np.where(alive, to / sizes, -np.inf)
        means[all_rows, own] = -np.inf
        far = 1 - means.max(axis=1)
        score = np.where(
            sizes[own] > 1, (far - near) / np.maximum(1e-9, np.maximum(far, near)), 0.0
        )
        found[groups] = score.mean()
        if groups == 2:
            break
        step = steps[k - groups]
        to[:, step.first] += to[:, step.second]
        sizes[step.first] += sizes[step.second]
        own[own == step.second] = step.first
        alive[step.second] = False
    return found
