"""How alike two groups must be to count as one goal, read from the vectors of this clustering alone.

The right cosine differs between data and embedders (0.5 with TF-IDF, 0.7 with MiniLM on the same dialogues), so groups
are compared by closeness, which has the same meaning for all:

    closeness(a, b) = (cross(a, b) - b0) / (sqrt(within(a) within(b)) - b0)

cross is the mean cosine of a member of one with a member of the other, within that of two members of one, b0 that of
clusters that have nothing in common (a low quantile of cross over all pairs of clusters). It is 0 for groups as unlike
as any, and 1 for two halves of one group. Even so goals may be broad or narrow. How broad they are here
`granularity` finds:

1. Merge the clusters step by step, the closest pair first, which gives one partition for each number of groups.
2. Do the same with clusters made anew from random parts of the rows.
3. Rate each partition: silhouette times share of pairs of rows told apart times (agreement times
   lasting) squared. The silhouette is how much nearer members are to their own group than to the next (Rousseeuw 1987,
   J. Comput. Appl. Math. 20), agreement how alike the partitions of the parts are (adjusted Rand index; Ben-Hur,
   Elisseeff & Guyon 2002, Pac. Symp. Biocomput.), lasting the ratio of the closeness at which its last groups were
   merged to that at which the next are: what is real lasts while the threshold moves. The silhouette alone prefers
   near duplicates; agreement alone few groups, and best of all one that holds nearly everything, which tells nothing
   apart.
4. Near the best one the quality is often flat, so that which is the highest is chance. Take the partition that agrees
   best with all of them (adjusted Rand index), each weighted by its quality: the middle of what may be right.

Exponents and priors below were chosen on nine public sets (docs/results/goals.md has how well they do on a set left
out).

The closeness at which the merging stops there is the threshold: what lies above it is of one goal rather than of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.goals.clusters.kmeans import canonical_order, closest, solve
from engine.goals.embedders.vectors import Numbers, Vectors

Floats = npt.NDArray[np.float64]

SAMPLE = 3_000
"""Rows that are looked at."""
PARTS, PART = 4, 0.75
"""How many random parts of the rows, and how large each is."""
UNLIKE = 0.25
"""Quantile of cross, each pair weighted by the pairs of members that it stands for."""
POOL = 3
"""within is pooled with that of all as if a group had so many members more: two near-equal texts would have no like."""
LEAST_ROOM = 0.02
"""Least distance of within from b0, so that closeness stays finite."""
DEFAULT = 0.5
"""Threshold where the data says nothing: fewer than three clusters or a handful of rows."""
LEAST_ROWS = 20
TRUSTED = 2
"""Exponent of agreement and lasting."""
NOTHING = 0.2
"""Closeness below which differences say little, as it is added to both before their ratio is taken."""
SHARPNESS = 6
"""Exponent of the quality as a weight: a partition 10% worse than the best has half its weight."""
LIKELY, WIDTH = 0.4, 0.6
"""Where the threshold is expected and how surely, as a normal density: broad, so it decides between partitions that the
data holds for about equally good, such as near duplicates of few goals and those goals."""


@dataclass(frozen=True, slots=True)
class Granularity:
    """How broad goals are here.

    Attributes:
        unlike: b0, the mean cosine of clusters that have nothing in common.
        within_mean: Mean of within over clusters, weighted by members.
        threshold: Closeness above which two groups are rather one.
        groups: How many groups that makes of these clusters.
    """

    unlike: float
    within_mean: float
    threshold: float
    groups: int

    def closeness(self, sums: Floats, sizes: Floats) -> Floats:
        """Closeness of all pairs of groups, shape (groups, groups).

        Args:
            sums: Sums of the members' vectors, shape (groups, d).
            sizes: How many members those are, shape (groups,).
        """
        return _closeness(sums @ sums.T, sizes, self.unlike, self.within_mean)


@dataclass(frozen=True, slots=True)
class _Step:
    """Two groups become one: `second` goes into `first`, places in the list of clusters."""

    first: int
    second: int
    closeness: float


def granularity(
    vectors: Vectors,
    labels: Numbers,
    seed: int = 0,
    note: Callable[[int, int], None] = lambda done, total: None,
) -> Granularity:
    """Finds how broad goals are. The same rows, labels and seed give the same result.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row, negative for rows that belong to none.
        note: Told parts done and in all; may raise to stop.
    """
    rng = np.random.default_rng([seed, 0x677261])
    inside = np.flatnonzero(labels >= 0)
    if len(inside) > SAMPLE:
        inside = np.sort(rng.choice(inside, SAMPLE, replace=False))
    rows = np.ascontiguousarray(vectors[inside], dtype=np.float32)
    own = _numbered(labels[inside])
    k = int(own.max(initial=-1)) + 1
    sums, sizes = _sums(rows, own, k)
    unlike, within_mean = _background(sums, sizes)
    if k < 3 or len(rows) < LEAST_ROWS:
        return Granularity(unlike, within_mean, DEFAULT, k)
    steps = _merging(sums, sizes, unlike, within_mean)
    agreement = np.zeros(k + 1)
    for part in range(PARTS):
        note(part, PARTS)
        chosen = np.sort(rng.choice(len(rows), max(k, int(PART * len(rows))), replace=False))
        order = canonical_order(rows[chosen], np.arange(len(chosen)), seed)
        found = solve(rows[chosen], order, k, seed + part, restarts=1, note=lambda *_: None)
        other = closest(rows[chosen], found.centres)[0]
        other_steps = _merging(
            *_sums(rows[chosen], other, len(found.centres)), unlike=unlike, within_mean=within_mean
        )
        agreement += _agreement(own[chosen], steps, k, other, other_steps, len(found.centres))
    heights = np.minimum.accumulate([1.0, *(step.closeness for step in steps), -1.0])
    thresholds = (heights[:-1] + heights[1:]) / 2  # of k groups, k - 1, and so on down to 2
    expected = np.exp(-(((thresholds - LIKELY) / WIDTH) ** 2) / 2)
    room = np.maximum(heights, 0) + NOTHING
    inside_groups, every = _pairs_inside(sizes, steps)
    told_apart = 1 - inside_groups / every
    trusted = np.maximum(agreement[:1:-1] / PARTS, 0) * room[:-1] / room[1:]
    silhouettes = np.maximum(_silhouettes(rows, own, sums, sizes, steps)[:1:-1], 0)
    at = _middle(silhouettes * told_apart * trusted**TRUSTED * expected, inside_groups, every)
    return Granularity(unlike, within_mean, float(thresholds[at]), k - at)


def _pairs_inside(sizes: Floats, steps: Sequence[_Step]) -> tuple[Floats, float]:
    """How many pairs of rows are in one group, for each partition from the clusters on down to two groups, and how many
    pairs there are."""
    sizes, count = sizes.copy(), float(sizes.sum())
    found = [float((sizes * (sizes - 1)).sum()) / 2]
    for step in steps:
        found.append(found[-1] + float(sizes[step.first] * sizes[step.second]))
        sizes[step.first] += sizes[step.second]
    return np.array(found), count * (count - 1) / 2


def _middle(quality: Floats, pairs: Floats, every: float) -> int:
    """The place of the partition that agrees best with all, weighted by quality; of equal ones the first.

    Each partition is made of the one before by merging, so their adjusted Rand index follows from the pairs of rows in
    one group: those of the finer are all in one group of the coarser too.

    Args:
        quality: Of each partition, not negative, the finest first.
        pairs: In one group, of `every` pairs.
    """
    best = quality.max()
    if best <= 0:
        return 0
    fine, coarse = np.minimum.outer(pairs, pairs), np.maximum.outer(pairs, pairs)
    chance = fine * coarse / every
    most = (fine + coarse) / 2
    alike = np.divide(fine - chance, most - chance, out=np.ones_like(most), where=most > chance)
    return int(np.argmax(alike @ (quality / best) ** SHARPNESS))


def _numbered(labels: Numbers) -> Numbers:
    """Labels without gaps."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int32)


