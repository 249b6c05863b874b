"""Hidden states at the boundaries of conversations, kept so that a new fit reads no log again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from engine.conversations.tables import earlier_states
from engine.project.sql import chunks, placeholders, to_json


@dataclass(frozen=True, slots=True)
class BoundaryPlace:
    """Where a boundary lies.

    Attributes:
        message, step, turn: As in `engine.completeness.records.CurvePoint`.
        chars: Characters of the log up to the boundary.
        step_chars: Characters of its last step.
    """

    message: int
    step: int
    turn: int
    chars: int
    step_chars: int


@dataclass(frozen=True, slots=True)
class StateEntry:
    """The hidden states of one conversation.

    Attributes:
        places: Its boundaries in order; empty when it has none or could not be read.
        states: float16 of each boundary row by row, little-endian.
        reason: Why there are none, or what is special about them; required without boundaries.
        tokens: Tokens that the model read for it.
    """

    conversation_id: int
    places: tuple[BoundaryPlace, ...]
    states: bytes
    reason: str | None
    tokens: int


def register(conn: sqlite3.Connection, config_hash: str, model: str, adapter: str | None) -> None:
    """Stores a configuration, before its first states."""
    conn.execute(
        "INSERT OR IGNORE INTO state_config (config_hash, model, adapter) VALUES (?, ?, ?)",
        (config_hash, model, adapter),
    )


def add(
    conn: sqlite3.Connection, config_hash: str, run_id: int, entries: Sequence[StateEntry]
) -> None:
    """Stores states of a registered configuration, none of which is stored yet."""
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
    """Ids of the conversations that have no states, nor a reason for none, under a configuration; in id order."""
    rows = conn.execute(
        "SELECT id FROM conversation WHERE NOT EXISTS (SELECT 1 FROM hidden_state"
        " WHERE conversation_id = conversation.id AND config_hash = ?) ORDER BY id",
        (config_hash,),
    )
    return array("q", (row[0] for row in rows))


def fullest(conn: sqlite3.Connection) -> str | None:
    """The configuration that has states of most conversations, of equal ones the newest; None before any."""
    row = conn.execute(
        "SELECT config_hash FROM hidden_state WHERE length(states) > 0 GROUP BY config_hash"
        " ORDER BY count(*) DESC, max(id) DESC LIMIT 1"
    ).fetchone()
    return None if row is None else str(row[0])


def boundary_counts(conn: sqlite3.Connection, config_hash: str) -> dict[int, int]:
    """Number of boundaries with a state, by conversation; 0 where there is a reason for none. In id order."""
    rows = conn.execute(
        "SELECT conversation_id, json_array_length(boundaries) FROM hidden_state"
        " WHERE config_hash = ? ORDER BY conversation_id",
        (config_hash,),
    )
    return dict(rows.fetchall())


def last(
    conn: sqlite3.Connection, config_hash: str
) -> Iterator[tuple[int, int, BoundaryPlace, bytes]]:
    """Of every conversation with states, in the order of ids: its id, the number of its boundaries, and place and state
    (float16, little-endian) of the last one."""
    rows = conn.execute(
        "SELECT conversation_id, json_array_length(boundaries), json_extract(boundaries, '$[#-1]'),"
        " substr(states, -length(states) / json_array_length(boundaries)) FROM hidden_state"
        " WHERE config_hash = ? AND length(states) > 0 ORDER BY conversation_id",
        (config_hash,),
    )
    for conversation_id, count, place, state in rows:
        yield conversation_id, count, BoundaryPlace(*json.loads(place)), state


def readable(conn: sqlite3.Connection, config_hash: str) -> int:
    """Number of conversations that have states under a configuration."""
    query = "SELECT count(*) FROM hidden_state WHERE config_hash = ? AND length(states) > 0"
    return int(conn.execute(query, (config_hash,)).fetchone()[0])


def ids(conn: sqlite3.Connection, config_hash: str) -> array[int]:
    """Ids of the conversations that have states, or a reason for none, under a configuration; in id order."""
    rows = conn.execute(
        "SELECT conversation_id FROM hidden_state WHERE config_hash = ? ORDER BY conversation_id",
        (config_hash,),
    )
    return array("q", (row[0] for row in rows))


def fingerprint(conn: sqlite3.Connection, known: array[int]) -> str:
    """16 hex digits over the ids of the conversations that were read, and over how many texts of the project were ever
    replaced: a replaced text keeps its id."""
    digest = hashlib.sha256(",".join(map(str, known)).encode())
    if replaced := earlier_states.count(conn):
        digest.update(f";{replaced}".encode())
    return digest.hexdigest()[:16]


def of_config(conn: sqlite3.Connection, config_hash: str) -> Iterator[StateEntry]:
    """All that is stored under a configuration, in the order of the conversations' ids."""
    rows = conn.execute(f"{_ENTRIES} ORDER BY conversation_id", (config_hash,))
    yield from map(_entry, rows)


def of_conversations(
    conn: sqlite3.Connection, config_hash: str, ids: Sequence[int]
) -> Iterator[StateEntry]:
    """What is stored of these conversations under a configuration; in id order if `ids` are."""
    for keys in chunks(ids):
        rows = conn.execute(
            f"{_ENTRIES} AND conversation_id IN ({placeholders(keys)}) ORDER BY conversation_id",
            (config_hash, *keys),
        )
        yield from map(_entry, rows)


_ENTRIES = (
    "SELECT conversation_id, boundaries, states, reason, tokens FROM hidden_state"
    " WHERE config_hash = ?"
)


def _entry(row: tuple[int, str, bytes, str | None, int]) -> StateEntry:
    conversation_id, places, states, reason, tokens = row
    found = tuple(BoundaryPlace(*place) for place in json.loads(places))
    return StateEntry(conversation_id, found, states, reason, tokens)
