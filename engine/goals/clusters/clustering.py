"""Partitions the vectors of conversations into clusters, marks outliers, and assigns conversations that come later."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from engine.base.errors import NotYet, UsageError
from engine.goals.clusters.kmeans import (
    FULL_BATCH_ROWS,
    RESTARTS,
    Nearest,
    Note,
    canonical_order,
    closest,
    directions,
    nearest,
    solve,
    sums_of,
)
from engine.model.embedders.tfidf import one_thread
from engine.model.embedders.vectors import (
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    has_vector,
    mean_direction,
    unit_rows,
)

OUTLIER = -1
MIN_MEMBERS = 2
"""Smaller clusters are dropped; their members go to the nearest other cluster or become outliers."""
CUT = 4.0
"""Robust standard deviations above the median distance beyond which a row is an outlier."""
PSEUDO_MEMBERS = 10
"""Weight, in members, of the statistics of all clusters when those of one cluster are estimated."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A partition of rows; arrays of n rows are in the order of the vectors, clusters from the largest down.

    Attributes:
        labels: Number of the cluster; `OUTLIER` for a row that is in none.
        centres: Shape (k, d), rows of length 1.
        distances: Cosine distance to the nearest center, of outliers too; 1 for a row of zeros.
        nearest: The nearest center, of outliers too.
        others, other_distances: The second nearest center; -1 and 2 where there is no second.
        inertia: Mean distance of the rows in clusters.
        seed: Seed of the random numbers.
    """

    labels: Numbers
    centres: Vectors
    distances: Floats
    nearest: Numbers
    others: Numbers
    other_distances: Floats
    inertia: float
    seed: int

    @property
    def k(self) -> int:
        """Number of clusters."""
        return len(self.centres)

    @property
    def sizes(self) -> Indices:
        """Members of each cluster, shape (k,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.k).astype(np.int64)

    def members(self, number: int) -> Indices:
        """Row numbers of the members of one cluster, ascending."""
        return np.flatnonzero(self.labels == number)


