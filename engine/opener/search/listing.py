"""Further data for the conversation list: tags, dates, and the messages in which words occur."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from engine.conversations.filter_fields import TEXT
from engine.conversations.filters import Filter, Term
from engine.opener.search.text_search import MAIN_INDEX, messages_with
from engine.project import cjk_index
from engine.project.sql import chunks, message_ids, placeholders
from engine.questions.tables.verdicts import CURRENT_TAGS

FEW_MESSAGES = 1_000


def tags(conn: sqlite3.Connection) -> list[tuple[str, int]]:
    """Tags in force in alphabetical order, each with its number of conversations."""
    return conn.execute(
        f"SELECT tag, count(*) FROM ({CURRENT_TAGS}) GROUP BY tag ORDER BY tag"
    ).fetchall()


def tags_of(conn: sqlite3.Connection, wanted: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """Tags in force of these conversations, in alphabetical order; conversations without any are left out."""
    found: dict[int, tuple[str, ...]] = {}
    for keys in chunks(wanted):
        for key, tag in conn.execute(
            f"SELECT conversation_id, tag FROM ({CURRENT_TAGS})"
            f" WHERE conversation_id IN ({placeholders(keys)}) ORDER BY tag",
            keys,
        ):
            found[key] = (*found.get(key, ()), tag)
    return found


def dates(conn: sqlite3.Connection) -> tuple[str, str] | None:
    """When the first and the last conversation took place; None where no date is known."""
    first, last = conn.execute(
        "SELECT (SELECT min(created_at) FROM conversation), (SELECT max(created_at) FROM conversation)"
    ).fetchone()
    return None if first is None else (first, last)


def hits(
    conn: sqlite3.Connection, conversation_id: int, wanted: Filter, few: int = FEW_MESSAGES
) -> list[int]:
    """Indices of the messages in which a word or phrase of the filter occurs, in order.

    The full-text index of the project collects all messages with a prefix before it restricts them to one conversation
    (0.1 s for one letter, with 500,000 messages). So a conversation of at most `few` messages gets a temporary index.
    """
    terms = [term for term in wanted.of(TEXT) if not term.negated]
    first, last = message_ids(conversation_id)
    texts = conn.execute(
        "SELECT id, content, tool_calls FROM message WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
        (first, last, few + 1),
    ).fetchall()
    if len(texts) > few:
        return _found(conn, terms, first, last)
    with closing(sqlite3.connect(":memory:")) as own:
        own.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, content, tool_calls)")
        own.executemany("INSERT INTO message VALUES (?, ?, ?)", texts)
        own.execute(
            f"CREATE VIRTUAL TABLE {MAIN_INDEX}"
            " USING fts5 (content, tool_calls, content = 'message', content_rowid = 'id')"
        )
        own.execute(f"INSERT INTO {MAIN_INDEX} ({MAIN_INDEX}) VALUES ('rebuild')")
        cjk_index.create(own)
        cjk_index.add(own, texts)
        return _found(own, terms, first, last)


def _found(conn: sqlite3.Connection, terms: Sequence[Term], first: int, last: int) -> list[int]:
    found = (messages_with(conn, term, first, last) for term in terms)
    return sorted(key - first for key in set().union(*found))
