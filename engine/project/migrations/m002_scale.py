"""The second migration: indexes for large projects, tags and response trees. A released migration is never edited."""

from __future__ import annotations

import sqlite3


def m002_scale_tags_trees(conn: sqlite3.Connection) -> None:
    """Message ids that contain the conversation's id, indexes for a million conversations, tags, response trees."""
    for statement in (
        # A message's id says its conversation, so that a hit of the text index needs no look at the message.
        # Through negative numbers, so that no new id meets an old one.
        "UPDATE message SET id = -(conversation_id << 20 | idx)",
        "UPDATE message SET id = -id",
        "INSERT INTO message_fts (message_fts) VALUES ('rebuild')",
        "DROP INDEX message_by_conversation",  # the ids are in this order
        # What the list is ordered and filtered by, so that its ids are read off an index and no row is touched;
        # the first also holds what is counted.
        "DROP INDEX conversation_by_source",
        "CREATE INDEX conversation_by_source ON conversation (source_id, messages, turns)",
        "CREATE INDEX score_by_value ON score (config_hash, p_end_normalised)",
        "CREATE INDEX conversation_by_turns ON conversation (turns)",
        "CREATE INDEX conversation_by_messages ON conversation (messages)",
        "CREATE INDEX conversation_by_length ON conversation (chars)",
        "CREATE INDEX conversation_by_date ON conversation (created_at)",
        "CREATE INDEX conversation_by_name ON conversation (external_id)",
        # tag, untag: `note` is the tag; repeat: a second verdict, given blind, that changes nothing
        """CREATE TABLE verdict_new (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            kind TEXT NOT NULL
                CHECK (kind IN ('give', 'repeat', 'note', 'tag', 'untag', 'undo', 'redo')),
            verdict TEXT CHECK (verdict IN ('complete', 'incomplete', 'unsure')),
            note TEXT NOT NULL DEFAULT '',
            given_at TEXT NOT NULL,
            target INTEGER REFERENCES verdict_new (id),
            CHECK ((kind IN ('give', 'repeat')) = (verdict IS NOT NULL)),
            CHECK ((kind IN ('undo', 'redo')) = (target IS NOT NULL))
        ) STRICT""",
        "INSERT INTO verdict_new SELECT id, conversation_id, kind, verdict, note, given_at, target"
        " FROM verdict ORDER BY id",
        "DROP TABLE verdict",
        "ALTER TABLE verdict_new RENAME TO verdict",
        "CREATE INDEX verdict_by_conversation ON verdict (conversation_id)",
        "CREATE INDEX verdict_by_target ON verdict (target) WHERE target IS NOT NULL",
        """CREATE TABLE tree_config (
            config_hash TEXT PRIMARY KEY,
            alpha REAL NOT NULL,
            mode TEXT NOT NULL CHECK (mode IN ('path', 'token')),
            place TEXT NOT NULL CHECK (place IN ('last-answer', 'end', 'every')),
            model TEXT NOT NULL,
            adapter TEXT
        ) STRICT, WITHOUT ROWID""",
        # packed: the tree's columns as JSON, compressed by zlib; NULL with a reason where there is no tree
        """CREATE TABLE tree (
            id INTEGER PRIMARY KEY,
            conversation_id INTEGER NOT NULL REFERENCES conversation (id),
            config_hash TEXT NOT NULL REFERENCES tree_config (config_hash),
            step INTEGER NOT NULL,
            run_id INTEGER NOT NULL REFERENCES run (id),
            reason TEXT,
            prompt_tokens INTEGER NOT NULL,
            note TEXT,
            leaves INTEGER NOT NULL,
            answers INTEGER NOT NULL,
            nodes INTEGER NOT NULL,
            max_log_prob REAL,
            max_log_prob_per_token REAL,
            covered REAL NOT NULL,
            pruned REAL NOT NULL,
            unexpanded REAL NOT NULL,
            entropy_low REAL NOT NULL,
            entropy_high REAL NOT NULL,
            fork_depth INTEGER,
            fork_entropy REAL,
            answer_log_prob REAL,
            answer_tokens INTEGER NOT NULL,
            answer_held INTEGER NOT NULL,
            seconds REAL NOT NULL,
            packed BLOB,
            CHECK ((packed IS NULL) = (reason IS NOT NULL)),
            UNIQUE (conversation_id, config_hash, step)
        ) STRICT""",
    ):
        conn.execute(statement)
