"""Keeps the text of a conversation that an import replaces as an *earlier state*, and deletes what was computed from
it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from engine.base.conversation import SUCCEEDED
from engine.conversations.tables import facets
from engine.project import cjk_index
from engine.project.schema import NOT_UNDONE, OF_THIS_TEXT
from engine.project.sql import message_ids, utc_now

_COMPUTED = (
    "boundary_score WHERE conversation_id = ?1",
    "remaining WHERE conversation_id = ?1",
    "score WHERE conversation_id = ?1",
    "tree WHERE conversation_id = ?1",
    "sign WHERE conversation_id = ?1",
    "trouble WHERE conversation_id = ?1",
    # the key of these tables begins with the configuration
    "hidden_state WHERE config_hash IN (SELECT config_hash FROM state_config) AND conversation_id = ?1",
    "goal_text WHERE config_hash IN (SELECT config_hash FROM goal_config) AND conversation_id = ?1",
    "taught_value WHERE taught_id IN (SELECT id FROM taught) AND conversation_id = ?1",
    "machine_answer WHERE config_hash IN (SELECT config_hash FROM answerer) AND conversation_id = ?1",
)
"""Rows that were computed from the text of a conversation, as table and condition."""


def verdict_sql(conversation: str) -> str:
    """Returns the SQL expression for the current verdict of the conversation whose id the expression `conversation`
    gives: the value of the newest answer that was neither undone nor given to an earlier text."""
    # `NOT_UNDONE` and `OF_THIS_TEXT` are conditions on an answer that is called `v`
    return (
        f"(SELECT v.value FROM answer AS v WHERE v.conversation_id = {conversation}"
        f" AND v.question = '{SUCCEEDED}' AND v.kind = 'give' AND {NOT_UNDONE}"
        f" AND {OF_THIS_TEXT} ORDER BY v.id DESC LIMIT 1)"
    )


def count_replaced_texts(conn: sqlite3.Connection) -> int:
    """Returns the number of earlier states that were kept so far, which grows whenever a text is replaced."""
    # the largest id, which is found at once, since none is ever deleted
    return int(conn.execute("SELECT coalesce(max(id), 0) FROM earlier_state").fetchone()[0])


def keep_earlier_state(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Keeps the present state of a conversation as an earlier one."""
    values = conn.execute(
        "SELECT c.source_id, c.hash, c.line, original.raw, truth.truth, c.messages"
        " FROM conversation AS c JOIN original ON original.conversation_id = c.id"
        " LEFT JOIN truth ON truth.conversation_id = c.id WHERE c.id = ?",
        (conversation_id,),
    ).fetchone()
    _insert(conn, conversation_id, values)


def delete_text(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Deletes the text of a conversation and what was computed from it; its row stays, for another text."""
    facets.forget_checks(conn, conversation_id)
    facets.remove(conn, conversation_id)
    _delete_messages(conn, conversation_id)
    for table in ("leak", "truth", "original"):
        conn.execute(f"DELETE FROM {table} WHERE conversation_id = ?", (conversation_id,))
    for rows in _COMPUTED:
        conn.execute(f"DELETE FROM {rows}", (conversation_id,))


def keep_duplicate_as_earlier_state(
    conn: sqlite3.Connection, alias_id: int, conversation_id: int
) -> None:
    """Makes a duplicate an earlier state of the conversation that has the same id in the source and gets another text.

    Args:
        alias_id: The duplicate; it is deleted as such.
    """
    values = conn.execute(
        "SELECT a.source_id, c.hash, a.line, a.raw, a.truth, c.messages FROM alias AS a"
        " JOIN conversation AS c ON c.id = a.conversation_id WHERE a.id = ?",
        (alias_id,),
    ).fetchone()
    _insert(conn, conversation_id, values)
    conn.execute("DELETE FROM alias WHERE id = ?", (alias_id,))


def _insert(conn: sqlite3.Connection, conversation_id: int, values: Sequence[object]) -> None:
    """Stores an earlier state that is replaced now, with the id of the last answer that was given before.

    Args:
        values: Of its columns from `source_id` to `messages`, in the order of the query below.
    """
    conn.execute(
        "INSERT INTO earlier_state (conversation_id, source_id, hash, line, raw, truth, messages,"
        " answer_id, replaced_at) VALUES (?, ?, ?, ?, ?, ?, ?,"
        " (SELECT coalesce(max(id), 0) FROM answer), ?)",
        (conversation_id, *values, utc_now()),
    )


def _delete_messages(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Deletes the messages of a conversation from the table and from both indexes."""
    between = message_ids(conversation_id)
    texts: list[tuple[int, str, str | None]] = conn.execute(
        "SELECT id, content, tool_calls FROM message WHERE id BETWEEN ? AND ? ORDER BY id", between
    ).fetchall()
    conn.executemany(
        "INSERT INTO message_fts (message_fts, rowid, content, tool_calls) VALUES ('delete', ?, ?, ?)",
        texts,
    )
    cjk_index.remove(conn, texts)
    conn.execute("DELETE FROM message WHERE id BETWEEN ? AND ?", between)
