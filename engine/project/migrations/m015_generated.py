"""The fifteenth migration: what a model writes at a boundary. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m015_generated(conn: sqlite3.Connection) -> None:
    """Adds whether the most probable text at a boundary is the end tag; absent where it is not known."""
    conn.execute(
        """CREATE TABLE generated_end (
            conversation_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            message INTEGER NOT NULL,
            ends INTEGER NOT NULL CHECK (ends IN (0, 1)),
            PRIMARY KEY (conversation_id, config_hash, message),
            FOREIGN KEY (conversation_id, config_hash, message)
                REFERENCES boundary_score (conversation_id, config_hash, message) ON DELETE CASCADE
        ) STRICT, WITHOUT ROWID"""
    )
