"""Hidden states at the boundaries of conversations, kept so that a new fit reads no log again.

Each conversation has one entry for each configuration: its states, or the reason why there are none.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate

from engine.base.conversation import LogPiece
from engine.conversations.tables import earlier_states
from engine.project.sql import read_ids, rows_in, to_json


@dataclass(frozen=True, slots=True)
class BoundaryPlace:
    """Where a boundary lies.

    Attributes:
        message, step, turn: As in `engine.completeness.records.CurvePoint`.
        chars: Number of characters of the log up to the boundary.
        step_chars: Number of characters of its last step.
    """

    message: int
    step: int
    turn: int
    chars: int
    step_chars: int

    @classmethod
    def in_log(
        cls, pieces: Sequence[LogPiece], boundaries: Sequence[int]
    ) -> tuple[BoundaryPlace, ...]:
        """Returns where the boundaries of a log lie, given by the indices of the pieces after which they are."""
        sizes = [len(piece.header) + 1 + len(piece.body) for piece in pieces]
        chars = list(accumulate(sizes))
        ends = ((pieces[index], chars[index], sizes[index]) for index in boundaries)
        return tuple(
            cls(piece.message, piece.step, piece.turn, up_to_end, size)
            for piece, up_to_end, size in ends
        )


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The entry of one conversation: its hidden states, or the reason why there are none.

    Attributes:
        places: Its boundaries in order; empty when it has none or could not be read.
        states: The state at each boundary, one after another, in little-endian float16; empty without boundaries.
        reason: Why there are no states, or what is special about them; required without boundaries.
        tokens: Number of tokens that the model read for it.
    """

    conversation_id: int
    places: tuple[BoundaryPlace, ...]
    states: bytes
    reason: str | None
    tokens: int


def register_config(
    conn: sqlite3.Connection, config_hash: str, model: str, adapter: str | None
) -> None:
    """Stores a configuration, before its first states."""
    conn.execute(
        "INSERT OR IGNORE INTO state_config (config_hash, model, adapter) VALUES (?, ?, ?)",
        (config_hash, model, adapter),
    )


def add(
    conn: sqlite3.Connection, config_hash: str, run_id: int, entries: Sequence[StateEntry]
) -> None:
    """Stores entries of a registered configuration, of conversations that have none there yet."""
    conn.executemany(
        "INSERT INTO hidden_state (config_hash, conversation_id, run_id, boundaries, states, reason,"
        " tokens) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                config_hash,
                entry.conversation_id,
                run_id,
                to_json([astuple(place) for place in entry.places]),
                entry.states,
                entry.reason,
                entry.tokens,
            )
            for entry in entries
        ],
    )


def ids_without_states(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations without an entry under a configuration, rising."""
    return read_ids(
        conn,
        "SELECT id FROM conversation WHERE NOT EXISTS (SELECT 1 FROM hidden_state"
        " WHERE conversation_id = conversation.id AND config_hash = ?) ORDER BY id",
        (config_hash,),
    )


def config_with_most_states(conn: sqlite3.Connection) -> str | None:
    """Returns the config hash under which most conversations have states, of equal ones the newest; None before any."""
    row = conn.execute(
        "SELECT config_hash FROM hidden_state WHERE length(states) > 0 GROUP BY config_hash"
        " ORDER BY count(*) DESC, max(id) DESC LIMIT 1"
    ).fetchone()
    return None if row is None else str(row[0])


def boundary_counts(conn: sqlite3.Connection, config_hash: str) -> dict[int, int]:
    """Returns the number of boundaries with a state, by conversation in id order; 0 where there is none."""
    rows = conn.execute(
        "SELECT conversation_id, json_array_length(boundaries) FROM hidden_state"
        " WHERE config_hash = ? ORDER BY conversation_id",
        (config_hash,),
    )
    return dict(rows.fetchall())


def last_states(conn: sqlite3.Connection, config_hash: str) -> list[tuple[int, bytes]]:
    """Returns (conversation id, hidden state at its last boundary) of every conversation with states, in id order; a
    state is in little-endian float16."""
    # The last state is the last of as many equal parts of the bytes as there are boundaries.
    return conn.execute(
        "SELECT conversation_id, substr(states, -length(states) / json_array_length(boundaries))"
        " FROM hidden_state WHERE config_hash = ? AND length(states) > 0 ORDER BY conversation_id",
        (config_hash,),
    ).fetchall()


def ids_with_entry(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Returns the ids of the conversations with an entry under a configuration, rising."""
    return read_ids(
        conn,
        "SELECT conversation_id FROM hidden_state WHERE config_hash = ? ORDER BY conversation_id",
        (config_hash,),
    )


def fingerprint(conn: sqlite3.Connection, ids: array[int]) -> str:
    """Returns 16 hex digits over the ids of some conversations and the number of replaced texts.

    That number counts all texts of the project that were ever replaced, since a conversation keeps its id when its text
    is replaced.
    """
    digest = hashlib.sha256(",".join(map(str, ids)).encode())
    if replaced := earlier_states.count_replaced_texts(conn):
        digest.update(f";{replaced}".encode())
    return digest.hexdigest()[:16]


def entries_of_conversations(
    conn: sqlite3.Connection, config_hash: str, ids: Sequence[int]
) -> Iterator[StateEntry]:
    """Yields the entries of these conversations under a configuration; in id order if `ids` are."""
    rows = rows_in(
        conn,
        "SELECT conversation_id, boundaries, states, reason, tokens FROM hidden_state"
        " WHERE config_hash = ? AND conversation_id IN",
        ids,
        (config_hash,),
        "ORDER BY conversation_id",
    )
    for conversation_id, boundaries, states, reason, tokens in rows:
        places = tuple(BoundaryPlace(*place) for place in json.loads(boundaries))
        yield StateEntry(conversation_id, places, states, reason, tokens)
