"""What is known of conversations from elsewhere, such as gold goals. For validation only: no model is given it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any


def truth_by_conversation(conn: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """(id, truth) of every conversation that has one, in id order."""
    for key, truth in conn.execute(
        "SELECT conversation_id, truth FROM truth ORDER BY conversation_id"
    ):
        yield key, json.loads(truth)


def truth_by_record(conn: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `truth_by_conversation`, but of every record: a conversation that was imported twice has two."""
    for key, truth in conn.execute(
        "SELECT conversation_id, truth FROM truth UNION ALL"
        " SELECT conversation_id, truth FROM alias WHERE truth IS NOT NULL ORDER BY 1"
    ):
        yield key, json.loads(truth)


def truth_of_duplicates(
    conn: sqlite3.Connection,
) -> Iterator[tuple[int, str, dict[str, Any] | None]]:
    """(conversation id, external id, truth) of every record that repeats a stored one, in order of import."""
    for key, external_id, truth in conn.execute(
        "SELECT conversation_id, external_id, truth FROM alias ORDER BY id"
    ):
        yield key, external_id, None if truth is None else json.loads(truth)
