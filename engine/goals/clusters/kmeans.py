"""Spherical k-means, which partitions the vectors of conversations into a given number of clusters, and a proposal for
that number.

A vector is a row of length 1. Its distance to a center is the cosine distance, one minus the cosine: 0 for the same
direction, 1 for a right angle, 2 for the opposite. In spherical k-means rows and centers have length 1 (Dhillon & Modha
2001, Concept Decompositions, Machine Learning 42). Centers are initialized by greedy k-means++ (Arthur & Vassilvitskii
2007) and moved by Lloyd's iterations.

Rows are first sorted along a random direction and shuffled by the seed, so the same rows give the same partition bit
for bit in any order. Up to `FULL_BATCH_ROWS` rows one thread does the work, so the number of cores does not matter
either. scikit-learn's k-means sums the results of its threads in the order in which they finish, so with more than two
threads it is not reproducible.

The number of clusters is proposed by the mean silhouettes of clusterings of a sample. The silhouette of a row compares
its mean distance to its own cluster with that to the next (Rousseeuw 1987, Silhouettes, J. Comput. Appl. Math. 20).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotYet
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

# Clustering

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
MIN_RELATIVE_DECREASE = 1e-4
"""Relative decrease of the inertia below which the iterations stop."""
SPLIT_SEED = 0
_ALL_CHOSEN = 1e-6
"""Mean squared distance to the centers up to which every row equals a center, save for rounding."""
_COSINES_PER_BLOCK = 16_000_000
"""Most cosines (rows times centers) of a block, 64 MB."""
_MIN_BLOCK_ROWS = 256
"""Fewest rows of a block, even if they have more cosines."""

Note = Callable[[int, int], None]
"""Called with (steps done, steps in all); may raise to stop the work."""

# The choice of k

TRIAL_ROWS = 4_000
"""Most rows on which a k is tried."""

MIN_TRIAL_K, MAX_TRIAL_K = 2, 200
"""Least and greatest k that is tried."""

TRIAL_RATIO = 1.25
"""Ratio of each k tried to the one before; but each is at least 1 more."""

TRIAL_RESTARTS = 2
"""Runs of k-means for each k that is tried."""

NEARLY_BEST = 0.9
"""Share of the highest silhouette that counts as equally good: silhouettes are often flat over a wide range of k."""

OVERESTIMATE = 1.5
"""Ratio of the proposed k to the best one. Too many clusters cost one merge decision each; a cluster that mixes two
goals has to be noticed and split."""

MANY_DIMENSIONS = 256
"""Number of dimensions from which vectors are taken for those of an embedding model; the vectors of TF-IDF have
fewer."""

_TRIAL_ROWS_PER_CLUSTER = 4
"""Rows of the sample for each cluster of the greatest k that is tried: with fewer a silhouette says little."""

_MIN_DISTANCE = 1e-9
"""Least distance that a silhouette divides by: with equal rows both distances are 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Result of k-means.

    Attributes:
        centers: Shape (k, d); k is lower than asked for if there are fewer different rows.
        inertia: Mean cosine distance of the rows to their nearest centers, which may have moved a little since.
    """

    centers: Vectors
    inertia: float


def solve(
    vectors: Vectors,
    order: Indices,
    k: int,
    seed: int,
    *,
    restarts: int = RESTARTS,
    note: Note = lambda done, total: None,
) -> Solution:
    """Returns the solution with the least inertia of `restarts` runs of k-means.

    Of more than `FULL_BATCH_ROWS` rows the runs have a sample, and the best solution is refined on all rows.

    Args:
        vectors: Shape (n, d), rows of length 1; may be a memory map.
        order: Numbers of the rows to cluster, from `order_canonically` with the same seed.
        k: Number of clusters, at least 1.
        seed: Seed of the random numbers of all runs.
        restarts: Number of runs, each with random numbers of its own.
        note: Called with (steps done, steps in all); may raise to stop the work.
    """
    sample = vectors[order[:FULL_BATCH_ROWS]]
    # Rounded up: the last batch may have fewer rows.
    batches = 0 if len(order) <= FULL_BATCH_ROWS else -(-len(order) // MINI_BATCH_ROWS)
    total = restarts + batches

    def attempt(restart: int) -> Solution:
        """Returns the solution of one run on the sample."""
        note(restart, total)
        rng = np.random.default_rng([seed, restart, k])
        return _iterate(sample, _seed_centers(sample[:SEEDING_ROWS], k, rng))

    with one_thread():
        best = min(map(attempt, range(restarts)), key=lambda solution: solution.inertia)
    if not batches:
        return best
    return _refine(vectors, order, best, lambda done: note(restarts + done, total))


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
        labels, cosines = find_closest(batch, centers)
        total_distance += float(np.sum(1 - cosines, dtype=np.float64))
        sums += sum_rows(batch, labels, len(centers))
        centers = scale_to_unit(sums, centers)
    return Solution(centers, total_distance / len(order))


def split(vectors: Vectors, parts: int) -> tuple[Indices, ...]:
    """Returns the parts into which k-means splits one cluster.

    Args:
        vectors: Those of its members, shape (n, d), rows of length 1.
        parts: Most parts to make.

    Returns:
        The row numbers of each part, ascending, the largest part first. They partition the members. One part if all
        members are equal.
    """
    rows = np.arange(len(vectors))
    if parts < 2 or len(rows) < 2:
        return (rows,)
    order = order_canonically(vectors, rows, SPLIT_SEED)
    centers = solve(vectors, order, min(parts, len(rows)), SPLIT_SEED).centers
    labels, _ = find_closest(vectors, centers)
    parts_of_rows = [rows[labels == number] for number in np.unique(labels)]
    # Of parts of equal size, that with the lowest row comes first.
    return tuple(sorted(parts_of_rows, key=lambda part: (-len(part), int(part[0]))))


def order_canonically(vectors: Vectors, rows: Indices, seed: int) -> Indices:
    """Returns `rows`, shape (n,), shuffled by the seed from an order that their vectors give, so that the order of the
    input does not matter."""
    heights = row_heights(vectors, seed)[rows]
    shuffled = np.random.default_rng(seed).permutation(len(rows))
    return rows[np.argsort(heights, kind="stable")][shuffled]


def find_closest(rows: Vectors, centers: Vectors) -> tuple[Numbers, Floats]:
    """Returns the index of the nearest center of each row and the cosine with it, each of shape (n,)."""
    labels = np.zeros(len(rows), np.int32)
    cosines = np.zeros(len(rows), np.float32)
    block_rows = max(_MIN_BLOCK_ROWS, min(BLOCK, _COSINES_PER_BLOCK // len(centers)))
    for block in blocks(len(rows), block_rows):
        with_all = rows[block] @ centers.T
        labels[block] = nearest = with_all.argmax(axis=1)
        cosines[block] = with_all[np.arange(len(with_all)), nearest]
    return labels, cosines


def find_closest_of_rows(
    vectors: Vectors, rows: Indices, centers: Vectors
) -> tuple[Numbers, Floats]:
    """Returns what `find_closest` does for some rows, given by their numbers; copies one block of vectors at a time."""
    parts = [find_closest(vectors[rows[block]], centers) for block in blocks(len(rows))]
    labels, cosines = zip(*parts, strict=True)
    return np.concatenate(labels), np.concatenate(cosines)


def sum_rows(rows: Vectors, labels: Numbers, k: int) -> Floats:
    """Returns the sums of the rows of each label, shape (k, d), added up in the order of the rows. The sums are a
    product with the sparse matrix that has a one at (label, row)."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(rows), dtype=np.float32)
    positions = (labels, np.arange(len(rows)))
    return np.asarray(csr_matrix((ones, positions), shape=(k, len(rows))) @ rows)


