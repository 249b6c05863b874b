"""Stores the vectors of goal texts, separately for each configuration.

Vectors are stored in blocks, the batches of the run that made them: ids as int64 and vectors as float32, both
little-endian. Each conversation that a run dealt with has a vector, or a reason why it has none.
"""

from __future__ import annotations

import hashlib
import sqlite3
from array import array
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

from engine.base.errors import NotYet
from engine.goals.records import GoalText, Ids
from engine.model.embedders.vectors import Vectors
from engine.project.sql import IdSet, read_ids

BYTES_PER_COMPONENT = 4


@dataclass(frozen=True, slots=True)
class VectorConfig:
    """The configuration that produced a set of vectors.

    Attributes:
        config_hash: The key under which the vectors are stored.
        text: Kind of the texts.
        goal_config: Config hash of the summaries; None where other texts were embedded.
        embedder: Its name as the person gave it, such as `tfidf`.
        fingerprint: Tells embedders apart; vectors with different ones are not comparable.
        dimensions: Components of one vector.
        state: The fitted embedder; None for one that needs no fitting.
    """

    config_hash: str
    text: GoalText
    goal_config: str | None
    embedder: str
    fingerprint: str
    dimensions: int
    state: bytes | None = None


def register(conn: sqlite3.Connection, config: VectorConfig) -> None:
    """Stores a configuration, before its first vectors; one that is stored already keeps its state."""
    conn.execute(
        "INSERT INTO vector_config (config_hash, text, goal_config, embedder, fingerprint, dimensions,"
        " state) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (config_hash) DO NOTHING",
        astuple(config),
    )


def config(conn: sqlite3.Connection, config_hash: str) -> VectorConfig | None:
    """Returns a stored configuration; None if there is none."""
    row = conn.execute(
        "SELECT config_hash, text, goal_config, embedder, fingerprint, dimensions, state"
        " FROM vector_config WHERE config_hash = ?",
        (config_hash,),
    ).fetchone()
    return None if row is None else VectorConfig(*row)


