"""The first migration: conversations, runs, scores and verdicts. A released migration is never edited."""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x57_42_43_48
"""Marks a SQLite file as a project of this program (`WBCH`)."""


def m001_conversations_scores_verdicts(conn: sqlite3.Connection) -> None:
    """Conversations with their originals, truth and leaks; the quarantine; runs; scores; verdicts."""
    for statement in (
        f"PRAGMA application_id = {APPLICATION_ID}",
        # value: JSON
        "CREATE TABLE setting (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
        """CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            stage TEXT NOT NULL,
            state TEXT NOT NULL
                CHECK (state IN ('running', 'done', 'cancelled', 'failed', 'interrupted')),
            config_hash TEXT NOT NULL,
            params TEXT NOT NULL,
            fingerprints TEXT NOT NULL,
            code_version TEXT NOT NULL,
            started_at TEXT NOT NULL,
            finished_at TEXT,
            done INTEGER NOT NULL DEFAULT 0,
            total INTEGER,
            message TEXT,
            pid INTEGER NOT NULL
        ) STRICT""",
        # place: the absolute path, so that one file named in two ways is one source
        """CREATE TABLE source (
            id INTEGER PRIMARY KEY,
            place TEXT NOT NULL UNIQUE,
            label TEXT NOT NULL,
            format TEXT NOT NULL,
            why TEXT NOT NULL
        ) STRICT""",
        """CREATE TABLE conversation (
            id INTEGER PRIMARY KEY,
            source_id INTEGER NOT NULL REFERENCES source (id),
            external_id TEXT NOT NULL,
            hash BLOB NOT NULL UNIQUE,
            opening TEXT NOT NULL,
            messages INTEGER NOT NULL,
            turns INTEGER NOT NULL,
            chars INTEGER NOT NULL,
            created_at TEXT,
            meta TEXT NOT NULL,
            line INTEGER
        ) STRICT""",
        "CREATE INDEX conversation_by_source ON conversation (source_id)",
        """CREATE TABLE original (
            conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
            raw BLOB NOT NULL
        ) STRICT""",
        # tool_calls: JSON list of [name, arguments, call id]
        """CREATE TABLE message (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            idx INTEGER NOT NULL,
            role TEXT NOT NULL,
            name TEXT,
            content TEXT NOT NULL,
            tool_calls TEXT,
            tool_call_id TEXT,
            model_view TEXT,
            hidden INTEGER NOT NULL
        ) STRICT""",
        "CREATE UNIQUE INDEX message_by_conversation ON message (conversation_id, idx)",
        """CREATE VIRTUAL TABLE message_fts USING fts5 (
            content, tool_calls, content = 'message', content_rowid = 'id')""",
        """CREATE TABLE truth (
            conversation_id INTEGER PRIMARY KEY REFERENCES conversation (id),
            truth TEXT NOT NULL
        ) STRICT""",
        # the same messages under another id, from another source or with other facts about them
        """CREATE TABLE alias (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            source_id INTEGER NOT NULL REFERENCES source (id),
            external_id TEXT NOT NULL,
            line INTEGER,
            raw BLOB NOT NULL,
            truth TEXT
        ) STRICT""",
        "CREATE INDEX alias_by_conversation ON alias (conversation_id)",
        """CREATE TABLE leak (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            message INTEGER,
            rule TEXT NOT NULL,
            found TEXT NOT NULL
        ) STRICT""",
        "CREATE INDEX leak_by_conversation ON leak (conversation_id)",
        # digest: over source, line and bytes, so that importing again adds nothing
        """CREATE TABLE quarantine (
            id INTEGER PRIMARY KEY,
            digest BLOB NOT NULL UNIQUE,
            source_id INTEGER NOT NULL REFERENCES source (id),
            line INTEGER,
            reason TEXT NOT NULL,
            raw BLOB NOT NULL
        ) STRICT""",
        """CREATE TABLE score_config (
            config_hash TEXT PRIMARY KEY,
            mode TEXT NOT NULL CHECK (mode IN ('base', 'tuned', 'judge')),
            model TEXT NOT NULL,
            adapter TEXT,
            noise REAL
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE score (
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            config_hash TEXT NOT NULL REFERENCES score_config (config_hash),
            run_id INTEGER NOT NULL REFERENCES run (id),
            p_end REAL,
            p_continue REAL,
            p_end_normalised REAL,
            reason TEXT,
            tokens INTEGER NOT NULL,
            PRIMARY KEY (conversation_id, config_hash),
            CHECK (p_end_normalised IS NOT NULL OR reason IS NOT NULL)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE boundary_score (
            conversation_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            message INTEGER NOT NULL,
            step INTEGER NOT NULL,
            turn INTEGER NOT NULL,
            p_end REAL NOT NULL,
            p_continue REAL NOT NULL,
            PRIMARY KEY (conversation_id, config_hash, message),
            FOREIGN KEY (conversation_id, config_hash)
                REFERENCES score (conversation_id, config_hash)
        ) STRICT, WITHOUT ROWID""",
        """CREATE TABLE remaining (
            conversation_id INTEGER NOT NULL,
            config_hash TEXT NOT NULL,
            score_config_hash TEXT NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            text TEXT NOT NULL,
            reason TEXT,
            PRIMARY KEY (conversation_id, config_hash),
            FOREIGN KEY (conversation_id, score_config_hash)
                REFERENCES score (conversation_id, config_hash)
        ) STRICT, WITHOUT ROWID""",
        # append only: undo and redo are rows that name the row they act on
        """CREATE TABLE verdict (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            kind TEXT NOT NULL CHECK (kind IN ('give', 'note', 'undo', 'redo')),
            verdict TEXT CHECK (verdict IN ('complete', 'incomplete', 'unsure')),
            note TEXT NOT NULL DEFAULT '',
            given_at TEXT NOT NULL,
            target INTEGER REFERENCES verdict (id),
            CHECK ((kind = 'give') = (verdict IS NOT NULL)),
            CHECK ((kind IN ('undo', 'redo')) = (target IS NOT NULL))
        ) STRICT""",
        "CREATE INDEX verdict_by_conversation ON verdict (conversation_id)",
        "CREATE INDEX verdict_by_target ON verdict (target) WHERE target IS NOT NULL",
    ):
        conn.execute(statement)
