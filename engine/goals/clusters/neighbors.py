"""Nearest-neighbor search, and settling by neighbors. The search is exact for few rows, an HNSW index serves many
(Malkov & Yashunin 2018, IEEE TPAMI 42).

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


EXACT = 2_000
"""Below this number of rows the search is exact."""
LINKS, BUILD_EFFORT, LEAST_EFFORT = 16, 120, 64
BATCH = 4_096
CHECKPOINT = 64 * BATCH
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
        """Builds the index in memory.

        Args:
            threads: One thread builds the same index for the same rows; more are faster and not reproducible.
            note: Called with (rows done, rows in all); may raise to stop the work.
        """
        made = cls(vectors, fingerprint)
        if made.exact:
            return made
        made._with_empty_index()
        made._add(made._live, threads, note)
        return made

    @property
    def exact(self) -> bool:
        """Whether every row is compared, without an index."""
        return len(self._live) < EXACT

    @classmethod
    def load_or_build(
        cls,
        path: Path,
        vectors: Vectors,
        fingerprint: str,
        *,
        note: Callable[[int, int], None] = lambda done, total: None,
    ) -> Neighbours:
        """Loads the index file at `path`; builds the rows that it lacks and writes it.

        It is written after every `CHECKPOINT` rows and loaded again each time, so that a build that was interrupted and
        resumed gives the same index as one that was not.

        Args:
            note: Called with (rows done, rows in all); may raise to stop the work.

        Raises:
            OSError: The file cannot be written or read back.
        """
        live = cls(vectors, fingerprint)._live
        found = cls.load(path, vectors, fingerprint)
        while found is None or not (found.exact or len(found._live) == len(live)):
            done = 0 if found is None else len(found._live)
            end = done + CHECKPOINT
            part = vectors[: live[end]] if end < len(live) else vectors

            def report(here: int, _: int, done: int = done) -> None:
                note(done + here, len(live))

            grown = (
                cls(part, fingerprint)._with_empty_index()
                if found is None
                else found._resized_for(part)
            )
            grown._add(grown._live[done:], 1, report)
            grown.save(path)
            # an index of a million rows takes 2 GB, so it is freed before the file is loaded
            del grown
            found = None
            found = cls.load(path, vectors, fingerprint)
            if found is None:
                raise OSError(f"{path} cannot be read back.")
        return found

    def _resized_for(self, vectors: Vectors) -> Neighbours:
        """Moves the index into a new object with capacity for all of `vectors`, which begins with the rows of this one.
        The new rows are not in the index yet, and this object can no longer be used."""
        made = Neighbours(vectors, self.fingerprint)
        made._index = self._index
        made._index.resize_index(len(made._live))
        return made

    def _with_empty_index(self) -> Neighbours:
        """Creates an empty index with capacity for all rows; returns this object."""
        self._index = _empty_index(self._vectors.shape[1])
        self._index.init_index(
            max_elements=len(self._live), ef_construction=BUILD_EFFORT, M=LINKS, random_seed=_SEED
        )
        return self

    def query(self, vectors: Vectors, count: int, *, threads: int = -1) -> NearestRows:
        """The `count` rows nearest to each of m vectors of length 1; a row of the index finds itself first."""
        found = NearestRows(
            np.full((len(vectors), count), -1, dtype=np.int64),
            np.full((len(vectors), count), 2, dtype=np.float32),
        )
        wanted = min(count, len(self._live))
        if not wanted:
            return found
        for part in blocks(len(vectors), BATCH):
            rows, distances = self._nearest(vectors[part], wanted, threads)
            found.rows[part, :wanted] = rows
            found.distances[part, :wanted] = distances
        return found

    def of_rows(
        self,
        rows: Indices,
        count: int,
        *,
        note: Callable[[int, int], None] = lambda done, total: None,
    ) -> NearestRows:
        """The `count` rows nearest to each of `rows`, without the row itself.

        Args:
            note: Called with (rows done, rows in all); may raise to stop the work.
        """
        found = NearestRows(
            np.empty((len(rows), count), dtype=np.int64),
            np.empty((len(rows), count), dtype=np.float32),
        )
        # Not all at once: a copy of a million rows takes 1.5 GB.
        for part in blocks(len(rows), BATCH):
            note(part.start, len(rows))
            near = self.query(self._vectors[rows[part]], count + 1)
            own = near.rows == rows[part, None]
            # Among many equal rows the row itself may be missing: then the last one is left out.
            own[~own.any(axis=1), -1] = True
            shape = (len(own), count)
            found.rows[part] = near.rows[~own].reshape(shape)
            found.distances[part] = near.distances[~own].reshape(shape)
        return found

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
        """Loads the index of the first rows of `vectors` that `save` wrote. Few rows are searched without a file.

        Returns:
            None if the file is missing or damaged, or was built from other vectors or from more rows.
        """
        made = cls(vectors, fingerprint)
        if made.exact:
            return made
        try:
            metadata = json.loads(_metadata_path(path).read_text(encoding="utf-8"))
            rows, indexed = int(metadata["rows"]), int(metadata["indexed"])
            report = (metadata["fingerprint"], metadata["dimensions"], metadata["sha256"])
            if rows > len(vectors) or report != (fingerprint, vectors.shape[1], _hash(path)):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        before = cls(vectors[:rows], fingerprint)
        if len(before._live) != indexed or before.exact:
            return None
        before._index = _empty_index(vectors.shape[1])
        before._index.load_index(str(path), max_elements=indexed)
        return before

    def _add(self, rows: Indices, threads: int, note: Callable[[int, int], None]) -> None:
        for part in blocks(len(rows), BATCH):
            note(part.start, len(rows))
            chosen = rows[part]
            self._index.add_items(self._vectors[chosen], chosen, num_threads=threads)

    def _nearest(self, vectors: Vectors, count: int, threads: int) -> tuple[Indices, Floats]:
        if self._index is None:
            return self._exact(vectors, count)
        self._index.set_ef(max(LEAST_EFFORT, 2 * count))
        rows, distances = self._index.knn_query(vectors, k=count, num_threads=threads)
        return rows.astype(np.int64), np.maximum(0, distances)

    def _exact(self, vectors: Vectors, count: int) -> tuple[Indices, Floats]:
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
    """Overlap of clusters, a sparse matrix of shape (k, k).

    Args:
        near: Neighbors of `rows`, from `Neighbours.of_rows`.
        labels: Cluster of every row; negative for a row in none, which is ignored.
        k: Number of clusters.

    Returns:
        At (a, b) the share of the neighbors of a's members that are in b, of those that are in any cluster; each row
        sums to 1.
    """
    from scipy.sparse import csr_matrix

    own = np.repeat(labels[rows], near.rows.shape[1])
    places = near.rows.ravel()
    theirs = np.where(places >= 0, labels[places], -1)
    counted = (own >= 0) & (theirs >= 0)
    counts = csr_matrix(
        (np.ones(int(counted.sum())), (own[counted], theirs[counted])), shape=(k, k)
    )
    sums = np.asarray(counts.sum(axis=1)).ravel()
    counts.data /= np.repeat(sums, np.diff(counts.indptr))
    return counts


def _empty_index(dimensions: int) -> Any:
    from hnswlib import Index

    return Index(space="ip", dim=dimensions)


def _metadata_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


SETTLE_NEIGHBOURS = 10
SETTLE_SHARE = 0.6
"""Share of the neighbors' weight (their cosines, if positive) from which a row moves to a group."""
SETTLE_ROUNDS = 3


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
    now = labels
    for _ in range(SETTLE_ROUNDS):
        following = _settle_once(near, now)
        following[fixed] = labels[fixed]
        # The rows that one group keeps may have been all the rows of another.
        while len(lost := np.setdiff1d(groups, following)):
            kept = np.isin(labels, lost)
            following[kept] = labels[kept]
        if np.array_equal(following, now):
            break
        now = following
    return now


def _settle_once(near: NearestRows, labels: Numbers) -> Numbers:
    found = labels.copy()
    for part in blocks(len(labels), 4_096):
        rows = near.rows[part]
        votes = np.where(rows >= 0, labels[rows], -1)
        weights = np.where(votes >= 0, np.maximum(0.0, 1.0 - near.distances[part]), 0.0)
        same = votes[:, :, None] == votes[:, None, :]
        held = (same * weights[:, None, :]).sum(axis=2)
        best = held.argmax(axis=1)
        at = np.arange(len(best))
        drawn = (held[at, best] >= SETTLE_SHARE * weights.sum(axis=1)) & (weights[at, best] > 0)
        found[part] = np.where(drawn, votes[at, best], found[part])
    return found