def scale_to_unit(sums: npt.ArrayLike, otherwise: Vectors) -> Vectors:
    """Returns `sums` scaled to length 1, shape (k, d); a sum of 0 is replaced by the row of `otherwise`."""
    units = unit_rows(sums)
    return np.where(units.any(axis=1, keepdims=True), units, otherwise)


def _seed_centers(rows: Vectors, k: int, rng: np.random.Generator) -> Vectors:
    """Returns initial centers by greedy k-means++: each is the best of a few rows drawn with probability proportional
    to the squared distance to the centers before.

    Returns:
        At most k different rows, shape (k, d).
    """
    draws = 2 + int(np.log(k))  # candidates for each center, as the authors of k-means++ propose
    chosen = [int(rng.integers(len(rows)))]
    squared_distances = _squared_distances(rows, rows[chosen])[:, 0]
    while len(chosen) < k:
        sums = np.cumsum(squared_distances, dtype=np.float64)
        if sums[-1] <= _ALL_CHOSEN * len(rows):
            break
        # A uniform number in the cumulative sums picks a row with probability proportional to its squared distance.
        candidates = np.searchsorted(sums, rng.random(draws) * sums[-1], side="right")
        candidates = np.minimum(candidates, len(rows) - 1)
        candidate_squares = np.minimum(
            squared_distances[:, None], _squared_distances(rows, rows[candidates])
        )
        best = int(candidate_squares.sum(axis=0, dtype=np.float64).argmin())
        chosen.append(int(candidates[best]))
        squared_distances = np.ascontiguousarray(candidate_squares[:, best])
    return rows[chosen]


