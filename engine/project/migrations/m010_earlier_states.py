"""The tenth migration: earlier states of conversations. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m010_earlier_states(conn: sqlite3.Connection) -> None:
    """Adds what conversations were before an import replaced their text, and which files were read to their end."""
    for statement in (
        # packed: JSON of its rows of `message`, compressed by zlib; score: the normalised one that was in force;
        # verdict_id: the newest row of `verdict` then, 0 for none, so that those up to it were given to this text
        """CREATE TABLE earlier_state (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            source_id INTEGER NOT NULL REFERENCES source (id),
            hash BLOB NOT NULL,
            line INTEGER,
            raw BLOB NOT NULL,
            truth TEXT,
            messages INTEGER NOT NULL,
            packed BLOB NOT NULL,
            score REAL,
            verdict_id INTEGER NOT NULL,
            replaced_at TEXT NOT NULL
        ) STRICT""",
        "CREATE INDEX earlier_state_by_conversation ON earlier_state (conversation_id, verdict_id)",
        "CREATE INDEX earlier_state_by_hash ON earlier_state (hash)",
        "CREATE INDEX alias_by_name ON alias (external_id)",
        # digest: over the bytes of the file and all that determines how it is read; report: JSON of its account
        """CREATE TABLE source_read (
            source_id INTEGER PRIMARY KEY REFERENCES source (id),
            digest BLOB NOT NULL,
            report TEXT NOT NULL
        ) STRICT""",
    ):
        conn.execute(statement)