def _sums(rows: Vectors, labels: Numbers, k: int) -> tuple[Floats, Floats]:
    sums = np.zeros((k, rows.shape[1]))
    np.add.at(sums, labels, rows)
    return sums, np.bincount(labels, minlength=k).astype(float)


def _background(sums: Floats, sizes: Floats) -> tuple[float, float]:
    """b0 and the mean of within."""
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
    unlike = cross[order][np.searchsorted(reached, UNLIKE * reached[-1])]
    return float(unlike), max(within_mean, float(unlike) + LEAST_ROOM)


def _closeness(products: Floats, sizes: Floats, unlike: float, within_mean: float) -> Floats:
    own, pooled = sizes * (sizes - 1), POOL * (POOL - 1)
    within = (np.diag(products) - sizes + within_mean * pooled) / (own + pooled)
    room = np.sqrt(np.maximum(0.0, np.outer(within, within))) - unlike
    found: Floats = (products / np.outer(sizes, sizes) - unlike) / np.maximum(room, LEAST_ROOM)
    return found


def _merging(sums: Floats, sizes: Floats, unlike: float, within_mean: float) -> list[_Step]:
    """Merges the closest pair until two groups are left."""
    products, sizes = sums @ sums.T, sizes.copy()
    alive = np.arange(len(sizes))
    steps: list[_Step] = []
    while len(alive) > 2:
        near = _closeness(products[np.ix_(alive, alive)], sizes[alive], unlike, within_mean)
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
    """Adjusted Rand index of two partitions of the same rows for each number of groups, at its place; 0 below 2.

    Both are followed from their contingency table, so no step looks at rows. Where one begins with fewer groups it is
    compared as it begins.
    """
    table = np.zeros((k, other_k))
    np.add.at(table, (labels, others), 1)
    found = np.zeros(k + 1)
    ours, theirs = k, other_k
    for groups in range(k, 1, -1):
        while ours > groups:
            step = steps[k - ours]
            table[step.first] += table[step.second]
            table[step.second] = 0
            ours -= 1
        while theirs > groups:
            step = other_steps[other_k - theirs]
            table[:, step.first] += table[:, step.second]
            table[:, step.second] = 0
            theirs -= 1
        found[groups] = adjusted_rand(table)
    return found


