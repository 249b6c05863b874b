"""Nearest-neighbor search, and settling: moving rows to the group of most of their neighbors.

The search is exact for few rows; many are searched by an HNSW index, a graph with links between near rows, which finds
nearly all of the nearest ones (Malkov & Yashunin 2018, IEEE TPAMI 42).

The index is a file that can be rebuilt at any time. It is loaded only if its fingerprint, its size and the hash of its
bytes match those in its metadata file, because hnswlib does not check what it reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine.base.files import atomic_replacement, create_private_folder, write_atomically
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
"""Rows that are searched or added at once."""
CHECKPOINT_ROWS = 64 * BATCH_ROWS
"""Rows added between two writes of the index file."""
_SEED = 20_240_607


class NearestRows(NamedTuple):
    """Nearest rows of each of m rows, nearest first.

    Attributes:
        rows: Shape (m, count); -1 where there are fewer than `count`.
        distances: Cosine distances, shape (m, count); 2 where there is no row.
    """

    rows: Indices
    distances: Floats


class Neighbours:
    """Finds the rows that are nearest to a vector; rows of zeros are never found.

    Args:
        vectors: Shape (n, d), rows of length 1; may be a memory map.
        fingerprint: Identifies these vectors in the metadata of the index file.
    """

    def __init__(self, vectors: Vectors, fingerprint: str) -> None:
        self._vectors = vectors
        self._live = np.flatnonzero(has_vector(vectors))
        self.fingerprint = fingerprint
        self._index: Any = None

    @classmethod
    def build(
        cls,
        vectors: Vectors,
        fingerprint: str,
        *,
        threads: int = 1,
        note: Callable[[int, int], None] = lambda done, total: None,
    ) -> Neighbours:
        """Returns the neighbors of these vectors, with the index built in memory.

        Args:
            threads: One thread builds the same index for the same rows; more are faster and not reproducible.
            note: Called with (rows done, rows in all); may raise to stop the work.
        """
        neighbors = cls(vectors, fingerprint)
        if neighbors.exact:
            return neighbors
        neighbors._with_empty_index()
        neighbors._add(neighbors._live, threads, note)
        return neighbors

    @property
    def exact(self) -> bool:
        """Whether every row is compared, without an index."""
        return len(self._live) < MIN_INDEXED_ROWS

    @classmethod
    def load_or_build(
        cls,
        path: Path,
        vectors: Vectors,
        fingerprint: str,
        *,
        note: Callable[[int, int], None] = lambda indexed_rows, total: None,
    ) -> Neighbours:
        """Returns the neighbors of these vectors from the index file at `path`; builds the rows that it lacks and
        writes it.

        It is written after every `CHECKPOINT_ROWS` rows and loaded again each time, so that a build that was
        interrupted and resumed gives the same index as one that was not.

        Args:
            note: Called with (rows done, rows in all); may raise to stop the work.

        Raises:
            OSError: The file cannot be written or read back.
        """
        all_live = cls(vectors, fingerprint)._live
        neighbors = cls.load(path, vectors, fingerprint)
        while neighbors is None or not (neighbors.exact or len(neighbors._live) == len(all_live)):
            indexed_rows = 0 if neighbors is None else len(neighbors._live)
            end_row = indexed_rows + CHECKPOINT_ROWS
            vectors_so_far = vectors[: all_live[end_row]] if end_row < len(all_live) else vectors

            def report(here: int, _: int, indexed_rows: int = indexed_rows) -> None:
                note(indexed_rows + here, len(all_live))

            grown = (
                cls(vectors_so_far, fingerprint)._with_empty_index()
                if neighbors is None
                else neighbors._resized_for(vectors_so_far)
            )
            grown._add(grown._live[indexed_rows:], 1, report)
            grown.save(path)
            # an index of a million rows takes 2 GB, so it is freed before the file is loaded
            del grown
            neighbors = None
            neighbors = cls.load(path, vectors, fingerprint)
            if neighbors is None:
                raise OSError(f"{path} cannot be read back.")
        return neighbors

    def _resized_for(self, vectors: Vectors) -> Neighbours:
        """Moves the index into a new object with capacity for all of `vectors`, which begins with the rows of this one.
        The new rows are not in the index yet, and this object can no longer be used."""
        larger = Neighbours(vectors, self.fingerprint)
        larger._index = self._index
        larger._index.resize_index(len(larger._live))
        return larger

    def _with_empty_index(self) -> Neighbours:
        """Creates an empty index with capacity for all rows; returns this object."""
        self._index = _empty_index(self._vectors.shape[1])
        self._index.init_index(
            max_elements=len(self._live),
            ef_construction=BUILD_EFFORT,
            M=LINKS_PER_ROW,
            random_seed=_SEED,
        )
        return self

    def query(self, vectors: Vectors, count: int, *, threads: int = -1) -> NearestRows:
        """Returns the `count` rows nearest to each of m vectors of length 1; a row of the index finds itself first."""
        nearest = NearestRows(
            np.full((len(vectors), count), -1, dtype=np.int64),
            np.full((len(vectors), count), 2, dtype=np.float32),
        )
        available_count = min(count, len(self._live))
        if not available_count:
            return nearest
        for part in blocks(len(vectors), BATCH_ROWS):
            rows, distances = self._search(vectors[part], available_count, threads)
            nearest.rows[part, :available_count] = rows
            nearest.distances[part, :available_count] = distances
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
        for part in blocks(len(rows), BATCH_ROWS):
            note(part.start, len(rows))
            candidates = self.query(self._vectors[rows[part]], count + 1)
            is_itself = candidates.rows == rows[part, None]
            # Among many equal rows the row itself may be missing: then the last one is left out.
            is_itself[~is_itself.any(axis=1), -1] = True
            shape = (len(is_itself), count)
            nearest.rows[part] = candidates.rows[~is_itself].reshape(shape)
            nearest.distances[part] = candidates.distances[~is_itself].reshape(shape)
        return nearest

    def save(self, path: Path) -> None:
        """Writes the index and its metadata file atomically; does nothing if the search is exact."""
        if self._index is None:
            return
        create_private_folder(path.parent)
        _metadata_path(path).unlink(missing_ok=True)
        with atomic_replacement(path) as part:
            self._index.save_index(str(part))
            metadata = {
                "fingerprint": self.fingerprint,
                "rows": len(self._vectors),
                "indexed": len(self._live),
                "dimensions": int(self._vectors.shape[1]),
                "sha256": _hash(part),
            }
        write_atomically(_metadata_path(path), json.dumps(metadata))

    @classmethod
    def load(cls, path: Path, vectors: Vectors, fingerprint: str) -> Neighbours | None:
        """Returns the neighbors with the index of the first rows of `vectors` that `save` wrote. Few rows are searched
        without a file.

        Returns:
            None if the file is missing or damaged, or was built from other vectors or from more rows.
        """
        empty = cls(vectors, fingerprint)
        if empty.exact:
            return empty
        try:
            metadata = json.loads(_metadata_path(path).read_text(encoding="utf-8"))
            rows, indexed = int(metadata["rows"]), int(metadata["indexed"])
            actual_metadata = (metadata["fingerprint"], metadata["dimensions"], metadata["sha256"])
            if rows > len(vectors) or actual_metadata != (
                fingerprint,
                vectors.shape[1],
                _hash(path),
            ):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        loaded = cls(vectors[:rows], fingerprint)
        if len(loaded._live) != indexed or loaded.exact:
            return None
        loaded._index = _empty_index(vectors.shape[1])
        loaded._index.load_index(str(path), max_elements=indexed)
        return loaded

    def _add(self, rows: Indices, threads: int, note: Callable[[int, int], None]) -> None:
        """Adds rows to the index, batch by batch."""
        for part in blocks(len(rows), BATCH_ROWS):
            note(part.start, len(rows))
            batch_rows = rows[part]
            self._index.add_items(self._vectors[batch_rows], batch_rows, num_threads=threads)

    def _search(self, vectors: Vectors, count: int, threads: int) -> tuple[Indices, Floats]:
        """Returns the numbers and distances of the rows nearest to each vector, both of shape (m, count)."""
        if self._index is None:
            return self._search_exactly(vectors, count)
        self._index.set_ef(max(MIN_SEARCH_EFFORT, 2 * count))
        rows, distances = self._index.knn_query(vectors, k=count, num_threads=threads)
        return rows.astype(np.int64), np.maximum(0, distances)

    def _search_exactly(self, vectors: Vectors, count: int) -> tuple[Indices, Floats]:
        """Returns what `_search` does, by comparing every row."""
        distances = np.concatenate(
            [
                1 - np.asarray(vectors) @ self._vectors[self._live[part]].T
                for part in blocks(len(self._live))
            ],
            axis=1,
        )
        # Rows at equal distances come in their order.
        best = np.argsort(distances, axis=1, kind="stable")[:, :count]
        return self._live[best], np.maximum(0, np.take_along_axis(distances, best, axis=1))


def overlap(near: NearestRows, rows: Indices, labels: Numbers, k: int) -> csr_matrix:
    """Returns the overlap of clusters, a sparse matrix of shape (k, k).

    Args:
        near: Neighbors of `rows`, from `Neighbours.of_rows`.
        labels: Cluster of every row; negative for a row in none, which is ignored.
        k: Number of clusters.

    Returns:
        At (a, b) the share of the neighbors of a's members that are in b, of those that are in any cluster; each row
        sums to 1.
    """
    from scipy.sparse import csr_matrix

    own_clusters = np.repeat(labels[rows], near.rows.shape[1])
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
    sums = np.asarray(counts.sum(axis=1)).ravel()
    counts.data /= np.repeat(sums, np.diff(counts.indptr))
    return counts


def _empty_index(dimensions: int) -> Any:
    """Returns an index without rows or capacity."""
    from hnswlib import Index

    return Index(space="ip", dim=dimensions)


def _metadata_path(path: Path) -> Path:
    """Returns the path of the metadata file of an index file."""
    return path.with_name(f"{path.name}.json")


def _hash(path: Path) -> str:
    """Returns the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SETTLE_NEIGHBOURS = 10
