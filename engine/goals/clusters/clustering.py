"""Partitions the vectors of conversations into clusters, marks outliers, and assigns conversations that come later.

A vector is a row of length 1. Its distance to a center is the cosine distance, one minus the cosine: 0 for the same
direction, 1 for a right angle, 2 for the opposite. A row of zeros belongs to a text without a vector. An outlier is in
no cluster because it is too far from its nearest center; a later row of that kind is called novel.

Clusters come from spherical k-means: rows and centers have length 1, similarity is the cosine (Dhillon & Modha 2001,
Concept Decompositions, Machine Learning 42). Centers are initialized by greedy k-means++ (Arthur & Vassilvitskii 2007).

Rows are first sorted along a random direction and shuffled by the seed, so the same rows give the same partition bit
for bit in any order. Up to `FULL_BATCH_ROWS` rows one thread does the work, so the number of cores does not matter
either. scikit-learn's k-means sums the results of its threads in the order in which they finish, so with more than two
threads it is not reproducible.

Stability per cluster after Hennig (2007, Cluster-wise assessment of cluster stability, Comput. Stat. Data Anal. 52):
the mean over bootstraps of the Jaccard similarity with the most similar cluster of the bootstrap. He takes a mean of
.75 or more for stable and calls a cluster dissolved where the similarity is .5 or less. With more clusters than there
are goals many are unstable, because the boundary between two parts of one goal is arbitrary; merging removes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotYet, UsageError
from engine.model.embedders.tfidf import one_thread
from engine.model.embedders.vectors import (
    BLOCK,
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    has_vector,
    row_heights,
    unit_rows,
)

FULL_BATCH_ROWS = 50_000
"""Up to this number of rows every iteration uses all rows. Of more, a sample of this size is clustered and mini-batches
of all rows refine the centers."""
RESTARTS = 5
"""Default number of runs with other random numbers, of which the best counts."""
SEEDING_ROWS = 10_000
"""Most rows that k-means++ chooses from."""
MAX_ITERATIONS = 50
"""Most iterations of Lloyd's algorithm."""
MINI_BATCH_ROWS = 8_192
"""Rows of a mini-batch."""
_ALL_CHOSEN = 1e-6
"""Mean squared distance to the centers up to which every row equals a center, save for rounding."""
_COSINES_PER_BLOCK, _MIN_BLOCK_ROWS = 16_000_000, 256
"""Most cosines (rows times centers) of a block, 64 MB; and the least rows of one, which comes first."""
MIN_RELATIVE_DECREASE = 1e-4
"""Relative decrease of the inertia below which the iterations stop."""

Note = Callable[[int, int], None]
"""Called with (steps done, steps in all); may raise to stop the work."""

TRIAL_ROWS = 4_000
"""Most rows on which a k is tried."""

TRIAL_RATIO = 1.25
"""Ratio of each k tried to the one before."""

NEARLY_BEST = 0.9
"""Share of the highest silhouette that counts as equally good: silhouettes are often flat over a wide range of k."""

OVERESTIMATE = 1.5
"""Ratio of the proposed k to the best one. Too many clusters cost one merge decision each; a cluster that mixes two
goals has to be noticed and split."""

TRIAL_RESTARTS = 2
"""Runs of k-means for each k that is tried."""

MANY_DIMENSIONS = 256
"""Dimensions from which vectors are those of an embedding model; TF-IDF has fewer."""

_TRIAL_ROWS_PER_CLUSTER = 4
"""Rows of the sample for each cluster of the greatest k that is tried: with fewer a silhouette says little."""

_MIN_DISTANCE = 1e-9
"""Least distance that a silhouette divides by: with equal rows both distances are 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Result of k-means.

    Attributes:
        centers: Shape (k, d); k is lower than asked for if there are fewer different rows.
        inertia: Mean cosine distance of the rows to their nearest centers.
    """

    centers: Vectors
    inertia: float


