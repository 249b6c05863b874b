"""The eighth migration: probes taught by a person's marks. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m008_taught(conn: sqlite3.Connection) -> None:
    """Adds what was learnt from verdicts and tags, and the probabilities that follow."""
    for statement in (
        # subject: a tag, or '' for success; figures: JSON of the test
        """CREATE TABLE taught (
            id INTEGER PRIMARY KEY,
            subject TEXT NOT NULL,
            in_force INTEGER NOT NULL CHECK (in_force IN (0, 1)),
            marks INTEGER NOT NULL,
            threshold REAL NOT NULL,
            figures TEXT,
            UNIQUE (subject, in_force)
        ) STRICT""",
        # p: NULL before there are marks of both kinds; place: in the order of what a mark teaches, NULL for marked ones
        """CREATE TABLE taught_value (
            taught_id INTEGER NOT NULL REFERENCES taught (id) ON DELETE CASCADE,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            p REAL,
            place INTEGER,
            PRIMARY KEY (taught_id, conversation_id)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX taught_value_by_p ON taught_value (taught_id, p)",
        "CREATE INDEX taught_value_by_place ON taught_value (taught_id, place)",
    ):
        conn.execute(statement)
