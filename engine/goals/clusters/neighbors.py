"""Nearest-neighbor search, and settling: moving rows to the group of most of their neighbors.

The search is exact for few rows; many are searched by an HNSW index, a graph with links between near rows, which finds
nearly all of the nearest ones (Malkov & Yashunin 2018, IEEE TPAMI 42). Distances are cosine distances (one minus the
cosine) between rows of length 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine.base.arrays import Ints
from engine.model.embedders.vectors import (
    Floats,
    Indices,
    Mask,
    Numbers,
    Vectors,
    blocks,
    has_vector,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


MIN_INDEXED_ROWS = 2_000
"""Number of rows from which an index is built; fewer are searched exactly."""
LINKS_PER_ROW, BUILD_EFFORT, MIN_SEARCH_EFFORT = 16, 120, 64
"""Links of each row in the index (M), rows examined for each row when it is built, and the least number examined in a
search (ef)."""
BATCH_ROWS = 4_096
"""Rows that are searched, added, or vote at once. It bounds the memory, which in a vote grows with the square of the
number of neighbors."""
_SEED = 20_240_607
"""Seed of the index."""

SETTLE_NEIGHBORS = 10
"""Nearest other rows of each row that `settle` should be given."""

MIN_SETTLE_SHARE = 0.6
"""Share of the neighbors' weight (their cosines, if positive) from which a row moves to a group."""

SETTLE_ROUNDS = 3
"""Most rounds in which rows move."""

MIN_FRAGMENT_MIXING = 0.25
"""Least share, in (0, 1], by which two clusters mix that are fragments of one goal. Where a goal is in many clusters
the nearest rows of each are spread over the others, so it is less than the rule on merges asks for."""

MIN_FRAGMENT_LIFT = 2.0
"""Least ratio of the share by which a cluster mixes with other clusters to the share of these among all rows outside
it: few and large clusters mix by chance."""


class NearestRows(NamedTuple):
    """Nearest rows of each of m rows, nearest first.

    Attributes:
        rows: Shape (m, count); -1 where there are fewer than `count`.
        distances: Cosine distances, shape (m, count); 2 where there is no row.
    """

    rows: Indices
    distances: Floats