def solve(
    vectors: Vectors, order: Indices, k: int, seed: int, *, restarts: int, note: Note
) -> Solution:
    """Returns the solution with the least inertia of `restarts` runs of k-means.

    Args:
        vectors: Shape (n, d), rows of length 1; may be a memory map.
        order: Numbers of the rows to cluster, from `canonical_order` with the same seed.
        k: Number of clusters, at least 1.
        restarts: Number of runs, each with random numbers of its own.
        note: Called with (steps done, steps in all); may raise to stop the work.
    """
    sample = vectors[order[:FULL_BATCH_ROWS]]
    # Rounded up: the last batch may have fewer rows.
    batches = -(-len(order) // MINI_BATCH_ROWS) if len(order) > FULL_BATCH_ROWS else 0
    total = restarts + batches

    def attempt(restart: int) -> Solution:
        """Returns the solution of one run on the sample."""
        note(restart, total)
        rng = np.random.default_rng([seed, restart, k])
        return lloyd(sample, seed_centers(sample[:SEEDING_ROWS], k, rng))

    with one_thread():
        best = min(map(attempt, range(restarts)), key=lambda solution: solution.inertia)
    if not batches:
        return best
    return _refine(vectors, order, best, lambda done: note(restarts + done, total))


def canonical_order(vectors: Vectors, rows: Indices, seed: int) -> Indices:
    """Returns `rows`, shape (n,), shuffled by the seed from an order that their vectors give, so that the order of the
    input does not matter."""
    heights = row_heights(vectors, seed)[rows]
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    return rows[np.argsort(heights, kind="stable")][shuffled]


def seed_centers(rows: Vectors, k: int, rng: np.random.Generator) -> Vectors:
    """Returns initial centers by greedy k-means++: each is the best of a few rows drawn with probability proportional
    to the squared distance to the centers before.

    Returns:
        At most k different rows, shape (k, d).
    """
    draws = 2 + int(np.log(k))  # candidates for each center, as the authors of k-means++ propose
    chosen = [int(rng.integers(len(rows)))]
    squared_distances = _distances(rows, rows[chosen])[:, 0]
    while len(chosen) < k:
        sums = np.cumsum(squared_distances, dtype=np.float64)
        if sums[-1] <= _ALL_CHOSEN * len(rows):
            break
        # A uniform number in the cumulative sums picks a row with probability proportional to its squared distance.
        candidates = np.searchsorted(sums, rng.random(draws) * sums[-1], side="right")
        candidates = np.minimum(candidates, len(rows) - 1)
        candidate_distances = np.minimum(
            squared_distances[:, None], _distances(rows, rows[candidates])
        )
        best = int(candidate_distances.sum(axis=0, dtype=np.float64).argmin())
        chosen.append(int(candidates[best]))
        squared_distances = np.ascontiguousarray(candidate_distances[:, best])
    return rows[chosen]


def lloyd(rows: Vectors, centers: Vectors) -> Solution:
    """Returns the solution of Lloyd's iterations, which move centers to the mean directions of their rows until the
    inertia hardly decreases.

    Args:
        rows: Shape (n, d).
        centers: The first centers, shape (k, d).
    """
    previous_inertia = np.inf
    for _ in range(MAX_ITERATIONS):
        labels, cosines = closest(rows, centers)
        inertia = float(np.mean(1 - cosines, dtype=np.float64))
        if inertia >= (1 - MIN_RELATIVE_DECREASE) * previous_inertia:
            break
        previous_inertia = inertia
        labels = _without_empty(labels, cosines, len(centers))
        centers = directions(sums_of(rows, labels, len(centers)), centers)
    return Solution(centers, inertia)


def closest(rows: Vectors, centers: Vectors) -> tuple[Numbers, Floats]:
    """Returns the index of the nearest center of each row and the cosine with it, each of shape (n,)."""
    labels = np.zeros(len(rows), np.int32)
    cosines = np.zeros(len(rows), np.float32)
    for part, block in _cosines(rows, centers):
        labels[part] = first = block.argmax(axis=1)
        cosines[part] = block[np.arange(len(block)), first]
    return labels, cosines


def _cosines(rows: Vectors, centers: Vectors) -> Iterator[tuple[slice, Floats]]:
    """Yields (rows, their cosines with all centers, shape (rows of the block, k)) block by block."""
    block_rows = max(_MIN_BLOCK_ROWS, min(BLOCK, _COSINES_PER_BLOCK // len(centers)))
    for block in blocks(len(rows), block_rows):
        yield block, rows[block] @ centers.T


def _distances(rows: Vectors, others: Vectors) -> Floats:
    """Returns the squared distances between rows of length 1, shape (n, m)."""
    squared: Floats = np.maximum(0, 2 - 2 * (rows @ others.T))
    return squared


def sums_of(rows: Vectors, labels: Numbers, k: int) -> Floats:
    """Returns the sums of the rows of each label, shape (k, d), added up in the order of the rows. The sums are a
    product with the sparse matrix that has a one at (label, row)."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(rows), dtype=np.float32)
    positions = (labels, np.arange(len(rows)))
    return np.asarray(csr_matrix((ones, positions), shape=(k, len(rows))) @ rows)


def directions(sums: npt.ArrayLike, otherwise: Vectors) -> Vectors:
    """Returns `sums` scaled to length 1, shape (k, d); a sum of 0 is replaced by the row of `otherwise`."""
    units = unit_rows(sums)
    return np.where(units.any(axis=1, keepdims=True), units, otherwise)


def _without_empty(labels: Numbers, cosines: Floats, k: int) -> Numbers:
    """Returns labels, shape (n,), in which each center without rows gets the row with the lowest cosine with its own
    center; a row that is alone with its center stays there.

    Args:
        labels, cosines: From `closest`, shape (n,).
        k: Number of centers.
    """
    labels = labels.copy()
    sizes = np.bincount(labels, minlength=k)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        # One iterator for all centers: each goes on with the rows that the one before left.
        worst_rows = iter(np.argsort(cosines, kind="stable"))
        for center in empty:
            for row in worst_rows:
                if sizes[labels[row]] > 1:
                    sizes[labels[row]] -= 1
                    labels[row] = center
                    break
    return labels


def _refine(
    vectors: Vectors, order: Indices, start: Solution, note: Callable[[int], None]
) -> Solution:
    """Returns the solution after one pass of mini-batch k-means over all rows (Sculley 2010, Web-scale k-means): each
    center becomes the mean direction of the rows that were nearest to it in their batch.

    Args:
        vectors: Shape (n, d).
        order: Numbers of all rows; it begins with the sample.
        start: The solution of the sample.
        note: Called with the number of batches done.
    """
    centers = start.centers
    sums = np.zeros(centers.shape, dtype=np.float64)
    total_distance = 0.0
    for batches_done, part in enumerate(blocks(len(order), MINI_BATCH_ROWS)):
        note(batches_done)
        batch = vectors[order[part]]
        labels, cosines = closest(batch, centers)
        total_distance += float(np.sum(1 - cosines, dtype=np.float64))
        sums += sums_of(batch, labels, len(centers))
        centers = directions(sums, centers)
    return Solution(centers, total_distance / len(order))


MIN_TRIAL_K, MAX_TRIAL_K = 2, 200
"""Least and greatest k that is tried."""


def propose_k(vectors: Vectors, seed: int = 0) -> int:
    """Returns a proposal for k: `OVERESTIMATE` times the least k, of a geometric series, whose mean silhouette is
    nearly the highest.

    The silhouette of a row compares its mean distance to its own cluster with that to the next (Rousseeuw 1987,
    Silhouettes, J. Comput. Appl. Math. 20). It is measured on a random sample of `TRIAL_ROWS` rows, so goals of fewer
    than about one in a thousand conversations do not affect it. The proposal is at least the square root of the size
    of the sample, because groups of similar goals can have the highest silhouette (18 services of `sgd` in 8 groups,
    with MiniLM). For vectors of many dimensions the minimum is twice that, because finer clusters merge into better
    groups there (docs/lab/goals.md).

    Raises:
        UsageError: No row has a vector.
    """
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    sample = vectors[canonical_order(vectors, rows, seed)[:TRIAL_ROWS]]
    order = np.arange(len(sample))
    silhouettes: list[tuple[int, float]] = []
    with one_thread():
        for k in _series(_most_tried(len(sample))):
            solution = solve(sample, order, k, seed, restarts=TRIAL_RESTARTS, note=lambda *_: None)
            labels, _ = closest(sample, solution.centers)
            silhouettes.append((k, silhouette(sample, labels)))
    highest = max((score for _, score in silhouettes), default=0.0)
    # Of a negative silhouette nine tenths are more than it, hence `min`.
    best = next((k for k, score in silhouettes if score >= min(NEARLY_BEST * highest, highest)), 1)
    # The square root of the size of the sample; four times the size gives twice its root.
    min_k = math.isqrt(len(sample) * (4 if vectors.shape[1] >= MANY_DIMENSIONS else 1))
    return min(max(math.ceil(OVERESTIMATE * best), min_k), len(sample))


def proposed_range(rows: int) -> tuple[int, int]:
    """Returns the least and the greatest k that `propose_k` may propose for so many rows; at least 1."""
    sample = min(rows, TRIAL_ROWS)
    least = math.isqrt(sample)
    most = max(math.ceil(OVERESTIMATE * _most_tried(sample)), 2 * least)
    return max(1, least), max(1, min(most, sample))


def _most_tried(rows: int) -> int:
    """Returns the greatest k that is tried on a sample of so many rows."""
    return min(MAX_TRIAL_K, rows // _TRIAL_ROWS_PER_CLUSTER)


def silhouette(rows: Vectors, labels: Numbers) -> float:
    """Returns the mean silhouette by cosine distance. A row alone in its cluster counts as 0; one cluster gives 0.

    The mean cosine of a row with the rows of a cluster is its dot product with their mean, so no two rows are compared.

    Args:
        rows: Shape (n, d), of length 1.
        labels: Cluster of each row, shape (n,).
    """
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    if np.count_nonzero(sizes) < 2:
        return 0.0
    means = sums_of(rows, labels, k) / np.maximum(1, sizes)[:, None]
    distances = 1 - (rows @ means.T).astype(np.float64)
    distances[:, sizes == 0] = np.inf
    return silhouette_of(distances, labels, sizes)


def silhouette_of(
    distances: npt.NDArray[np.float64],
    labels: Numbers | Indices,
    sizes: Indices | npt.NDArray[np.float64],
) -> float:
    """Returns the mean silhouette of rows by their mean distances to the members of clusters. A row alone in its
    cluster counts as 0.

    Args:
        distances: Shape (n, k), changed in place; infinite for what is no cluster.
        labels: Cluster of each row, shape (n,).
        sizes: Rows of each cluster, shape (k,).
    """
    all_rows = np.arange(len(labels))
    own_size = sizes[labels]
    # Without the row itself, whose distance to itself is 0.
    own_distance = distances[all_rows, labels] * own_size / np.maximum(1, own_size - 1)
    distances[all_rows, labels] = np.inf
    next_distance = distances.min(axis=1)
    scale = np.maximum(np.maximum(own_distance, next_distance), _MIN_DISTANCE)
    return float(np.where(own_size > 1, (next_distance - own_distance) / scale, 0).mean())


def _series(max_k: int) -> list[int]:
    """Returns the k that are tried, ascending, at most `max_k`."""
    ks: list[int] = []
    k = float(MIN_TRIAL_K)
    while round(k) <= max_k:
        if not ks or round(k) > ks[-1]:
            ks.append(round(k))
        k = max(k * TRIAL_RATIO, k + 1)
    return ks


OUTLIER = -1
"""Label of a row that is in no cluster."""
MIN_MEMBERS = 2
"""Smaller clusters are dropped; their members go to the nearest other cluster or become outliers."""
_SAME_DIRECTION = 1e-5
"""Distance up to which a row has the direction of its center, save for rounding, and is no outlier."""
OUTLIER_DEVIATIONS = 4.0
"""Robust standard deviations above the median distance beyond which a row is an outlier."""
PSEUDO_MEMBERS = 10
"""Weight, in members, of the statistics of all clusters when those of one cluster are estimated."""
_DEVIATIONS_PER_MAD = 1.4826
"""Standard deviation of normal data in units of its median absolute deviation."""
_TIE_COORDINATES = 4
"""Coordinates of the center by which clusters of equal size are ordered."""

NOVEL = -1
"""Label of a later row that is too far from its nearest center to be in that cluster."""

MEMBER_QUANTILE = 0.99
"""Quantile of the members' distances that is the limit of a cluster."""

QUANTILE_MEMBERS = 50
"""Members from which the limit is this quantile alone; with fewer it is mixed with the limit of outliers."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A partition of rows; arrays of n rows are in the order of the vectors, clusters from the largest down.

    Attributes:
        labels: Number of the cluster; `OUTLIER` for a row that is in none.
        centers: Shape (k, d), rows of length 1.
        distances: Cosine distance to the nearest center, of outliers too; 1 for a row of zeros.
        inertia: Mean distance of the rows in clusters.
        seed: Seed of the random numbers.
    """

    labels: Numbers
    centers: Vectors
    distances: Floats
    inertia: float
    seed: int

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.centers)

    @property
    def sizes(self) -> Indices:
        """The number of members of each cluster, shape (k,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.k).astype(np.int64)


def cluster(
    vectors: Vectors,
    k: int,
    seed: int = 0,
    *,
    restarts: int = RESTARTS,
    cut: float | None = OUTLIER_DEVIATIONS,
    least: int = MIN_MEMBERS,
    note: Note = lambda done, total: None,
) -> Clusters:
    """Returns a partition of rows into about k clusters and outliers.

    The same rows, k, seed and number of BLAS threads give the same result bit for bit. Up to `FULL_BATCH_ROWS`
    rows the result depends neither on the number of threads nor on the order of the rows.

    Args:
        vectors: Shape (n, d), rows of length 1; rows of zeros belong to no cluster. May be a memory map.
        k: Number of clusters; fewer are found if there are fewer different rows.
        restarts: Number of k-means runs; the result with the least inertia (mean distance to the center) is returned.
        cut: Robust standard deviations above the median distance beyond which a row is an outlier, see
            `outlier_limits`; None marks no outliers.
        least: Clusters with fewer members are dropped.
        note: Called with (steps done, steps in all); may raise to stop the work.

    Raises:
        UsageError: k is below 1, or no row has a vector.
    """
    if k < 1:
        raise UsageError(f"{k} clusters cannot be made.", "Ask for at least one.")
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    order = canonical_order(vectors, rows, seed)
    full_batch = len(order) <= FULL_BATCH_ROWS
    with one_thread() if full_batch else nullcontext():
        centers = solve(
            vectors, order, min(k, len(rows)), seed, restarts=restarts, note=note
        ).centers
        centers = _means(vectors, order, centers, least)
        # In the canonical order, so that rounding does not depend on the order of the rows. For large inputs the copy
        # of all rows costs more than that is worth.
        return _finish(vectors, order if full_batch else rows, centers, cut, seed)


def split(vectors: Vectors, members: Indices, parts: int, seed: int = 0) -> tuple[Indices, ...]:
    """Returns the parts into which k-means splits one cluster.

    Args:
        vectors: Shape (n, d), rows of length 1.
        members: Numbers of the rows in the cluster.
        parts: Most parts to make.

    Returns:
        The row numbers of each part, ascending, the largest part first. They partition the members. One part if all
        members are equal.
    """
    rows = np.sort(np.asarray(members, dtype=np.int64))
    if parts < 2 or len(rows) < 2:
        return (rows,)
    order = canonical_order(vectors, rows, seed)
    solution = solve(
        vectors, order, min(parts, len(rows)), seed, restarts=RESTARTS, note=lambda *_: None
    )
    labels, _ = _closest_rows(vectors, rows, solution.centers)
    parts_of_rows = [rows[labels == number] for number in range(len(solution.centers))]
    # Of parts of equal size, that with the lowest row comes first.
    return tuple(
        sorted(
            (part for part in parts_of_rows if len(part)),
            key=lambda part: (-len(part), int(part[0])),
        )
    )


def outlier_limits(
    distances: Floats, labels: Numbers, k: int, cut: float = OUTLIER_DEVIATIONS
) -> Floats:
    """Returns the distance to the center beyond which a member of each cluster is an outlier, shape (k,).

    It is the median of the members' distances plus `cut` robust standard deviations (1.4826 times the median absolute
    deviation). Both are weighted means of the cluster's own value and that of all clusters, which counts as
    `PSEUDO_MEMBERS` members: otherwise a cluster of three near-equal texts would reject the fourth. Medians are used
    because outliers hardly move them.

    Args:
        distances: Cosine distance of each row to the center of its cluster, shape (n,).
        labels: Cluster of each row, shape (n,); negative for a row in none.
        k: Number of clusters.
        cut: Robust standard deviations above the median.
    """
    clustered = labels >= 0
    overall_median, overall_spread = _median_and_deviation(distances[clustered])
    limits = np.empty(k, dtype=np.float32)
    # One sort gives the rows of every cluster as a slice, so no cluster looks through all labels.
    rows_by_label = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[rows_by_label], np.arange(k + 1))
    for number in range(k):
        own_distances = distances[rows_by_label[bounds[number] : bounds[number + 1]]]
        median, spread = (
            _median_and_deviation(own_distances)
            if len(own_distances)
            else (overall_median, overall_spread)
        )
        own_weight = len(own_distances) / (len(own_distances) + PSEUDO_MEMBERS)
        limits[number] = (
            own_weight * median
            + (1 - own_weight) * overall_median
            + cut * (own_weight * spread + (1 - own_weight) * overall_spread)
        )
    return np.maximum(limits, _SAME_DIRECTION)


def _median_and_deviation(values: Floats) -> tuple[float, float]:
    """Returns the median and the robust standard deviation of values of shape (n,); zeros without values."""
    if not len(values):
        return 0.0, 0.0
    median = float(np.median(values))
    return median, _DEVIATIONS_PER_MAD * float(np.median(np.abs(values - median)))


def _closest_rows(vectors: Vectors, rows: Indices, centers: Vectors) -> tuple[Numbers, Floats]:
    """Returns `closest` of `rows`, arrays of shape (rows,); copies one block of vectors at a time."""
    parts = [closest(vectors[rows[block]], centers) for block in blocks(len(rows))]
    labels, cosines = zip(*parts, strict=True)
    return np.concatenate(labels), np.concatenate(cosines)


def _means(vectors: Vectors, order: Indices, centers: Vectors, least: int) -> Vectors:
    """Returns the mean direction of the rows nearest to each center, shape (k, d); drops centers with fewer than
    `least` rows."""
    # Without a small center its rows go to others, so the sizes must be counted anew until none is too small.
    while True:
        labels, _ = _closest_rows(vectors, order, centers)
        too_small = np.bincount(labels, minlength=len(centers)) < least
        if not too_small.any() or len(centers) == 1:
            break
        if too_small.all():
            too_small[0] = False
        centers = centers[~too_small]
    sums = np.zeros(centers.shape, dtype=np.float64)
    for block in blocks(len(order)):
        sums += sums_of(vectors[order[block]], labels[block], len(centers))
    return directions(sums, centers)


def _finish(
    vectors: Vectors, rows: Indices, centers: Vectors, cut: float | None, seed: int
) -> Clusters:
    """Returns the clusters: labels rows by their nearest centers, marks outliers, and numbers clusters by size.

    Args:
        vectors: Shape (n, d).
        rows: Numbers of the rows with a vector.
        centers: Shape (k, d).
        cut: As in `cluster`.
    """
    # A cluster all of whose rows are outliers is dropped, which gives its rows another nearest center: so once more.
    while True:
        labels, cosines = _closest_rows(vectors, rows, centers)
        distances = np.maximum(0, 1 - cosines)
        if cut is not None:
            labels[distances > outlier_limits(distances, labels, len(centers), cut)[labels]] = (
                OUTLIER
            )
        sizes = np.bincount(labels[labels >= 0], minlength=len(centers))
        if sizes.all():
            break
        centers = centers[sizes > 0]
    # Clusters of equal size are ordered by their centers, which do not depend on the order of the rows.
    order = np.lexsort((*centers.T[:_TIE_COORDINATES], -sizes))
    # The entry at index -1 keeps outliers outliers.
    new_numbers = np.full(len(centers) + 1, OUTLIER, dtype=np.int32)
    new_numbers[order] = np.arange(len(centers), dtype=np.int32)

    count = len(vectors)
    clusters = Clusters(
        labels=np.full(count, OUTLIER, np.int32),
        centers=centers[order],
        distances=np.ones(count, np.float32),
        # Sorted, because a sum of floats depends on their order.
        inertia=float(np.sort(distances[labels >= 0]).mean(dtype=np.float64)),
        seed=seed,
    )
    clusters.labels[rows] = new_numbers[labels]
    clusters.distances[rows] = distances
    return clusters


# The assignment of rows that come after the clustering


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The clusters that a conversation can be assigned to.

    Attributes:
        centers: Shape (k, d), rows of length 1.
        limits: Cosine distance to each center beyond which a conversation is novel, shape (k,).
    """

    centers: Vectors
    limits: Floats


def membership_of(vectors: Vectors, labels: Numbers, k: int) -> Membership:
    """Returns centers and limits of a partition (the clusters, or the groups after decisions).

    The limit of a cluster is the `MEMBER_QUANTILE` quantile of its members' distances, mixed with the limit of outliers
    if it has few members.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row in 0 .. k - 1, negative for none, shape (n,).
        k: Number of clusters.

    Raises:
        UsageError: A cluster has no members.
    """
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    if k < 1 or len(sizes) != k or not sizes.all():
        raise UsageError("A cluster has no members to learn from.")
    sums = np.zeros((k, vectors.shape[1]), dtype=np.float64)
    for block in blocks(len(vectors)):
        clustered = np.flatnonzero(labels[block] >= 0)
        sums += sums_of(vectors[block][clustered], labels[block][clustered], k)
    centers = unit_rows(sums)
    distances = np.ones(len(vectors), dtype=np.float32)
    # Rows in no cluster get numbers without a meaning here, which are not used.
    for block in blocks(len(vectors)):
        cosines = vectors[block] @ centers.T
        distances[block] = np.maximum(0, 1 - cosines[np.arange(len(cosines)), labels[block]])
    return Membership(centers, _limits(distances, labels, sizes))


def assign(vectors: Vectors, membership: Membership) -> tuple[Numbers, Floats]:
    """Returns the nearest cluster of each row, `NOVEL` beyond its limit, and the cosine distance to its center, 1 for a
    row of zeros; arrays of shape (n,).

    Args:
        vectors: Shape (n, d), rows of length 1 or 0, from the embedder of the clustered vectors.
        membership: The clusters, from `membership_of`.
    """
    labels, cosines = closest(vectors, membership.centers)
    has_direction = has_vector(vectors)
    distances = np.where(has_direction, np.maximum(0, 1 - cosines), 1).astype(np.float32)
    within_limit = has_direction & (distances <= membership.limits[labels])
    return np.where(within_limit, labels, NOVEL).astype(np.int32), distances


def _limits(distances: Floats, labels: Numbers, sizes: Indices) -> Floats:
    """Returns the limit of each cluster, shape (k,); see `membership_of`."""
    limits = outlier_limits(distances, labels, len(sizes), OUTLIER_DEVIATIONS)
    # The quantile of few members is nearly their largest distance, which says little about further members.
    for number, size in enumerate(sizes):
        quantile_weight = min(1.0, size / QUANTILE_MEMBERS)
        quantile = float(np.quantile(distances[labels == number], MEMBER_QUANTILE))
        limits[number] = quantile_weight * quantile + (1 - quantile_weight) * max(
            quantile, float(limits[number])
        )
    return limits


# How well clusters hold under other seeds and bootstrap samples

Kind = Literal["seed", "bootstrap"]
"""How a clustering is repeated: on the same rows with another seed, or on rows drawn with replacement."""

STABLE, DISSOLVED = 0.75, 0.5
"""Mean Jaccard similarity from which a cluster is stable, and up to which it is dissolved."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Agreement of one repetition with the clustering whose stability is measured.

    Attributes:
        kind: How the clustering was repeated.
        number: Number of the repetition among those of its kind, from 0.
        ari: Adjusted Rand index over the rows that are in a cluster in both.
        jaccard: For each cluster its Jaccard similarity with the most similar cluster of the repetition; None if the
            bootstrap drew none of its members.
    """

    kind: Kind
    number: int
    ari: float
    jaccard: tuple[float | None, ...]


def stability_run(
    vectors: Vectors, labels: Numbers, k: int, seed: int, kind: Kind, number: int
) -> Repetition:
    """Clusters once more and returns the agreement. It is a pure function of its arguments, so a measurement can be
    resumed.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row in the clustering that is measured, negative for outliers, shape (n,).
        k: Number of clusters that it was made with.
        seed: Seed that it was made with; the seed of the repetition is derived from it and from `number`.
        kind: `seed` clusters the same rows with another seed; `bootstrap` clusters rows drawn with replacement, at most
            `FULL_BATCH_ROWS` of them.
        number: Number of the repetition, from 0.
    """
    count = int(labels.max()) + 1
    new_seed = int(np.random.SeedSequence([seed, number, kind == "seed"]).generate_state(1)[0])
    if kind == "seed":
        new_labels = cluster(vectors, k, new_seed).labels
        return Repetition(kind, number, *_compare(labels, new_labels, count))
    rng = np.random.default_rng(new_seed)
    sample = np.sort(rng.integers(len(vectors), size=min(len(vectors), FULL_BATCH_ROWS)))
    new_labels = cluster(vectors[sample], k, new_seed).labels
    # Each row is compared once, however often it was drawn.
    rows, first_draws = np.unique(sample, return_index=True)
    return Repetition(kind, number, *_compare(labels[rows], new_labels[first_draws], count))


def _compare(
    labels: Numbers, new_labels: Numbers, count: int
) -> tuple[float, tuple[float | None, ...]]:
    """Returns the adjusted Rand index of two partitions of the same rows, and the Jaccard similarity of each cluster
    0 .. count - 1 of the first with the most similar cluster of the second; None for a cluster without rows."""
    from scipy.sparse import csr_matrix
    from sklearn.metrics import adjusted_rand_score

    in_both = (labels >= 0) & (new_labels >= 0)
    old, new = labels[in_both], new_labels[in_both]
    ari = float(adjusted_rand_score(old, new))
    new_count = int(new_labels.max()) + 1
    # Number of rows that each cluster has in common with each new one; pairs of clusters without any are not stored.
    common = csr_matrix((np.ones(len(old)), (old, new)), shape=(count, new_count)).tocoo()
    sizes = np.bincount(labels[labels >= 0], minlength=count)
    new_sizes = np.bincount(new_labels[new_labels >= 0], minlength=new_count)
    # Rows in both divided by rows in either.
    jaccard = common.data / (sizes[common.row] + new_sizes[common.col] - common.data)
    best = np.zeros(count)
    np.maximum.at(best, common.row, jaccard)
    return ari, tuple(
        float(value) if size else None for value, size in zip(best, sizes, strict=True)
    )
