"""Conversations with similar vectors in clusters, and those marked that are like no others."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from engine.errors import UsageError
from engine.goals.clusters.kmeans import (
    RESTARTS,
    WHOLE,
    Nearest,
    Note,
    canonical_order,
    closest,
    directions,
    nearest,
    solve,
    sums_of,
)
from engine.goals.embedders.threads import one_thread
from engine.goals.embedders.vectors import (
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    has_vector,
    mean_direction,
)

OUTLIER = -1
LEAST_MEMBERS = 2
"""A cluster of one says nothing; its member goes to the nearest other, as an outlier if it is too far from that."""
CUT = 4.0
"""Robust standard deviations above the median distance from which a row is an outlier."""
POOL = 10
"""Usual distances of a cluster are pooled with those of all as if it had so many members more."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A partition of rows; arrays of n rows are in the order of the vectors, clusters from the largest down.

    Attributes:
        labels: Number of the cluster, `OUTLIER` for a row that belongs to none.
        centres: Shape (k, d), rows of length 1.
        distances: Cosine distance to the nearest centre, of outliers too; 1 for a row of zeros.
        nearest: The nearest centre, of outliers too.
        others, other_distances: The second nearest centre; -1 and 2 where there is no second.
        inertia: Mean distance of the rows in clusters.
        seed: What it was found with.
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
        """Clusters found."""
        return len(self.centres)

    @property
    def sizes(self) -> Indices:
        """Members of each cluster, shape (k,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.k).astype(np.int64)

    def members(self, number: int) -> Indices:
        """Rows of one cluster, ascending."""
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

    The same rows, k, seed and number of numpy's threads give the same result bit for bit; up to `kmeans.WHOLE` rows
    with any number of threads and in whatever order the rows come.

    Args:
        vectors: Shape (n, d), rows of length 1; rows of zeros belong to no cluster. May be a memory map.
        k: Clusters wanted; fewer are found where there are not so many different rows.
        restarts: Attempts, of which the one with the least inertia is taken.
        cut: Robust standard deviations above the median distance from which a row is an outlier, see `limits_of`; None
            marks none.
        largest: Clusters of more members are split again; None leaves them.
        note: Told steps done and in all; may raise to stop.

    Raises:
        UsageError: k is below 1, or no row has a vector.
    """
    if k < 1:
        raise UsageError(f"{k} clusters cannot be made.", "Ask for at least one.")
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise UsageError("No conversation has a vector.", "Look at the texts that were embedded.")
    order = canonical_order(vectors, rows, seed)
    small = len(order) <= WHOLE
    with one_thread() if small else nullcontext():
        centres = solve(
            vectors, order, min(k, len(rows)), seed, restarts=restarts, note=note
        ).centres
        if largest is not None:
            centres = _split_large(vectors, order, centres, max(LEAST_MEMBERS, largest), seed)
        centres = _means(vectors, order, centres)
        # In the canonical order once more, so that not even last bits depend on where a row stands; gathering a million
        # rows is not worth that.
        return _finish(vectors, order if small else rows, centres, cut, seed)


def split(vectors: Vectors, members: Indices, parts: int, seed: int = 0) -> tuple[Indices, ...]:
    """Splits one cluster by k-means inside it.

    Args:
        members: Rows of the cluster.
        parts: At most so many.

    Returns:
        The rows of each part, ascending, the largest part first: together the members, each once. One part where the
        members cannot be told apart.
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


def limits_of(distances: Floats, labels: Numbers, k: int, cut: float = CUT) -> Floats:
    """The distance from which a member of each cluster is an outlier, shape (k,).

    The median of the members' distances plus `cut` robust standard deviations (1.4826 times the median absolute
    deviation), both pooled with those of all clusters as if each had `POOL` members more: a cluster of three near-equal
    texts would otherwise reject the fourth. Medians, because what is to be found must not move the limit.
    """
    inside = labels >= 0
    typical, spread = _robust(distances[inside])
    found = np.empty(k, dtype=np.float32)
    by_label = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[by_label], np.arange(k + 1))
    for number in range(k):
        own = distances[by_label[edges[number] : edges[number + 1]]]
        middle, width = _robust(own) if len(own) else (typical, spread)
        share = len(own) / (len(own) + POOL)
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
    """The nearest centre of some rows, which are gathered block by block."""
    return np.concatenate([closest(vectors[rows[part]], centres)[0] for part in blocks(len(rows))])


def _nearest_rows(vectors: Vectors, rows: Indices, centres: Vectors) -> Nearest:
    """`nearest` of some rows, which are gathered block by block."""
    parts = [nearest(vectors[rows[part]], centres) for part in blocks(len(rows))]
    return Nearest(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _means(vectors: Vectors, order: Indices, centres: Vectors) -> Vectors:
    """Mean directions of the rows nearest to each centre; centres of fewer than `LEAST_MEMBERS` are dropped."""
    while True:
        labels = _closest_rows(vectors, order, centres)
        poor = np.bincount(labels, minlength=len(centres)) < LEAST_MEMBERS
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
    """Centres, where those of more than `largest` rows are replaced by those of their parts."""
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
    """Labels rows by their nearest centres, marks outliers, and numbers clusters by size."""
    while True:
        near = _nearest_rows(vectors, rows, centres)
        distances = np.maximum(0, 1 - near.first_cosine)
        labels = near.first.copy()
        if cut is not None:
            labels[distances > limits_of(distances, labels, len(centres), cut)[labels]] = OUTLIER
        sizes = np.bincount(labels[labels >= 0], minlength=len(centres))
        if sizes.all():
            break
        centres = centres[sizes > 0]
    # Equal sizes are told apart by the centres, which do not depend on the order of the rows.
    rank = np.lexsort((*centres.T[:4], -sizes))
    # One more, so that a label of -1 stays one.
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
