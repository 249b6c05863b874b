"""The sixth migration: goals told by what both sides wrote. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m006_both_sides(conn: sqlite3.Connection) -> None:
    """Lets vectors be of texts of the kind `all`. A check cannot be changed in place, so the table is made anew."""
    for statement in (
        # as in the third migration but for the kinds of text
        """CREATE TABLE vector_config_6 (
            id INTEGER PRIMARY KEY,
            config_hash TEXT NOT NULL UNIQUE,
            text TEXT NOT NULL CHECK (text IN ('first-user', 'all-user', 'all', 'summary')),
            goal_config TEXT REFERENCES goal_config (config_hash),
            embedder TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            dimensions INTEGER NOT NULL,
            state BLOB,
            CHECK ((text = 'summary') = (goal_config IS NOT NULL))
        ) STRICT""",
        "INSERT INTO vector_config_6 SELECT * FROM vector_config",
        "DROP TABLE vector_config",
        "ALTER TABLE vector_config_6 RENAME TO vector_config",
    ):
        conn.execute(statement)