def _iterate(rows: Vectors, centers: Vectors) -> Solution:
    """Returns the solution of Lloyd's iterations, which move centers to the mean directions of their rows until the
    inertia hardly decreases.

    Args:
        rows: Shape (n, d).
        centers: The first centers, shape (k, d).
    """
    previous_inertia = np.inf
    for _ in range(MAX_ITERATIONS):
        labels, cosines = find_closest(rows, centers)
        inertia = float(np.mean(1 - cosines, dtype=np.float64))
        if inertia >= (1 - MIN_RELATIVE_DECREASE) * previous_inertia:
            break
        previous_inertia = inertia
        labels = _without_empty(labels, cosines, len(centers))
        centers = scale_to_unit(sum_rows(rows, labels, len(centers)), centers)
    return Solution(centers, inertia)


def _squared_distances(rows: Vectors, others: Vectors) -> Floats:
    """Returns the squared distances between rows of length 1, shape (n, m)."""
    squared: Floats = np.maximum(0, 2 - 2 * (rows @ others.T))
    return squared


def _without_empty(labels: Numbers, cosines: Floats, k: int) -> Numbers:
    """Returns labels, shape (n,), in which each center without rows gets the row with the lowest cosine with its own
    center; a row that is alone with its center stays there.

    Args:
        labels, cosines: From `find_closest`, shape (n,).
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


# The choice of k


def propose_k(vectors: Vectors, seed: int = 0) -> int:
    """Returns a proposal for k: `OVERESTIMATE` times the least k, of a geometric series, whose mean silhouette is
    nearly the highest.

    It is measured on a random sample of `TRIAL_ROWS` rows, so goals of fewer than about one in a thousand conversations
    do not affect it. The proposal is at least the square root of the size of the sample, because groups of similar
    goals can have the highest silhouette (18 services of `sgd` in 8 groups, with MiniLM). For vectors of many
    dimensions the minimum is twice that, because finer clusters merge into better groups there (docs/lab/goals.md).

    Raises:
        NotYet: No row has a vector.
    """
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    sample = vectors[order_canonically(vectors, rows, seed)[:TRIAL_ROWS]]
    order = np.arange(len(sample))
    silhouettes: list[tuple[int, float]] = []
    with one_thread():
        for k in _trial_ks(_max_trial_k(len(sample))):
            solution = solve(sample, order, k, seed, restarts=TRIAL_RESTARTS)
            labels, _ = find_closest(sample, solution.centers)
            silhouettes.append((k, measure_silhouette(sample, labels)))
    highest = max((score for _, score in silhouettes), default=0.0)
    # Of a negative silhouette nine tenths are more than it, hence `min`.
    best = next((k for k, score in silhouettes if score >= min(NEARLY_BEST * highest, highest)), 1)
    # The square root of the size of the sample; four times the size gives twice its root.
    min_k = math.isqrt(len(sample) * (4 if vectors.shape[1] >= MANY_DIMENSIONS else 1))
    return min(max(math.ceil(OVERESTIMATE * best), min_k), len(sample))


def range_of_proposals(rows: int) -> tuple[int, int]:
    """Returns the least and the greatest k that `propose_k` may propose for `rows` rows; at least 1."""
    sample = min(rows, TRIAL_ROWS)
    least = math.isqrt(sample)
    most = max(math.ceil(OVERESTIMATE * _max_trial_k(sample)), math.isqrt(4 * sample))
    return max(1, least), max(1, min(most, sample))


def _max_trial_k(rows: int) -> int:
    """Returns the greatest k that is tried on a sample of `rows` rows."""
    return min(MAX_TRIAL_K, rows // _TRIAL_ROWS_PER_CLUSTER)


def measure_silhouette(rows: Vectors, labels: Numbers) -> float:
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
    means = sum_rows(rows, labels, k) / np.maximum(1, sizes)[:, None]
    distances = 1 - (rows @ means.T).astype(np.float64)
    distances[:, sizes == 0] = np.inf
    return silhouette_from_distances(distances, labels, sizes)


def silhouette_from_distances(
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


def _trial_ks(max_k: int) -> list[int]:
    """Returns the k that are tried, ascending, at most `max_k`."""
    ks: list[int] = []
    k = float(MIN_TRIAL_K)
    while round(k) <= max_k:
        if not ks or round(k) > ks[-1]:
            ks.append(round(k))
        k = max(k * TRIAL_RATIO, k + 1)
    return ks
