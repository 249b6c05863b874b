"""What a list shows beside its rows: tags, dates, and where words occur."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from engine.filters import TEXT, Filter
from engine.store.query import counted, match
from engine.store.sql import chunks, marks, message_ids
from engine.store.verdicts import STANDING_TAGS


def tags(conn: sqlite3.Connection) -> list[tuple[str, int]]:
    """The tags that stand, in order, each with its number of conversations."""
    return conn.execute(
        f"SELECT tag, count(*) FROM ({STANDING_TAGS}) GROUP BY tag ORDER BY tag"
    ).fetchall()


def tags_of(conn: sqlite3.Connection, wanted: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The tags that stand, in order, of those of these conversations that have any."""
    found: dict[int, tuple[str, ...]] = {}
    for keys in chunks(wanted):
        for key, tag in conn.execute(
            f"SELECT conversation_id, tag FROM ({STANDING_TAGS})"
            f" WHERE conversation_id IN ({marks(keys)}) ORDER BY tag",
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


def hits(conn: sqlite3.Connection, conversation_id: int, wanted: Filter) -> list[int]:
    """Indices of the messages in which a word or phrase of the filter occurs, in order."""
    first, last = message_ids(conversation_id)
    found: set[int] = set()
    for term in counted(wanted).of(TEXT):
        if term.negated:
            continue
        found.update(
            row[0] - first
            for row in conn.execute(
                "SELECT rowid FROM message_fts WHERE message_fts MATCH ? AND rowid BETWEEN ? AND ?",
                (match(term), first, last),
            )
        )
    return sorted(found)
