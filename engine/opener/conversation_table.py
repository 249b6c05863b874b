"""One row for each conversation with all that is known of it: the view `conversation_table`, read in pages."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from engine.completeness.tables import requests
from engine.conversations.tables import facets
from engine.project.sql import id_pages, placeholders, snapshot
from engine.questions.tables.example_probes import success_of

_LISTS = ("other_goals", "tags")


def rows(
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None, *, truth: bool = False
) -> Iterator[dict[str, Any]]:
    """Yields the rows of conversations, in the order of `wanted`, or of all in the order of import.

    A row has the columns of the view, `language` (None if it is not known), `personal`, the kinds of personal data
    that were found, and `requests`, the number of its requests; `meta` is an object and, where it is asked for, `truth`
    an object or None.
    """
    for page in id_pages(conn, wanted):
        chosen = f"conversation_id IN ({placeholders(page)})"
        with snapshot(conn):
            cursor = conn.execute(f"SELECT * FROM conversation_table WHERE {chosen}", tuple(page))
            names = [column[0] for column in cursor.description]
            found = {row[0]: dict(zip(names, row, strict=True)) for row in cursor}
            truths: dict[int, str] = {}
            if truth:
                truths = dict(
                    conn.execute(
                        f"SELECT conversation_id, truth FROM truth WHERE {chosen}", tuple(page)
                    )
                )
        languages = facets.of_conversations(conn, facets.LANGUAGE, page)
        personal = facets.of_conversations(conn, facets.PERSONAL, page)
        further = requests.starts(conn, page)
        success = success_of(conn, page)
        for key in page:
            row = found.get(key)
            if row is None:
                continue
            for name in _LISTS:
                row[name] = json.loads(row[name])
            row["meta"] = json.loads(row["meta"])
            row["language"] = next(iter(languages.get(key, [])), None)
            row["personal"] = personal.get(key, [])
            row["success"] = success.get(key)
            row["requests"] = 1 + len(further.get(key, ()))
            if truth:
                row["truth"] = json.loads(truths[key]) if key in truths else None
            yield row


def objects(
    conn: sqlite3.Connection, wanted: Sequence[int] | None, *, truth: bool
) -> Iterator[tuple[str, Any]]:
    """Yields ("meta", object) and, where it is asked for, ("truth", object) of conversations."""
    for page in id_pages(conn, wanted):
        chosen = f"IN ({placeholders(page)})"
        for (text,) in conn.execute(
            f"SELECT meta FROM conversation WHERE id {chosen}", tuple(page)
        ):
            yield "meta", json.loads(text)
        if truth:
            for (text,) in conn.execute(
                f"SELECT truth FROM truth WHERE conversation_id {chosen}", tuple(page)
            ):
                yield "truth", json.loads(text)
