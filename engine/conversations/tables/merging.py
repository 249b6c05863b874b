"""The part of conversations in a merge of two projects, and what all parts of it share.

The connection has the new file as `main` and the project that is added to it as `other`, which is only read. Each
subject adds its rows with ids of the new file, which it looks up in temporary tables: `source_match` and `run_match`
(`old` and `new` id), and `match`, the same of conversations with `known`, whether the conversation was here before.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

from engine.conversations.records import Conflict, MergeReport
from engine.conversations.tables import facets
from engine.project import cjk_index
from engine.project.sql import MESSAGE_BITS

MAX_EXAMPLES = 10
"""Number of examples of one kind of conflict."""

_ROWS_AT_A_TIME = 5_000


def count_added(conn: sqlite3.Connection, report: MergeReport, title: str, sql: str) -> None:
    """Runs an INSERT and counts its rows under a title."""
    if number := conn.execute(sql).rowcount:
        report.added[title] = report.added.get(title, 0) + number


def note_conflict(
    conn: sqlite3.Connection, report: MergeReport, title: str, sql: str, values: Sequence[Any] = ()
) -> None:
    """Counts the rows of a query whose only column has the ids of conversations that differ."""
    names = [str(name) for (name,) in conn.execute(sql, values)]
    if names:
        conflict = report.conflicts.setdefault(title, Conflict())
        conflict.count += len(names)
        conflict.examples.extend(names[: MAX_EXAMPLES - len(conflict.examples)])


def match_sources(conn: sqlite3.Connection) -> None:
    """Makes `source_match (old, new)`; adds sources whose place is new, with what was found when they were read."""
    conn.execute(
        "INSERT OR IGNORE INTO main.source (place, label, format, why)"
        " SELECT place, label, format, why FROM other.source ORDER BY id"
    )
    conn.execute(
        "CREATE TEMP TABLE source_match AS SELECT o.id AS old, s.id AS new"
        " FROM other.source AS o JOIN main.source AS s USING (place)"
    )
    conn.execute("CREATE UNIQUE INDEX temp.source_match_by_old ON source_match (old)")
    conn.execute(
        "INSERT OR IGNORE INTO main.source_read (source_id, digest, report)"
        " SELECT new, digest, report FROM other.source_read JOIN source_match ON old = source_id"
    )


def match_conversations(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Makes `match (old, new, known)`: ids there and here, and whether the conversation was here before."""
    conn.execute(
        "CREATE TEMP TABLE match (old INTEGER PRIMARY KEY, new INTEGER NOT NULL UNIQUE, known INTEGER NOT NULL)"
    )
    conn.execute(
        "INSERT INTO match SELECT o.id, coalesce(c.id, (SELECT coalesce(max(id), 0) FROM main.conversation)"
        " + row_number() OVER (PARTITION BY c.id IS NULL ORDER BY o.id)), c.id IS NOT NULL"
        " FROM other.conversation AS o LEFT JOIN main.conversation AS c ON c.hash = o.hash"
    )
    (report.known,) = conn.execute("SELECT count(*) FROM match WHERE known").fetchone()
    note_conflict(
        conn,
        report,
        "texts under one id",
        "SELECT o.external_id FROM other.conversation AS o JOIN match ON old = o.id AND NOT known"
        " JOIN other.source AS s ON s.id = o.source_id WHERE EXISTS (SELECT 1 FROM"
        " main.conversation AS c JOIN main.source AS mine ON mine.id = c.source_id"
        " WHERE c.external_id = o.external_id AND mine.label = s.label) ORDER BY o.id",
    )


