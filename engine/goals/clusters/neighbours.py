"""Which rows are near which: exact for few, an HNSW index for many (Malkov & Yashunin 2018, IEEE TPAMI 42).

The index is a side file that can be rebuilt at any time: it is trusted only when its fingerprint, its size and the hash
of its bytes are those that were written beside it, because the library that reads it does not check what it reads.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine.goals.embedders.vectors import Floats, Indices, Numbers, Vectors, blocks, has_vector

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

EXACT = 2_000
"""Below so many rows every one is compared with every other."""
LINKS, BUILD_EFFORT, LEAST_EFFORT = 16, 120, 64
BATCH = 4_096
CHECKPOINT = 64 * BATCH
"""Rows after which an index that is kept is written."""
_SEED = 20_240_607


class Near(NamedTuple):
    """Nearest rows of each of m rows, nearest first.

    Attributes:
        rows: Shape (m, count); -1 where there are not so many.
        distances: Cosine distances, 2 where there is none.
    """

    rows: Indices
    distances: Floats


class Neighbours:
    """Finds the rows that are nearest to a vector, among those that have one.

    Args:
        vectors: Shape (n, d), rows of length 1, perhaps a memory map; kept, because distances are taken from it.
        fingerprint: Of the embedder that made them.
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
        """Indexes rows.

        Args:
            threads: With one the same rows give the same index; with more it is built faster and differs a little.
            note: Told rows done and in all; may raise to stop.
        """
        made = cls(vectors, fingerprint)
        if made.exact:
            return made
        made._begun()
        made._add(made._live, threads, note)
        return made

    @property
    def exact(self) -> bool:
        """Whether it compares with every row."""
        return len(self._live) < EXACT

    @classmethod
    def kept(
        cls,
        path: Path,
        vectors: Vectors,
        fingerprint: str,
        *,
        note: Callable[[int, int], None] = lambda done, total: None,
    ) -> Neighbours:
        """The neighbours by an index that is kept at a path: read from there, or built and written as it grows.

        It goes on from what was written last and is read anew after each time, so that what was cut off in between
        becomes the same index.

        Args:
            note: Told rows done and in all; may raise to stop.

        Raises:
            OSError: It cannot be written, or not be read back.
        """
        live = cls(vectors, fingerprint)._live
        found = cls.load(path, vectors, fingerprint)
        while found is None or not (found.exact or len(found._live) == len(live)):
            done = 0 if found is None else len(found._live)
            end = done + CHECKPOINT
            part = vectors[: live[end]] if end < len(live) else vectors

            def report(here: int, _: int, done: int = done) -> None:
                note(done + here, len(live))

            grown = cls(part, fingerprint)._begun() if found is None else found._grown(part)
            grown._add(grown._live[done:], 1, report)
            grown.save(path)
            # an index of a million takes 2 GB: what was written goes before it is read
            del grown
            found = None
            found = cls.load(path, vectors, fingerprint)
            if found is None:
                raise OSError(f"{path} cannot be read back.")
        return found

    def _grown(self, vectors: Vectors) -> Neighbours:
        """With room for more rows, which are not in it yet: `vectors` begins with the rows of this one, which is used
        up."""
        made = Neighbours(vectors, self.fingerprint)
        made._index = self._index
        made._index.resize_index(len(made._live))
        return made

    def _begun(self) -> Neighbours:
        """With an index that holds nothing yet."""
        self._index = _empty_index(self._vectors.shape[1])
        self._index.init_index(
            max_elements=len(self._live), ef_construction=BUILD_EFFORT, M=LINKS, random_seed=_SEED
        )
        return self

    def query(self, vectors: Vectors, count: int, *, threads: int = -1) -> Near:
        """The `count` rows nearest to each of m vectors of length 1; a row itself is its own nearest."""
        found = Near(
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
    ) -> Near:
        """The `count` rows nearest to each of these, which is never among its own.

        Args:
            note: Told rows done and in all; may raise to stop.
        """
        found = Near(
            np.empty((len(rows), count), dtype=np.int64),
            np.empty((len(rows), count), dtype=np.float32),
        )
        # Not all at once: a copy of a million rows takes 1.5 GB.
        for part in blocks(len(rows), BATCH):
            note(part.start, len(rows))
            near = self.query(self._vectors[rows[part]], count + 1)
            own = near.rows == rows[part, None]
            # Among many equal rows the own one may be missing: then the last is left out.
            own[~own.any(axis=1), -1] = True
            shape = (len(own), count)
            found.rows[part] = near.rows[~own].reshape(shape)
            found.distances[part] = near.distances[~own].reshape(shape)
        return found

    def save(self, path: Path) -> None:
        """Writes the index, whole or not at all; few rows need none."""
        if self._index is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        _head(path).unlink(missing_ok=True)
        part = path.with_name(f"{path.name}.part")
        self._index.save_index(str(part))
        head = {
            "fingerprint": self.fingerprint,
            "rows": len(self._vectors),
            "indexed": len(self._live),
            "dimensions": int(self._vectors.shape[1]),
            "sha256": _hash(part),
        }
        os.replace(part, path)
        waiting = path.with_name(f"{path.name}.json.part")
        waiting.write_text(json.dumps(head), encoding="utf-8")
        os.replace(waiting, _head(path))

    @classmethod
    def load(cls, path: Path, vectors: Vectors, fingerprint: str) -> Neighbours | None:
        """The neighbours among as many of the first rows as `save` wrote; few rows need nothing written.

        Returns:
            None where the file is missing, damaged, of other vectors or of more rows: then it is to be built.
        """
        made = cls(vectors, fingerprint)
        if made.exact:
            return made
        try:
            head = json.loads(_head(path).read_text(encoding="utf-8"))
            rows, indexed = int(head["rows"]), int(head["indexed"])
            report = (head["fingerprint"], head["dimensions"], head["sha256"])
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
        # Equal distances in the order of the rows.
        best = np.argsort(distances, axis=1, kind="stable")[:, :count]
        return self._live[best], np.maximum(0, np.take_along_axis(distances, best, axis=1))


def overlap(near: Near, rows: Indices, labels: Numbers, k: int) -> csr_matrix:
    """How far clusters run into each other, shape (k, k), sparse.

    Args:
        near: Neighbours of `rows`, themselves left out.
        labels: Of all rows; negative ones belong to no cluster and count nowhere.

    Returns:
        At (a, b) the share of the neighbours of a's members that lie in b; a row adds up to 1 over those that lie in
        any cluster.
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


def _head(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
