"""The seventh migration: hidden states, and scores by a probe on them. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m007_probes(conn: sqlite3.Connection) -> None:
    """Adds the hidden states at boundaries, and lets a set of scores be of mode `probe` and carry its own test."""
    for statement in (
        """CREATE TABLE state_config (
            config_hash TEXT PRIMARY KEY,
            model TEXT NOT NULL,
            adapter TEXT
        ) STRICT, WITHOUT ROWID""",
        # boundaries: JSON, [message, step, turn, characters so far, characters of the step] of each;
        # states: float16 row by row, little-endian; both empty with a reason
        """CREATE TABLE hidden_state (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL REFERENCES state_config (config_hash),
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            run_id INTEGER NOT NULL REFERENCES run (id),
            boundaries TEXT NOT NULL,
            states BLOB NOT NULL,
            reason TEXT,
            tokens INTEGER NOT NULL,
            UNIQUE (config_hash, conversation_id)
        ) STRICT""",
        # as in the first migration but for the modes and the test; a check cannot be changed in place
        """CREATE TABLE score_config_7 (
            config_hash TEXT PRIMARY KEY,
            mode TEXT NOT NULL CHECK (mode IN ('base', 'tuned', 'judge', 'probe')),
            model TEXT NOT NULL,
            adapter TEXT,
            noise REAL,
            test TEXT
        ) STRICT, WITHOUT ROWID""",
        "INSERT INTO score_config_7 SELECT config_hash, mode, model, adapter, noise, NULL"
        " FROM score_config",
        "DROP TABLE score_config",
        "ALTER TABLE score_config_7 RENAME TO score_config",
    ):
        conn.execute(statement)