"""Nearest other rows of each row that `settle` should be given."""
MIN_SETTLE_SHARE = 0.6
"""Share of the neighbors' weight (their cosines, if positive) from which a row moves to a group."""
SETTLE_ROUNDS = 3
"""Most rounds in which rows move."""


def settle(near: NearestRows, labels: Numbers, fixed: Mask) -> Numbers:
    """Moves rows, after groups were merged, to the group that has most of their nearest neighbors.

    The center describes a merged group badly: a conversation at its edge may be nearer to the center of another group,
    and one far from every center may lie among members of a single group. So each row takes the weighted majority label
    of its neighbors, for a few rounds (label propagation; Zhu & Ghahramani 2002, CMU-CALD-02-107, with a majority
    instead of a distribution).

    Returns:
        The group of each row, shape (n,). A group that would lose all of its rows keeps them.

    Args:
        near: The nearest other rows of each of n rows.
        labels: Group of each row, shape (n,); negative for a row in none, which has no vote.
        fixed: Rows that do not move, shape (n,); they vote.
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
    least `MIN_SETTLE_SHARE` of the weight."""
    settled = labels.copy()
    for part in blocks(len(labels), 4_096):
        rows = near.rows[part]
        votes = np.where(rows >= 0, labels[rows], -1)
        weights = np.where(votes >= 0, np.maximum(0.0, 1.0 - near.distances[part]), 0.0)
        same = votes[:, :, None] == votes[:, None, :]
        weight_of_vote = (same * weights[:, None, :]).sum(axis=2)
        best = weight_of_vote.argmax(axis=1)
        all_rows = np.arange(len(best))
        moves = (weight_of_vote[all_rows, best] >= MIN_SETTLE_SHARE * weights.sum(axis=1)) & (
            weights[all_rows, best] > 0
        )
        settled[part] = np.where(moves, votes[all_rows, best], settled[part])
    return settled
