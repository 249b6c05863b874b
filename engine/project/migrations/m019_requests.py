"""The nineteenth migration: where a conversation's further requests begin. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m019_requests(conn: sqlite3.Connection) -> None:
    """Adds the messages of users that begin another request than the one before."""
    conn.execute(
        """CREATE TABLE request_start (
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            message INTEGER NOT NULL,
            found INTEGER NOT NULL CHECK (found IN (0, 1)),
            begins INTEGER NOT NULL CHECK (begins IN (0, 1)),
            annotator TEXT NOT NULL,
            PRIMARY KEY (conversation_id, message),
            CHECK (found = 0 OR begins = 1)
        ) STRICT, WITHOUT ROWID"""
    )