def ids_without_vector(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations that have neither a vector nor a reason for none; in id order.

    Raises:
        NotYet: The configuration is not registered.
    """
    config_id, _ = _config_row(conn, config_hash)
    all_ids = IdSet.every(conn)
    known_ids = read_ids(
        conn, "SELECT conversation_id FROM no_vector WHERE config_id = ? ORDER BY 1", (config_id,)
    )
    known_ids.extend(vector_ids(conn, config_id))
    return (all_ids - all_ids.of(known_ids)).ascending()


def add(
    conn: sqlite3.Connection,
    config_hash: str,
    run_id: int,
    ids: Sequence[int],
    vectors: bytes,
    reasons: dict[int, str],
) -> None:
    """Stores a batch under a registered configuration; none of the conversations is stored yet.

    Args:
        ids: Of the conversations that have a vector.
        vectors: Their vectors in the same order, float32, little-endian.
        reasons: Why other conversations have none, by id.

    Raises:
        NotYet: The configuration is not registered.
        ValueError: The number of bytes does not fit the ids and the dimensions.
    """
    config_id, dimensions = _config_row(conn, config_hash)
    if len(vectors) != len(ids) * dimensions * BYTES_PER_COMPONENT:
        raise ValueError(f"{len(vectors)} bytes are not {len(ids)} vectors of {dimensions}")
    if ids:
        conn.execute(
            "INSERT INTO vector_block (config_id, run_id, first, last, count, ids, vectors)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (config_id, run_id, min(ids), max(ids), len(ids), packed(ids), vectors),
        )
    conn.executemany(
        "INSERT INTO no_vector (config_id, conversation_id, reason) VALUES (?, ?, ?)",
        [(config_id, conversation_id, reason) for conversation_id, reason in reasons.items()],
    )


def count(conn: sqlite3.Connection, config_hash: str) -> int:
    """Returns the number of vectors of a configuration.

    Raises:
        NotYet: The configuration is not registered.
    """
    config_id, _ = _config_row(conn, config_hash)
    row = conn.execute(
        "SELECT coalesce(sum(count), 0) FROM vector_block WHERE config_id = ?",
        (config_id,),
    ).fetchone()
    return int(row[0])


def reasons(conn: sqlite3.Connection, config_hash: str) -> dict[int, str]:
    """Returns the reasons why conversations have no vector, by id.

    Raises:
        NotYet: The configuration is not registered.
    """
    config_id, _ = _config_row(conn, config_hash)
    return dict(
        conn.execute(
            "SELECT conversation_id, reason FROM no_vector WHERE config_id = ? ORDER BY 1",
            (config_id,),
        ).fetchall()
    )


def vector_ids(conn: sqlite3.Connection, config_id: int) -> array[int]:
    """Returns the ids of the conversations that have a vector, block by block.

    Args:
        config_id: Row id of the configuration in `vector_config`, not its hash.
    """
    ids = array("q")
    for (blob,) in conn.execute(
        "SELECT ids FROM vector_block WHERE config_id = ? ORDER BY first", (config_id,)
    ):
        ids.extend(unpacked(blob))
    return ids


def packed(ids: Sequence[int] | Ids) -> bytes:
    """Returns ids as they are stored: int64, little-endian."""
    return np.asarray(ids, dtype="<i8").tobytes()


def unpacked(blob: bytes) -> array[int]:
    """Returns the ids from which `packed` made these bytes."""
    return array("q", np.frombuffer(blob, dtype="<i8").astype(np.int64).tobytes())


def _config_row(conn: sqlite3.Connection, config_hash: str) -> tuple[int, int]:
    """Returns the row id and the dimensions of a configuration; raises NotYet if it is not registered."""
    row: tuple[int, int] | None = conn.execute(
        "SELECT id, dimensions FROM vector_config WHERE config_hash = ?", (config_hash,)
    ).fetchone()
    if row is None:
        raise NotYet("These conversations have no vectors.", "Run the clustering again.")
    return row


def digest_of(ids: Sequence[int] | Ids) -> str:
    """Returns a hash of a set of conversations, given in id order: 16 hex digits."""
    return hashlib.sha256(packed(ids)).hexdigest()[:16]


def read_vectors(
    conn: sqlite3.Connection, config_hash: str, among: Sequence[int] | Ids | None = None
) -> tuple[Ids, Vectors]:
    """Returns the ids, ascending, and the vectors of a configuration in their order, shape (ids, d).

    Besides the result one block is in memory and, where blocks overlap, a second copy of all. With `among` there is
    room for the vectors of the whole configuration.

    Args:
        among: Only these conversations; None takes all.

    Raises:
        NotYet: The configuration is not registered.
    """
    config_id, dimensions = _config_row(conn, config_hash)
    selected = None if among is None else np.sort(np.asarray(among, dtype=np.int64))
    total = count(conn, config_hash)
    ids = np.empty(total, dtype=np.int64)
    rows = np.empty((total, dimensions), dtype=np.float32)
    end = 0  # number of rows that are filled
    for id_blob, vector_blob in conn.execute(
        "SELECT ids, vectors FROM vector_block WHERE config_id = ? ORDER BY first",
        (config_id,),
    ):
        block_ids = np.frombuffer(id_blob, dtype="<i8")
        block = np.frombuffer(vector_blob, dtype="<f4").reshape(len(block_ids), dimensions)
        if selected is not None:
            inside = np.isin(block_ids, selected, assume_unique=True)
            block_ids, block = block_ids[inside], block[inside]
        start, end = end, end + len(block_ids)
        ids[start:end], rows[start:end] = block_ids, block
    ids, rows = ids[:end], rows[:end]
    if (np.diff(ids) < 0).any():  # blocks are in the order of embedding, which can be another
        order = np.argsort(ids, kind="stable")
        ids, rows = ids[order], rows[order]
    return ids, rows
