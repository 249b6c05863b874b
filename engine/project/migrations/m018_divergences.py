"""The eighteenth migration: divergences of a model from itself with an adapter. A released migration is never
edited."""

from __future__ import annotations

import sqlite3


def m018_divergences(conn: sqlite3.Connection) -> None:
    """Adds the divergence at every boundary of a conversation, with its mean for filters and orders."""
    for statement in (
        """CREATE TABLE divergence_config (
            config_hash TEXT PRIMARY KEY,
            model TEXT NOT NULL,
            adapter TEXT NOT NULL
        ) STRICT, WITHOUT ROWID""",
        # curve: JSON, [message, bits] of each boundary; empty, and no mean, with a reason
        """CREATE TABLE divergence (
            config_hash TEXT NOT NULL REFERENCES divergence_config (config_hash),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            mean REAL,
            curve TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (config_hash, conversation_id)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX divergence_mean ON divergence (config_hash, mean, conversation_id)",
    ):
        conn.execute(statement)
