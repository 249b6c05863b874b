"""The thirteenth migration: what `workbench watch` reported of conversations. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m013_watch(conn: sqlite3.Connection) -> None:
    """Adds how far each conversation was reported."""
    # boundaries: number of those reported; p: at the last of them; ended: 1 when its end was reported, or when it was
    # there before the first watch
    conn.execute(
        """CREATE TABLE watched (
            conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
            boundaries INTEGER NOT NULL,
            p REAL,
            grew_at TEXT NOT NULL,
            ended INTEGER NOT NULL CHECK (ended IN (0, 1))
        ) STRICT"""
    )
