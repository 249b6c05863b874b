"""The fifth migration: conversations that were simulated. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m005_plays(conn: sqlite3.Connection) -> None:
    """Plays with their transcripts, and every reply of a model by what was asked."""
    for statement in (
        # params, models: JSON
        """CREATE TABLE play_config (
            config_hash TEXT PRIMARY KEY,
            kind TEXT NOT NULL,
            params TEXT NOT NULL,
            models TEXT NOT NULL
        ) STRICT, WITHOUT ROWID""",
        # reason: why it broke off, NULL where it ended; result: JSON; transcript: JSON, compressed by zlib
        """CREATE TABLE play (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL REFERENCES play_config (config_hash),
            key TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            conversation_id INTEGER REFERENCES conversation (id),
            reason TEXT,
            result TEXT NOT NULL,
            transcript BLOB NOT NULL,
            UNIQUE (config_hash, key)
        ) STRICT""",
        "CREATE INDEX play_by_conversation ON play (conversation_id)"
        " WHERE conversation_id IS NOT NULL",
        # key: SHA-256 over the call and the fingerprints of the model
        """CREATE TABLE call_reply (
            key BLOB PRIMARY KEY CHECK (length(key) = 32),
            text TEXT NOT NULL,
            stopped TEXT NOT NULL CHECK (stopped IN ('end', 'stop', 'length')),
            note TEXT
        ) STRICT""",
    ):
        conn.execute(statement)
