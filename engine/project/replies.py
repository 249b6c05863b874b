"""Stores replies of models by a hash of the call and the model, so that nothing is asked twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from engine.project.sql import chunks, placeholders

Reply = tuple[str, str, str | None]
"""The text of a reply, how it stopped, and a note or None."""


def replies(conn: sqlite3.Connection, keys: Sequence[str]) -> dict[str, Reply]:
    """Returns the stored replies by key of the call; calls without a stored reply are absent."""
    stored: dict[str, Reply] = {}
    for chunk in chunks([bytes.fromhex(key) for key in keys]):
        for key, text, stopped, note in conn.execute(
            f"SELECT key, text, stopped, note FROM call_reply WHERE key IN ({placeholders(chunk)})",
            chunk,
        ):
            stored[key.hex()] = text, stopped, note
    return stored


def add_replies(conn: sqlite3.Connection, new_replies: Iterable[tuple[str, Reply]]) -> None:
    """Stores replies by key; an existing reply is kept."""
    conn.executemany(
        "INSERT INTO call_reply (key, text, stopped, note) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (key) DO NOTHING",
        ((bytes.fromhex(key), *reply) for key, reply in new_replies),
    )