class Neighbors:
    """Finds the rows that are nearest to a vector; rows of zeros are never found."""

    def __init__(
        self, vectors: Vectors, note: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Builds the index of many rows. One thread does it, so the same rows give the same index.

        Args:
            vectors: Shape (n, d), rows of length 1; may be a memory map.
            note: Called with (rows done, rows in all); may raise to stop the work.
        """
        self._vectors = vectors
        self._nonzero_rows = np.flatnonzero(has_vector(vectors))
        self._index: Any = None
        if len(self._nonzero_rows) >= MIN_INDEXED_ROWS:
            from hnswlib import Index

            self._index = Index(space="ip", dim=vectors.shape[1])
            self._index.init_index(
                max_elements=len(self._nonzero_rows),
                ef_construction=BUILD_EFFORT,
                M=LINKS_PER_ROW,
                random_seed=_SEED,
            )
            for block in blocks(len(self._nonzero_rows), BATCH_ROWS):
                note(block.start, len(self._nonzero_rows))
                rows = self._nonzero_rows[block]
                self._index.add_items(vectors[rows], rows, num_threads=1)

    def query(self, vectors: Vectors, count: int) -> NearestRows:
        """Returns the `count` rows nearest to each of m vectors of length 1, shape (m, d); a row of the index finds
        itself first."""
        nearest = NearestRows(
            np.full((len(vectors), count), -1, dtype=np.int64),
            np.full((len(vectors), count), 2, dtype=np.float32),
        )
        available_count = min(count, len(self._nonzero_rows))
        if not available_count:
            return nearest
        for block in blocks(len(vectors), BATCH_ROWS):
            rows, distances = self._search(vectors[block], available_count)
            nearest.rows[block, :available_count] = rows
            nearest.distances[block, :available_count] = distances
        return nearest

    def of_rows(
        self,
        rows: Indices,
        count: int,
        *,
        note: Callable[[int, int], None] = lambda done, total: None,
    ) -> NearestRows:
        """Returns the `count` rows nearest to each of `rows`, without the row itself.

        Args:
            note: Called with (rows done, rows in all); may raise to stop the work.
        """
        nearest = NearestRows(
            np.empty((len(rows), count), dtype=np.int64),
            np.empty((len(rows), count), dtype=np.float32),
        )
        # Not all at once: a copy of a million rows takes 1.5 GB.
        for block in blocks(len(rows), BATCH_ROWS):
            note(block.start, len(rows))
            candidates = self.query(self._vectors[rows[block]], count + 1)
            is_itself = candidates.rows == rows[block, None]
            # Among many equal rows the row itself may be missing: then the last one is left out.
            is_itself[~is_itself.any(axis=1), -1] = True
            shape = (len(is_itself), count)
            nearest.rows[block] = candidates.rows[~is_itself].reshape(shape)
            nearest.distances[block] = candidates.distances[~is_itself].reshape(shape)
        return nearest

    def _search(self, vectors: Vectors, count: int) -> tuple[Indices, Floats]:
        """Returns the numbers and distances of the rows nearest to each vector, both of shape (m, count)."""
        if self._index is None:
            return self._search_exactly(vectors, count)
        self._index.set_ef(max(MIN_SEARCH_EFFORT, 2 * count))
        rows, distances = self._index.knn_query(vectors, k=count)
        return rows.astype(np.int64), np.maximum(0, distances)

    def _search_exactly(self, vectors: Vectors, count: int) -> tuple[Indices, Floats]:
        """Returns what `_search` does, shape (m, count), by comparing every row."""
        distances = np.concatenate(
            [
                1 - np.asarray(vectors) @ self._vectors[self._nonzero_rows[block]].T
                for block in blocks(len(self._nonzero_rows))
            ],
            axis=1,
        )
        # Rows at equal distances come in their order.
        best = np.argsort(distances, axis=1, kind="stable")[:, :count]
        return self._nonzero_rows[best], np.maximum(0, np.take_along_axis(distances, best, axis=1))


def measure_overlap(near: NearestRows, labels: Numbers, k: int) -> csr_matrix:
    """Returns the overlap of clusters, a sparse matrix of shape (k, k).

    Args:
        near: Neighbors of every row, from `Neighbors.of_rows`.
        labels: Cluster of every row, shape (rows,); negative for a row in none, which is ignored.
        k: Number of clusters.

    Returns:
        At (a, b) the share of the neighbors of a's members that are in b, of those that are in any cluster; each row
        sums to 1.
    """
    from scipy.sparse import csr_matrix

    _, neighbor_count = near.rows.shape
    own_clusters = np.repeat(labels, neighbor_count)
    neighbor_rows = near.rows.ravel()
    neighbor_clusters = np.where(neighbor_rows >= 0, labels[neighbor_rows], -1)
    both_clustered = (own_clusters >= 0) & (neighbor_clusters >= 0)
    counts = csr_matrix(
        (
            np.ones(int(both_clustered.sum())),
            (own_clusters[both_clustered], neighbor_clusters[both_clustered]),
        ),
        shape=(k, k),
    )
    # `data` holds the entries row after row, and `indptr` where each row begins: so each is divided by its row's sum.
    sums = np.asarray(counts.sum(axis=1)).ravel()
    counts.data /= np.repeat(sums, np.diff(counts.indptr))
    return counts


def measure_mixing(cosines: Vectors, labels: Numbers, k: int) -> Vectors:
    """Returns how clusters mix, shape (k, k): at (a, b) the share of a's members whose nearest row outside a is in b.

    Unlike the overlap it does not fall with the size of a cluster, whose members are one another's nearest neighbors.

    Args:
        cosines: Cosine of each pair of rows, shape (rows, rows).
        labels: Cluster of every row, shape (rows,); negative for a row in none, which is ignored.
        k: Number of clusters; one without rows mixes with none.
    """
    # members of one cluster stand together, so that a maximum over each run of columns is one over a cluster
    order = np.flatnonzero(labels >= 0)[np.argsort(labels[labels >= 0], kind="stable")]
    own, starts = np.unique(labels[order], return_index=True)
    shares = np.zeros((k, k), dtype=np.float32)
    if len(own) < 2:
        return shares
    nearest = np.maximum.reduceat(cosines[np.ix_(order, order)], starts, axis=1)
    own_columns = np.searchsorted(own, labels[order])
    nearest[np.arange(len(order)), own_columns] = -np.inf
    np.add.at(shares, (labels[order], own[nearest.argmax(axis=1)]), 1)
    shares[own] /= np.bincount(own_columns)[:, None]
    return shares


def find_fragments(
    shares: Vectors, sizes: Ints, numbers: Sequence[int], *, mutual: bool = False
) -> list[list[int]]:
    """Returns those of some clusters that may be fragments of one another: joined, over any number of steps, by pairs
    of which one mixes with the other (`MIN_FRAGMENT_MIXING`), and more than by chance (`MIN_FRAGMENT_LIFT`), each set
    in ascending order.

    Args:
        shares: How all clusters mix, shape (k, k), as `measure_mixing` returns it.
        sizes: Number of rows of each cluster, shape (k,).
        numbers: The clusters that may be joined, ascending.
        mutual: Whether both of a pair have to mix with the other.
    """
    if len(numbers) < 2:
        return []
    from scipy.sparse.csgraph import connected_components

    by_chance = sizes[numbers] / np.maximum(1, sizes.sum() - sizes[numbers])[:, None]
    among = shares[np.ix_(numbers, numbers)]
    mixes = (among >= MIN_FRAGMENT_MIXING) & (among >= MIN_FRAGMENT_LIFT * by_chance)
    count, sets = connected_components(mixes & mixes.T if mutual else mixes, directed=False)
    members = [np.flatnonzero(sets == number).tolist() for number in range(count)]
    return [[numbers[row] for row in rows] for rows in members if len(rows) > 1]


def settle(near: NearestRows, labels: Numbers, fixed: Mask) -> Numbers:
    """Moves rows, after groups were merged, to the group that has most of their nearest neighbors.

    The center describes a merged group badly: a conversation at its edge may be nearer to the center of another group,
    and one far from every center may lie among members of a single group. So each row takes the weighted majority label
    of its neighbors, for a few rounds (label propagation; Zhu & Ghahramani 2002, CMU-CALD-02-107, with a majority
    instead of a distribution).

    Args:
        near: The nearest other rows of each of n rows.
        labels: Group of each row, shape (n,); negative for a row in none, which has no vote.
        fixed: Rows that do not move, shape (n,); they vote.

    Returns:
        The group of each row, shape (n,). A group that would lose all of its rows keeps them.
    """
    groups = np.unique(labels[labels >= 0])
    current = labels
    for _ in range(SETTLE_ROUNDS):
        moved = _settle_once(near, current)
        moved[fixed] = labels[fixed]
        # The rows that one group keeps may have been all the rows of another.
        while len(emptied := np.setdiff1d(groups, moved)):
            restored = np.isin(labels, emptied)
            moved[restored] = labels[restored]
        if np.array_equal(moved, current):
            break
        current = moved
    return current


def _settle_once(near: NearestRows, labels: Numbers) -> Numbers:
    """Returns the labels after one round: a row takes the label with the most weight among its neighbors if that has at
    least `MIN_SETTLE_SHARE` of the weight. Labels have the shape (n,)."""
    settled = labels.copy()
    for block in blocks(len(labels), BATCH_ROWS):
        rows = near.rows[block]
        votes = np.where(rows >= 0, labels[rows], -1)
        weights = np.where(votes >= 0, np.maximum(0.0, 1.0 - near.distances[block]), 0.0)
        # For each neighbor, the weight of all neighbors that vote as it does, shape (rows, neighbors).
        same = votes[:, :, None] == votes[:, None, :]
        weight_of_vote = (same * weights[:, None, :]).sum(axis=2)
        best = weight_of_vote.argmax(axis=1)
        all_rows = np.arange(len(best))
        moves = (weight_of_vote[all_rows, best] >= MIN_SETTLE_SHARE * weights.sum(axis=1)) & (
            weights[all_rows, best] > 0
        )
        settled[block] = np.where(moves, votes[all_rows, best], settled[block])
    return settled
