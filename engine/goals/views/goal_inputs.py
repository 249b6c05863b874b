"""Texts and vectors of a project as the goal stages read them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotYet
from engine.conversations.shared_text import SharedText
from engine.conversations.tables import shared_text
from engine.goals.records import GoalText
from engine.goals.tables import clusterings, vectors
from engine.goals.tables import texts as goals
from engine.goals.tables.clusterings import StoredClustering
from engine.model.embedders.vectors import Vectors

Ids = npt.NDArray[np.int64]
AnyIds = Sequence[int] | Ids

TEXTS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class TextSource:
    """The kind of goal texts, and for summaries their configuration."""

    kind: GoalText
    goal_config: str | None = None

    @property
    def shown(self) -> TextSource:
        """The source of the texts that people and models read: if the texts of both sides are clustered, those of the
        user only."""
        return replace(self, kind="all-user") if self.kind == "all" else self

    def read(
        self, conn: sqlite3.Connection, ids: Sequence[int], left_out: SharedText | None = None
    ) -> list[goals.GoalEntry]:
        """The text of each conversation, or the reason why there is none, in the order of the ids.

        Args:
            left_out: Shared text that is left out; None is the project's.
        """
        if left_out is None:
            left_out = shared_text.stored(conn)
        found = goals.texts(conn, ids, self.kind, self.goal_config, left_out)
        return [found[int(key)] for key in ids]

    def each(
        self, conn: sqlite3.Connection, ids: Sequence[int], left_out: SharedText | None = None
    ) -> Iterator[goals.GoalEntry]:
        """Yields the same entries with at most `TEXTS_AT_ONCE` texts in memory."""
        for start in range(0, len(ids), TEXTS_AT_ONCE):
            some = [int(key) for key in ids[start : start + TEXTS_AT_ONCE]]
            yield from self.read(conn, some, left_out)


class LazyTexts(Sequence[str]):
    """Texts of conversations; each is read when it is accessed."""

    def __init__(self, conn: sqlite3.Connection, source: TextSource, ids: AnyIds) -> None:
        self._conn, self._source, self._ids = conn, source, ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, place: int) -> str:  # type: ignore[override]  # no slices are taken
        (entry,) = self._source.read(self._conn, [int(self._ids[place])])
        return "" if entry.reason else entry.text


def digest_of(ids: AnyIds) -> str:
    """Hash of a set of conversations, given in id order: 16 hex digits."""
    return hashlib.sha256(np.asarray(ids, dtype="<i8").tobytes()).hexdigest()[:16]


def read_vectors(
    conn: sqlite3.Connection, config_hash: str, among: AnyIds | None = None
) -> tuple[Ids, Vectors]:
    """(ids, vectors) of a configuration, in ascending order of the ids; vectors have shape (ids, d).

    Args:
        among: Only these conversations; None takes all.

    Raises:
        UsageError: The configuration is not known.
    """
    config = vectors.config(conn, config_hash)
    if config is None:
        raise NotYet("These conversations have no vectors.", "Run the clustering again.")
    wanted = None if among is None else np.sort(np.asarray(among, dtype=np.int64))
    count = vectors.count(conn, config_hash)
    ids = np.empty(count, dtype=np.int64)
    rows = np.empty((count, config.dimensions), dtype=np.float32)
    at = 0
    for block in vectors.read(conn, config_hash):
        own = np.frombuffer(block.ids, dtype="<i8")
        part = np.frombuffer(block.vectors, dtype="<f4").reshape(len(own), config.dimensions)
        if wanted is not None:
            inside = np.isin(own, wanted, assume_unique=True)
            own, part = own[inside], part[inside]
        ids[at : at + len(own)] = own
        rows[at : at + len(own)] = part
        at += len(own)
    ids, rows = ids[:at], rows[:at]
    if (np.diff(ids) < 0).any():  # blocks are in the order of embedding, which can be another
        order = np.argsort(ids, kind="stable")
        ids, rows = ids[order], rows[order]
    return ids, rows


def stored_clustering(conn: sqlite3.Connection, clustering_id: int | None) -> StoredClustering:
    """The stored clustering of an id; None gives the one that is shown.

    Raises:
        UsageError: There is no such clustering.
    """
    key = clusterings.shown(conn) if clustering_id is None else clustering_id
    found = None if key is None else clusterings.clustering(conn, key)
    if found is None:
        raise NotYet("Nothing was clustered yet.", "Run `workbench run cluster PROJECT` first.")
    return found


def source_of(stored: StoredClustering) -> TextSource:
    """The source of the texts of a clustering."""
    return TextSource(stored.text, stored.goal_config)