def cluster(
    vectors: Vectors,
    k: int,
    seed: int = 0,
    *,
    restarts: int = RESTARTS,
    cut: float | None = CUT,
    largest: int | None = None,
    note: Note = lambda done, total: None,
) -> Clusters:
    """Partitions rows into about k clusters and marks outliers.

    The same rows, k, seed and number of BLAS threads give the same result bit for bit. Up to `kmeans.FULL_BATCH_ROWS`
    rows the result depends neither on the number of threads nor on the order of the rows.

    Args:
        vectors: Shape (n, d), rows of length 1; rows of zeros belong to no cluster. May be a memory map.
        k: Number of clusters; fewer are found if there are fewer different rows.
        restarts: Number of k-means runs; the result with the least inertia is returned.
        cut: Robust standard deviations above the median distance beyond which a row is an outlier, see
            `outlier_limits`; None marks no outliers.
        largest: Clusters with more members are split; None splits none.
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
    small = len(order) <= FULL_BATCH_ROWS
    with one_thread() if small else nullcontext():
        centres = solve(
            vectors, order, min(k, len(rows)), seed, restarts=restarts, note=note
        ).centres
        if largest is not None:
            centres = _split_large(vectors, order, centres, max(MIN_MEMBERS, largest), seed)
        centres = _means(vectors, order, centres)
        # In the canonical order, so that rounding does not depend on the order of the rows. For large inputs the copy
        # of all rows costs more than that is worth.
        return _finish(vectors, order if small else rows, centres, cut, seed)


def split(vectors: Vectors, members: Indices, parts: int, seed: int = 0) -> tuple[Indices, ...]:
    """Splits one cluster by k-means inside it.

    Args:
        members: Rows of the cluster.
        parts: Most parts to make.

    Returns:
        The row numbers of each part, ascending, the largest part first. They partition the members. One part if all
        members are equal.
    """
    rows = np.sort(np.asarray(members, dtype=np.int64))
    if parts < 2 or len(rows) < 2:
        return (rows,)
    order = canonical_order(vectors, rows, seed)
    found = solve(
        vectors, order, min(parts, len(rows)), seed, restarts=RESTARTS, note=lambda *_: None
    )
    labels = _closest_rows(vectors, rows, found.centres)
    made = [rows[labels == number] for number in range(len(found.centres))]
    return tuple(sorted((part for part in made if len(part)), key=lambda p: (-len(p), int(p[0]))))


def outlier_limits(distances: Floats, labels: Numbers, k: int, cut: float = CUT) -> Floats:
    """Distance to the center beyond which a member of each cluster is an outlier, shape (k,).

    It is the median of the members' distances plus `cut` robust standard deviations (1.4826 times the median absolute
    deviation). Both are weighted means of the cluster's own value and that of all clusters, which counts as
    `PSEUDO_MEMBERS` members: otherwise a cluster of three near-equal texts would reject the fourth. Medians are used
    because outliers hardly move them.
    """
    inside = labels >= 0
    typical, spread = _robust(distances[inside])
    found = np.empty(k, dtype=np.float32)
    by_label = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[by_label], np.arange(k + 1))
    for number in range(k):
        own = distances[by_label[edges[number] : edges[number + 1]]]
        middle, width = _robust(own) if len(own) else (typical, spread)
        share = len(own) / (len(own) + PSEUDO_MEMBERS)
        found[number] = (
            share * middle + (1 - share) * typical + cut * (share * width + (1 - share) * spread)
        )
    return found


def _robust(values: Floats) -> tuple[float, float]:
    if not len(values):
        return 0.0, 0.0
    middle = float(np.median(values))
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def _closest_rows(vectors: Vectors, rows: Indices, centres: Vectors) -> Numbers:
    """Nearest center of each of `rows`, shape (rows,); copies one block of vectors at a time."""
    return np.concatenate([closest(vectors[rows[part]], centres)[0] for part in blocks(len(rows))])


def _nearest_rows(vectors: Vectors, rows: Indices, centres: Vectors) -> Nearest:
    """`kmeans.nearest` of `rows`; copies one block of vectors at a time."""
    parts = [nearest(vectors[rows[part]], centres) for part in blocks(len(rows))]
    return Nearest(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _means(vectors: Vectors, order: Indices, centres: Vectors) -> Vectors:
    """Mean direction of the rows nearest to each center, shape (k, d); drops centers with fewer than `MIN_MEMBERS`."""
    while True:
        labels = _closest_rows(vectors, order, centres)
        poor = np.bincount(labels, minlength=len(centres)) < MIN_MEMBERS
        if not poor.any() or len(centres) == 1:
            break
        if poor.all():
            poor[0] = False
        centres = centres[~poor]
    sums = np.zeros(centres.shape, dtype=np.float64)
    for part in blocks(len(order)):
        sums += sums_of(vectors[order[part]], labels[part], len(centres))
    return directions(sums, centres)


def _split_large(
    vectors: Vectors, order: Indices, centres: Vectors, largest: int, seed: int
) -> Vectors:
    """Centers, with each cluster of more than `largest` rows replaced by the parts that it is split into."""
    labels = _closest_rows(vectors, order, centres)
    found = []
    for number, size in enumerate(np.bincount(labels, minlength=len(centres))):
        if size <= largest:
            found.append(centres[number : number + 1])
            continue
        parts = split(vectors, order[labels == number], -(-int(size) // largest), seed)
        found.append(np.stack([mean_direction(vectors, part) for part in parts]))
    return np.concatenate(found)


def _finish(
    vectors: Vectors, rows: Indices, centres: Vectors, cut: float | None, seed: int
) -> Clusters:
    """Labels rows by their nearest centers, marks outliers, and numbers clusters by size."""
    while True:
        near = _nearest_rows(vectors, rows, centres)
        distances = np.maximum(0, 1 - near.first_cosine)
        labels = near.first.copy()
        if cut is not None:
            labels[distances > outlier_limits(distances, labels, len(centres), cut)[labels]] = (
                OUTLIER
            )
        sizes = np.bincount(labels[labels >= 0], minlength=len(centres))
        if sizes.all():
            break
        centres = centres[sizes > 0]
    # Clusters of equal size are ordered by their centers, which do not depend on the order of the rows.
    rank = np.lexsort((*centres.T[:4], -sizes))
    # One entry more, at index -1, so that outliers stay outliers.
    renamed = np.full(len(centres) + 1, OUTLIER, dtype=np.int32)
    renamed[rank] = np.arange(len(centres), dtype=np.int32)

    count = len(vectors)
    found = Clusters(
        labels=np.full(count, OUTLIER, np.int32),
        centres=centres[rank],
        distances=np.ones(count, np.float32),
        nearest=np.full(count, OUTLIER, np.int32),
        others=np.full(count, OUTLIER, np.int32),
        other_distances=np.full(count, 2, np.float32),
        # Sorted, because a sum of floats depends on their order.
        inertia=float(np.sort(distances[labels >= 0]).mean(dtype=np.float64)),
        seed=seed,
    )
    found.labels[rows] = renamed[labels]
    found.distances[rows] = distances
    found.nearest[rows] = renamed[near.first]
    found.others[rows] = renamed[near.second]
    found.other_distances[rows] = 1 - near.second_cosine
    return found


NOVEL = -1
MEDIAN_SCORE = 0.9
"""Score that the median member has when it is compared with the nearest other cluster alone."""
MEMBER_QUANTILE = 0.99
"""Quantile of the members' distances that is the limit of a cluster."""
QUANTILE_MEMBERS = 50
"""Members from which the limit is this quantile alone; with fewer it is mixed with the limit of outliers."""
OTHERS_ABOVE = 0.15
MOST_OTHERS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The clusters that a conversation can be assigned to.

    Attributes:
        centres: Shape (k, d), rows of length 1.
        limits: Cosine distance to each center beyond which a conversation is novel, shape (k,).
        sharpness: Inverse temperature: factor of the cosines in the softmax.
    """

    centres: Vectors
    limits: Floats
    sharpness: float


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """The clusters of n rows.

    Attributes:
        labels: The nearest cluster; `NOVEL` for a row beyond its limit.
        nearest: The nearest cluster, also for novel rows; -1 for a row of zeros.
        scores: Score of the nearest cluster, in (0, 1]; 0 for a row of zeros.
        distances: Cosine distance to its center; 1 for a row of zeros.
        others: Further clusters of each row as (number, score), highest score first.
    """

    labels: Numbers
    nearest: Numbers
    scores: Floats
    distances: Floats
    others: tuple[tuple[tuple[int, float], ...], ...]


def membership_of(vectors: Vectors, labels: Numbers, k: int) -> Membership:
    """Computes centers, limits and sharpness from a partition (the clusters, or the groups after decisions).

    The limit of a cluster is the `MEMBER_QUANTILE` quantile of its members' distances, mixed with the limit of outliers
    if it has few members. Scores are a softmax over clusters of cosine times sharpness. The sharpness is chosen so that
    the median member has a score of `MEDIAN_SCORE` against the nearest other cluster, because cosines of different
    embedders differ in range. Scores rank clusters; they are not calibrated probabilities.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row in 0 .. k - 1, negative for none.
        k: Number of clusters.

    Raises:
        UsageError: A cluster has no members.
    """
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    if k < 1 or len(sizes) != k or not sizes.all():
        raise UsageError("A cluster has no members to learn from.")
    sums = np.zeros((k, vectors.shape[1]), dtype=np.float64)
    for part in blocks(len(vectors)):
        inside = np.flatnonzero(labels[part] >= 0)
        sums += sums_of(vectors[part][inside], labels[part][inside], k)
    centres = unit_rows(sums)
    distances = np.ones(len(vectors), dtype=np.float32)
    gaps = np.zeros(len(vectors), dtype=np.float32)
    for part in blocks(len(vectors)):
        own = labels[part]
        cosines = vectors[part] @ centres.T
        line = np.arange(len(own))
        mine = cosines[line, own].copy()
        distances[part] = np.maximum(0, 1 - mine)
        cosines[line, own] = -2
        gaps[part] = mine - cosines.max(axis=1)
    gap = float(np.median(gaps[labels >= 0])) if k > 1 else 1.0
    sharpness = math.log(MEDIAN_SCORE / (1 - MEDIAN_SCORE)) / min(2.0, max(gap, 1e-3))
    return Membership(centres, _limits(distances, labels, sizes), sharpness)


def assign(
    vectors: Vectors, membership: Membership, *, others_above: float = OTHERS_ABOVE
) -> Assigned:
    """Assigns rows to clusters, block by block.

    Args:
        vectors: Shape (n, d), from the embedder of the clustered vectors.
        others_above: Least score of a further cluster; at most `MOST_OTHERS` are returned.
    """
    centres = membership.centres
    near = nearest(vectors, centres)
    live = has_vector(vectors)
    distances = np.where(live, np.maximum(0, 1 - near.first_cosine), 1).astype(np.float32)
    scores = np.zeros(len(vectors), dtype=np.float32)
    others: list[tuple[tuple[int, float], ...]] = []
    for part in blocks(len(vectors), max(256, 4_000_000 // len(centres))):
        shares = membership.sharpness * (vectors[part] @ centres.T).astype(np.float64)
        shares = np.exp(shares - shares.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        line = np.arange(len(shares))
        scores[part] = shares[line, near.first[part]]
        shares[line, near.first[part]] = 0
        shares[~live[part]] = 0
        others += _others(shares, others_above)
    scores[~live] = 0
    first = np.where(live, near.first, NOVEL).astype(np.int32)
    known = live & (distances <= membership.limits[near.first])
    return Assigned(
        np.where(known, near.first, NOVEL).astype(np.int32), first, scores, distances, tuple(others)
    )


def _limits(distances: Floats, labels: Numbers, sizes: Indices) -> Floats:
    found = outlier_limits(distances, labels, len(sizes), CUT)
    for number, size in enumerate(sizes):
        trust = min(1.0, size / QUANTILE_MEMBERS)
        own = float(np.quantile(distances[labels == number], MEMBER_QUANTILE))
        found[number] = trust * own + (1 - trust) * max(own, float(found[number]))
    return found


def _others(
    shares: np.ndarray[tuple[int, int], np.dtype[np.float64]], least: float
) -> list[tuple[tuple[int, float], ...]]:
    found: list[tuple[tuple[int, float], ...]] = [()] * len(shares)
    for row in np.flatnonzero(shares.max(axis=1) >= least):
        best = np.argsort(-shares[row], kind="stable")[:MOST_OTHERS]
        found[row] = tuple((int(c), float(shares[row, c])) for c in best if shares[row, c] >= least)
    return found
