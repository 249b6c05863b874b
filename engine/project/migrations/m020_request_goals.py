"""The twentieth migration: the goal of each request, and undo of what a person says of requests. A released migration
is never edited."""

from __future__ import annotations

import sqlite3


def m020_request_goals(conn: sqlite3.Connection) -> None:
    """Adds the goals of requests, and a table of its own for what a person said, as acts that can be undone.

    Where a person had said something of a message, what the program had found there was overwritten: an undo of an
    earlier act does not bring it back.
    """
    for statement in (
        """CREATE TABLE request_found (
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            message INTEGER NOT NULL,
            PRIMARY KEY (conversation_id, message)
        ) STRICT, WITHOUT ROWID""",
        # target: the act that an undo takes back; given_at: empty for an act of an earlier version
        """CREATE TABLE request_mark (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            message INTEGER NOT NULL,
            kind TEXT NOT NULL CHECK (kind IN ('begins', 'none', 'undo')),
            target INTEGER REFERENCES request_mark (id),
            annotator TEXT NOT NULL,
            given_at TEXT NOT NULL,
            CHECK ((kind = 'undo') = (target IS NOT NULL))
        ) STRICT""",
        "CREATE INDEX request_mark_by_conversation ON request_mark (conversation_id)",
        "CREATE INDEX request_mark_by_target ON request_mark (target) WHERE target IS NOT NULL",
        # first, last: indices of its messages; group_id: as it was called then, NULL for one that is like no goal
        """CREATE TABLE request_goal (
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            clustering_id INTEGER NOT NULL REFERENCES clustering (id),
            first INTEGER NOT NULL,
            last INTEGER NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            group_id TEXT,
            score REAL NOT NULL,
            PRIMARY KEY (conversation_id, clustering_id, first, last)
        ) STRICT, WITHOUT ROWID""",
        "INSERT INTO request_found SELECT conversation_id, message FROM request_start WHERE found",
        "INSERT INTO request_mark (conversation_id, message, kind, annotator, given_at)"
        " SELECT conversation_id, message, iif(begins, 'begins', 'none'), annotator, ''"
        " FROM request_start WHERE NOT found",
        "DROP TABLE request_start",
    ):
        conn.execute(statement)
