"""Vectors of goal texts: float32 in blocks, separately for each configuration."""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.errors import NotYet
from engine.goals.records import GoalText, Ids
from engine.model.embedders.vectors import Vectors
from engine.project.idset import IdSet, read_ids

WIDTH = 4
"""Bytes of one component."""


@dataclass(frozen=True, slots=True)
class VectorConfig:
    """The configuration that produced a set of vectors.

    Attributes:
        text: Kind of the texts; `goal_config` is the config hash of the summaries where these were embedded.
        embedder: Its name as the person gave it, such as `tfidf`.
        fingerprint: Of the embedder; vectors with different ones are not comparable.
        state: The fitted embedder; None for one that needs no fitting.
    """

    config_hash: str
    text: GoalText
    goal_config: str | None
    embedder: str
    fingerprint: str
    dimensions: int
    state: bytes | None = None


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """A block of vectors: `ids` as int64 and `vectors` as float32 row by row, both little-endian."""

    count: int
    ids: bytes
    vectors: bytes


def register(conn: sqlite3.Connection, config: VectorConfig) -> None:
    """Stores a configuration, before its first vectors; one that is stored already keeps its state."""
    conn.execute(
        "INSERT INTO vector_config (config_hash, text, goal_config, embedder, fingerprint, dimensions,"
        " state) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (config_hash) DO NOTHING",
        (
            config.config_hash,
            config.text,
            config.goal_config,
            config.embedder,
            config.fingerprint,
            config.dimensions,
            config.state,
        ),
    )


def config(conn: sqlite3.Connection, config_hash: str) -> VectorConfig | None:
    """A stored configuration; None if there is none."""
    row = conn.execute(
        "SELECT config_hash, text, goal_config, embedder, fingerprint, dimensions, state"
        " FROM vector_config WHERE config_hash = ?",
        (config_hash,),
    ).fetchone()
    return None if row is None else VectorConfig(*row)


def ids_without_vector(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Ids of the conversations that have neither a vector nor a reason for none; in id order."""
    key = _key(conn, config_hash)
    every = IdSet.every(conn)
    have = without(conn, config_hash)
    have.extend(vector_ids(conn, key))
    return (every - every.of(have)).ascending()


def add(
    conn: sqlite3.Connection,
    config_hash: str,
    run_id: int,
    ids: Sequence[int],
    vectors: bytes,
    reasons: dict[int, str] | None = None,
) -> None:
    """Stores a batch under a registered configuration; none of the conversations is stored yet.

    Args:
        ids: Of the conversations that have a vector.
        vectors: Their vectors in the same order, float32, little-endian.
        reasons: Why other conversations have none, by id.

    Raises:
        ValueError: The number of bytes does not fit the ids and the dimensions.
    """
    key, dimensions = _key(conn, config_hash), _dimensions(conn, config_hash)
    if len(vectors) != len(ids) * dimensions * WIDTH:
        raise ValueError(f"{len(vectors)} bytes are not {len(ids)} vectors of {dimensions}")
    if ids:
        conn.execute(
            "INSERT INTO vector_block (config_id, run_id, first, last, count, ids, vectors)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key, run_id, min(ids), max(ids), len(ids), packed(ids), vectors),
        )
    conn.executemany(
        "INSERT INTO no_vector (config_id, conversation_id, reason) VALUES (?, ?, ?)",
        [(key, conversation, reason) for conversation, reason in (reasons or {}).items()],
    )


def count(conn: sqlite3.Connection, config_hash: str) -> int:
    """Number of vectors of a configuration."""
    row = conn.execute(
        "SELECT coalesce(sum(count), 0) FROM vector_block WHERE config_id = ?",
        (_key(conn, config_hash),),
    ).fetchone()
    return int(row[0])


def read(
    conn: sqlite3.Connection, config_hash: str, between: tuple[int, int] | None = None
) -> Iterator[VectorBlock]:
    """The vectors block by block, in the order of the first id of each; one block is in memory at a time.

    Args:
        between: Only blocks that may hold an id from the first to the second.
    """
    low, high = between or (0, 2**62)
    for row in conn.execute(
        "SELECT count, ids, vectors FROM vector_block WHERE config_id = ? AND first <= ? AND last >= ?"
        " ORDER BY first",  # no two blocks begin with one conversation
        (_key(conn, config_hash), high, low),
    ):
        yield VectorBlock(*row)


def reasons(conn: sqlite3.Connection, config_hash: str) -> dict[int, str]:
    """Why conversations have no vector, by id."""
    return dict(
        conn.execute(
            "SELECT conversation_id, reason FROM no_vector WHERE config_id = ? ORDER BY 1",
            (_key(conn, config_hash),),
        ).fetchall()
    )


def without(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Ids of the conversations with a stored reason for having no vector; in id order."""
    return read_ids(
        conn,
        "SELECT conversation_id FROM no_vector WHERE config_id = ? ORDER BY 1",
        (_key(conn, config_hash),),
    )


def vector_ids(conn: sqlite3.Connection, config_id: int) -> array[int]:
    """Ids of the conversations that have a vector."""
    found = array("q")
    for (ids,) in conn.execute(
        "SELECT ids FROM vector_block WHERE config_id = ? ORDER BY first", (config_id,)
    ):
        found.extend(unpacked(ids))
    return found


def packed(ids: Sequence[int]) -> bytes:
    """Ids as stored bytes: int64, little-endian."""
    return _little(array("q", ids)).tobytes()


def unpacked(blob: bytes) -> array[int]:
    """The ids of a blob that `packed` made."""
    found = array("q")
    found.frombytes(blob)
    return _little(found)


def _little(ids: array[int]) -> array[int]:
    """Swaps the bytes on a big-endian machine."""
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


def _key(conn: sqlite3.Connection, config_hash: str) -> int:
    row = conn.execute(
        "SELECT id FROM vector_config WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    if row is None:
        raise ValueError(f"no vectors were registered under {config_hash}")
    return int(row[0])


def _dimensions(conn: sqlite3.Connection, config_hash: str) -> int:
    row = conn.execute(
        "SELECT dimensions FROM vector_config WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    return int(row[0])


def digest_of(ids: Sequence[int] | Ids) -> str:
    """Hash of a set of conversations, given in id order: 16 hex digits."""
    return hashlib.sha256(np.asarray(ids, dtype="<i8").tobytes()).hexdigest()[:16]


def read_vectors(
    conn: sqlite3.Connection, config_hash: str, among: Sequence[int] | Ids | None = None
) -> tuple[Ids, Vectors]:
    """(ids, vectors) of a configuration, in ascending order of the ids; vectors have shape (ids, d).

    Args:
        among: Only these conversations; None takes all.

    Raises:
        UsageError: The configuration is not known.
    """
    made_by = config(conn, config_hash)
    if made_by is None:
        raise NotYet("These conversations have no vectors.", "Run the clustering again.")
    wanted = None if among is None else np.sort(np.asarray(among, dtype=np.int64))
    total = count(conn, config_hash)
    ids = np.empty(total, dtype=np.int64)
    rows = np.empty((total, made_by.dimensions), dtype=np.float32)
    at = 0
    for block in read(conn, config_hash):
        own = np.frombuffer(block.ids, dtype="<i8")
        part = np.frombuffer(block.vectors, dtype="<f4").reshape(len(own), made_by.dimensions)
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
