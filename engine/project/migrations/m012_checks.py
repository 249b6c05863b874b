"""The twelfth migration: what is looked for in conversations after they were imported. A released migration is never
edited."""

from __future__ import annotations

import sqlite3


def m012_checks(conn: sqlite3.Connection) -> None:
    """Adds which conversations were checked. What was found is in the index of facets."""
    # signature: MinHash of the shingles, little-endian 32-bit integers; empty for a text of too few words
    conn.execute(
        """CREATE TABLE conversation_check (
            conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
            signature BLOB NOT NULL
        ) STRICT"""
    )
