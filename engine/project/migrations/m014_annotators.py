"""The fourteenth migration: who gave a verdict, and scores that came by file. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m014_annotators(conn: sqlite3.Connection) -> None:
    """Adds the name of the person to each act, and lets a set of scores be of mode `outside`."""
    for statement in (
        # annotator: empty for a person without a name; an undo or redo has none
        "ALTER TABLE verdict ADD COLUMN annotator TEXT NOT NULL DEFAULT ''",
        "CREATE INDEX verdict_by_annotator ON verdict (annotator, conversation_id)"
        " WHERE kind IN ('give', 'repeat')",
        # as in the seventh migration but for the modes; a check cannot be changed in place
        """CREATE TABLE score_config_14 (
            config_hash TEXT PRIMARY KEY,
            mode TEXT NOT NULL CHECK (mode IN ('base', 'tuned', 'judge', 'probe', 'outside')),
            model TEXT NOT NULL,
            adapter TEXT,
            noise REAL,
            test TEXT
        ) STRICT, WITHOUT ROWID""",
        "INSERT INTO score_config_14 SELECT config_hash, mode, model, adapter, noise, test"
        " FROM score_config",
        "DROP TABLE score_config",
        "ALTER TABLE score_config_14 RENAME TO score_config",
    ):
        conn.execute(statement)