def adjusted_rand(table: Floats) -> float:
    """Adjusted Rand index of a contingency table (Hubert & Arabie 1985, J. Classif. 2)."""

    def pairs(counts: Floats) -> float:
        return float((counts * (counts - 1)).sum()) / 2

    both, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    every = pairs(table.sum(keepdims=True))
    by_chance = rows * columns / every if every else 0.0
    most = (rows + columns) / 2
    return 1.0 if most == by_chance else (both - by_chance) / (most - by_chance)


def _silhouettes(
    rows: Vectors, labels: Numbers, sums: Floats, sizes: Floats, steps: Sequence[_Step]
) -> Floats:
    """Mean silhouette for each number of groups, at its place; distances are mean cosine distances to all members."""
    k = len(sizes)
    to = np.asarray(rows, dtype=np.float64) @ sums.T  # sums of cosines to the members of each group
    sizes, own, alive = sizes.copy(), labels.astype(np.int64), np.ones(k, dtype=bool)
    everyone = np.arange(len(rows))
    found = np.zeros(k + 1)
    for groups in range(k, 1, -1):
        inside = to[everyone, own]
        near = np.where(sizes[own] > 1, 1 - (inside - 1) / np.maximum(sizes[own] - 1, 1), 0.0)
        means = np.where(alive, to / sizes, -np.inf)
        means[everyone, own] = -np.inf
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