def add_conversations(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Adds the conversations that are new, with their messages, originals, truth, leaks and earlier states."""
    count_added(
        conn,
        report,
        "conversations",
        "INSERT INTO main.conversation SELECT m.new, s.new, external_id, hash, opening, messages, turns, chars,"
        " created_at, meta, line FROM match AS m JOIN other.conversation AS o ON o.id = m.old"
        " JOIN source_match AS s ON s.old = o.source_id WHERE NOT known ORDER BY m.new",
    )
    columns = (
        "idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts"
    )
    conn.execute(
        f"INSERT INTO main.message (id, conversation_id, {columns})"
        f" SELECT (m.new << {MESSAGE_BITS}) + idx, m.new, {columns} FROM match AS m"
        f" JOIN other.message AS o ON o.id BETWEEN m.old << {MESSAGE_BITS} AND ((m.old + 1) << {MESSAGE_BITS}) - 1"
        " WHERE NOT known ORDER BY m.new, idx"
    )
    for table, columns in (
        ("original", "raw"),
        ("truth", "truth"),
        ("leak", "message, rule, found"),
    ):
        conn.execute(
            f"INSERT INTO main.{table} (conversation_id, {columns}) SELECT m.new, {columns}"
            f" FROM match AS m JOIN other.{table} AS o ON o.conversation_id = m.old"
            " WHERE NOT known ORDER BY m.new"
        )
    new = "FROM main.message WHERE id >= (SELECT min(new) FROM match WHERE NOT known) << ?"
    conn.execute(
        f"INSERT INTO main.message_fts (rowid, content, tool_calls) SELECT id, content, tool_calls {new}",
        (MESSAGE_BITS,),
    )
    texts = conn.cursor().execute(f"SELECT id, content, tool_calls {new}", (MESSAGE_BITS,))
    while page := texts.fetchmany(_ROWS_AT_A_TIME):
        cjk_index.add(conn, page)
    ids = [key for (key,) in conn.execute("SELECT new FROM match WHERE NOT known ORDER BY new")]
    for start in range(0, len(ids), _ROWS_AT_A_TIME):
        facets.add_stored(conn, ids[start : start + _ROWS_AT_A_TIME])


def add_records(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Adds records of conversations that were here before under another id or with other bytes, as duplicates; what is
    known of them only there; and the quarantine."""
    _add_duplicates(conn, report)
    _add_truth(conn, report)
    _add_quarantined(conn, report)


def _add_duplicates(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Adds conversations that were here before, and duplicates from there, as duplicates."""
    conn.execute("CREATE INDEX temp.match_known ON match (known)")
    is_new = (
        "NOT EXISTS (SELECT 1 FROM main.conversation AS c JOIN main.original AS r ON r.conversation_id = c.id"
        " WHERE c.id = m.new AND c.external_id = o.external_id AND r.raw = {raw})"
        " AND NOT EXISTS (SELECT 1 FROM main.alias AS a WHERE a.conversation_id = m.new"
        " AND a.external_id = o.external_id AND a.raw = {raw})"
    )
    alias = "INSERT INTO main.alias (conversation_id, source_id, external_id, line, raw, truth)"
    count_added(
        conn,
        report,
        "duplicates",
        f"{alias} SELECT m.new, s.new, o.external_id, o.line, r.raw, t.truth FROM match AS m"
        " JOIN other.conversation AS o ON o.id = m.old JOIN source_match AS s ON s.old = o.source_id"
        " JOIN other.original AS r ON r.conversation_id = o.id"
        f" LEFT JOIN other.truth AS t ON t.conversation_id = o.id WHERE known AND {is_new.format(raw='r.raw')}",
    )
    count_added(
        conn,
        report,
        "duplicates",
        f"{alias} SELECT m.new, s.new, o.external_id, o.line, o.raw, o.truth FROM match AS m"
        " JOIN other.alias AS o ON o.conversation_id = m.old JOIN source_match AS s ON s.old = o.source_id"
        f" WHERE {is_new.format(raw='o.raw')}",
    )


def _add_truth(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Adds the truth of conversations that have one only there."""
    note_conflict(
        conn,
        report,
        "truth",
        "SELECT c.external_id FROM match AS m JOIN other.truth AS o ON o.conversation_id = m.old"
        " JOIN main.truth AS t ON t.conversation_id = m.new JOIN main.conversation AS c ON c.id = m.new"
        " WHERE o.truth <> t.truth ORDER BY m.new",
    )
    conn.execute(
        "INSERT OR IGNORE INTO main.truth (conversation_id, truth) SELECT m.new, o.truth"
        " FROM match AS m JOIN other.truth AS o ON o.conversation_id = m.old WHERE known"
    )


def _add_quarantined(conn: sqlite3.Connection, report: MergeReport) -> None:
    """Adds the records that could not be read."""
    rejected = conn.execute(
        "SELECT s.new, line, reason, raw FROM other.quarantine JOIN source_match AS s ON s.old = source_id"
        " ORDER BY id"
    ).fetchall()
    before = conn.total_changes
    conn.executemany(
        "INSERT OR IGNORE INTO main.quarantine (digest, source_id, line, reason, raw) VALUES (?, ?, ?, ?, ?)",
        (
            (
                hashlib.sha256(f"{source_id}:{line}:".encode() + raw).digest(),
                source_id,
                line,
                *rest,
                raw,
            )
            for source_id, line, *rest, raw in rejected
        ),
    )
    if conn.total_changes > before:
        report.added["quarantined records"] = conn.total_changes - before
