"""The schema as a sequence of migrations. Append only: a released migration is never edited.

Each migration runs in one transaction together with its record and with `user_version`, the number of
migrations applied. `executescript` is not used, because it commits first. Foreign keys are not watched meanwhile, for a
table that others refer to may be made anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from engine.store import cjk_index
from engine.store.migrations.goal_schema import m003_goals
from engine.store.migrations.goal_text_schema import m006_both_sides
from engine.store.migrations.play_schema import m005_plays

APPLICATION_ID = 0x57_42_43_48
"""Marks a SQLite file as a project of this program (`WBCH`)."""


def _m001_conversations_scores_verdicts(conn: sqlite3.Connection) -> None:
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


def _m002_scale_tags_trees(conn: sqlite3.Connection) -> None:
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


def _m004_signs(conn: sqlite3.Connection) -> None:
    cjk_index.create(conn)
    cjk_index.fill(conn)


MIGRATIONS: tuple[Callable[[sqlite3.Connection], None], ...] = (
    _m001_conversations_scores_verdicts,
    _m002_scale_tags_trees,
    m003_goals,
    _m004_signs,
    m005_plays,
    m006_both_sides,
)

SCHEMA = len(MIGRATIONS)
"""The schema this program writes; a file's own number is its `user_version`."""


def migrate(conn: sqlite3.Connection) -> None:
    """Brings the file behind `conn` to `SCHEMA`; each migration happens entirely or not at all."""
    # imported here because a file that is up to date, the usual case, does not need it
    from sqlite_utils import Database
    from sqlite_utils.migrations import Migrations

    migrations = Migrations("workbench")
    for number, function in enumerate(MIGRATIONS, start=1):
        migrations(name=function.__name__.lstrip("_"))(_numbered(number, function))
    migrations.apply(Database(conn, execute_plugins=False))


def _numbered(
    number: int, function: Callable[[sqlite3.Connection], None]
) -> Callable[[object], None]:
    def apply(db: object) -> None:
        conn = db.conn  # type: ignore[attr-defined]
        function(conn)
        conn.execute(f"PRAGMA user_version = {number}")

    return apply
