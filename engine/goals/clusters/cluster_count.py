"""Proposes the number of clusters, by the mean silhouettes of clusterings of a sample.

The silhouette of a row compares its mean distance to its own cluster with that to the next (Rousseeuw 1987,
Silhouettes, J. Comput. Appl. Math. 20). Distances are cosine distances, as in `kmeans`.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotYet
from engine.goals.clusters.kmeans import find_closest, order_canonically, solve, sum_rows
from engine.model.embedders.tfidf import one_thread
from engine.model.embedders.vectors import Indices, Numbers, Vectors, has_vector

TRIAL_ROWS = 4_000
"""Most rows on which a k is tried."""

MIN_TRIAL_K, MAX_TRIAL_K = 2, 200
"""Least and greatest k that is tried."""

TRIAL_RATIO = 1.25
"""Ratio of each k tried to the one before."""

TRIAL_RESTARTS = 2
"""Runs of k-means for each k that is tried."""

NEARLY_BEST = 0.9
"""Share of the highest silhouette that counts as equally good: silhouettes are often flat over a wide range of k."""

OVERESTIMATE = 1.5
"""Ratio of the proposed k to the best one. Too many clusters cost one merge decision each; a cluster that mixes two
goals has to be noticed and split."""

MANY_DIMENSIONS = 256
"""Dimensions from which vectors are those of an embedding model; TF-IDF has fewer."""

_TRIAL_ROWS_PER_CLUSTER = 4
"""Rows of the sample for each cluster of the greatest k that is tried: with fewer a silhouette says little."""

_MIN_DISTANCE = 1e-9
"""Least distance that a silhouette divides by: with equal rows both distances are 0."""


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
    """Returns the least and the greatest k that `propose_k` may propose for so many rows; at least 1."""
    sample = min(rows, TRIAL_ROWS)
    least = math.isqrt(sample)
    most = max(math.ceil(OVERESTIMATE * _max_trial_k(sample)), 2 * least)
    return max(1, least), max(1, min(most, sample))


def _max_trial_k(rows: int) -> int:
    """Returns the greatest k that is tried on a sample of so many rows."""
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
