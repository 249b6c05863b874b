"""Indexes what conversations have: tools that were called, models that answered, fields of metadata and truth, and what
a check found.

Each distinct pair of a key and a value is a facet. Keys are those of `FIELDS`, and `meta.` or `truth.` with the name of
a field; names of fields within fields are joined by dots. Values are the numbers, texts and truth values of a field, or
of a list; objects in lists are not indexed. So the metadata `{"user": {"tags": ["new", "eu"]}}` have the facets
(`meta.user.tags`, `new`) and (`meta.user.tags`, `eu`).

A *check* looks for the language of a conversation and for personal data in it; what it finds is under keys of its own.
The table `conversation_check` has the ids of the checked conversations.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from engine.base.conversation import Message, without_surrogates
from engine.conversations.filters import is_number
from engine.conversations.personal_data import Kind
from engine.conversations.records import CheckCounts
from engine.conversations.tables.conversations import COLUMNS, message_of
from engine.project.sql import IdSet, message_ids, read_ids, rows_in

TOOL, MODEL = "tool", "model"
"""Keys of the tools that were called and of the models that answered."""

LANGUAGE, PERSONAL = "language", "personal"
"""Keys of what a check found: the language and kinds of personal data."""

FIELDS = (TOOL, MODEL, LANGUAGE, PERSONAL)
"""The keys that are fields of filters by themselves; those after the first two come from the table of checks."""

MAX_VALUE_CHARS = 200
"""Most characters of a value that are indexed."""

MAX_FACETS = 200
"""Most facets of one conversation that are indexed."""

_DEEPEST = 5
"""Deepest level at which fields within fields are indexed."""

_NO_LIMIT = -1
"""Limit of SQLite that limits nothing."""

_MODEL_KEYS = ("model", "model_name", "model_id", "modelId", "model_slug")
"""Keys under which facts and metadata name the model."""

Facet = tuple[str, str]
"""Key and value."""


# The facets of a conversation


def facets_of(
    meta: Mapping[str, Any], truth: Mapping[str, Any] | None, messages: Iterable[Message]
) -> set[Facet]:
    """Returns the facets of a conversation, at most `MAX_FACETS`."""
    facets: dict[Facet, None] = {}
    models: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            facets[TOOL, _shorten(call.name)] = None
        if message.role == "tool" and message.name:
            facets[TOOL, _shorten(message.name)] = None
        if message.role == "assistant" and message.facts and '"model' in message.facts:
            models |= _models_in(json.loads(message.facts))
    for model in models or _models_in(meta):
        facets[MODEL, _shorten(model)] = None
    _add_fields(facets, "meta", meta, depth=0)
    _add_fields(facets, "truth", truth or {}, depth=0)
    return set(islice(facets, MAX_FACETS))


def _models_in(facts: Any) -> set[str]:
    """Returns the model that facts or metadata name under the first key that has a name; no model where none has."""
    if not isinstance(facts, dict):
        return set()
    names = [facts.get(key) for key in _MODEL_KEYS]
    return set([name for name in names if isinstance(name, str) and name][:1])


def _add_fields(facets: dict[Facet, None], name: str, value: Any, depth: int) -> None:
    """Adds the facets of a field and of the fields in it; `depth` is the number of fields that it lies in."""
    if isinstance(value, dict):
        if depth < _DEEPEST:
            for key, inner in value.items():
                path = f"{name}.{_shorten(str(key))}"
                if isinstance(inner, dict | list):
                    _add_fields(facets, path, inner, depth + 1)
                elif inner is not None:
                    facets[path, _shorten(_filter_text(inner))] = None
    elif isinstance(value, list):
        for item in value:
            if item is not None and not isinstance(item, dict | list):
                facets[name, _shorten(_filter_text(item))] = None


def _filter_text(value: Any) -> str:
    """Returns a text, number or truth value as a filter writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int) else json.dumps(value)


def _shorten(text: str) -> str:
    """Returns the first `MAX_VALUE_CHARS` characters of a text, without lone surrogates, which SQLite cannot take."""
    return without_surrogates(text[:MAX_VALUE_CHARS])


# Indexing


def add(conn: sqlite3.Connection, entries: Iterable[tuple[int, Iterable[Facet]]]) -> None:
    """Indexes facets of conversations, given by (id, facets), that are not indexed yet."""
    # sorted, so that the same import gives the same ids in every process
    rows = [
        (facet, conversation_id)
        for conversation_id, facets_of_one in entries
        for facet in sorted(facets_of_one)
    ]
    facets = dict.fromkeys(facet for facet, _ in rows)
    conn.executemany(
        "INSERT INTO facet (key, value, number) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(key, value, float(value) if is_number(value) else None) for key, value in facets],
    )
    ids = {
        facet: conn.execute("SELECT id FROM facet WHERE key = ? AND value = ?", facet).fetchone()[0]
        for facet in facets
    }
    conn.executemany(
        "INSERT INTO conversation_facet (facet_id, conversation_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
        sorted((ids[facet], conversation_id) for facet, conversation_id in rows),
    )


def add_stored(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Indexes a conversation as it is stored."""
    add(conn, [(conversation_id, _stored_facets(conn, conversation_id))])


def remove(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Takes a conversation out of the index, before its stored text is changed."""
    conn.executemany(
        "DELETE FROM conversation_facet WHERE conversation_id = ?3"
        " AND facet_id = (SELECT id FROM facet WHERE key = ?1 AND value = ?2)",
        [(*facet, conversation_id) for facet in _stored_facets(conn, conversation_id)],
    )


def _stored_facets(conn: sqlite3.Connection, conversation_id: int) -> set[Facet]:
    """Returns the facets of a conversation as it is stored."""
    meta, truth = conn.execute(
        "SELECT meta, truth FROM conversation LEFT JOIN truth ON conversation_id = id WHERE id = ?",
        (conversation_id,),
    ).fetchone()
    rows = conn.execute(
        f"SELECT {COLUMNS} FROM message WHERE id BETWEEN ? AND ?"
        " AND (tool_calls IS NOT NULL OR facts IS NOT NULL OR name IS NOT NULL) ORDER BY id",
        message_ids(conversation_id),
    )
    return facets_of(
        json.loads(meta), None if truth is None else json.loads(truth), map(message_of, rows)
    )


# Reading the index


def keys(conn: sqlite3.Connection, beginning: str) -> list[str]:
    """Returns the keys with this beginning, in alphabetical order."""
    # goes from key to key in the index; DISTINCT would read all of it. The last key found is the first that does not
    # begin so, which the outer condition leaves out.
    rows = conn.execute(
        "WITH RECURSIVE found (key) AS (SELECT min(key) FROM facet WHERE key >= ?1 UNION ALL"
        " SELECT (SELECT min(key) FROM facet WHERE key > found.key) FROM found"
        " WHERE found.key IS NOT NULL AND substr(found.key, 1, length(?1)) = ?1)"
        " SELECT key FROM found WHERE substr(key, 1, length(?1)) = ?1",
        (beginning,),
    )
    return [row[0] for row in rows]


def is_known(conn: sqlite3.Connection, key: str) -> bool:
    """Returns whether any conversation has, or once had, a facet under this key."""
    return conn.execute("SELECT 1 FROM facet WHERE key = ? LIMIT 1", (key,)).fetchone() is not None


def values(conn: sqlite3.Connection, key: str, among: IdSet, limit: int) -> list[tuple[str, int]]:
    """Returns the values of a key with the number of conversations of a set, the most frequent first."""
    chosen, flags = among.condition("conversation_id")
    return conn.execute(
        "SELECT value, count(*) FROM facet JOIN conversation_facet ON facet_id = facet.id"
        f" WHERE key = ? AND {chosen} GROUP BY facet.id ORDER BY 2 DESC, 1 LIMIT ?",
        (key, *flags, limit),
    ).fetchall()


def of_conversations(
    conn: sqlite3.Connection, key: str, ids: Sequence[int]
) -> dict[int, list[str]]:
    """Returns the values of a key that each of these conversations has, by id; those without any are left out."""
    values_by_id: dict[int, list[str]] = {}
    query = (
        "SELECT conversation_id, value FROM facet JOIN conversation_facet ON facet_id = facet.id"
        " WHERE key = ? AND conversation_id IN"
    )
    for conversation_id, value in rows_in(conn, query, ids, (key,), "ORDER BY value"):
        values_by_id.setdefault(conversation_id, []).append(value)
    return values_by_id


def count(conn: sqlite3.Connection, key: str, among: IdSet) -> int:
    """Returns how many conversations of a set have this key."""
    chosen, flags = among.condition("conversation_id")
    row = conn.execute(
        "SELECT count(DISTINCT conversation_id) FROM facet JOIN conversation_facet"
        f" ON facet_id = facet.id WHERE key = ? AND {chosen}",
        (key, *flags),
    ).fetchone()
    return int(row[0])


# Checks


class CheckResult(NamedTuple):
    """What a check found in a conversation.

    Attributes:
        conversation_id: Id of the conversation.
        language: Code of its language; None where it is not clear.
        personal: Kinds of personal data in it.
    """

    conversation_id: int
    language: str | None
    personal: frozenset[Kind]


def unchecked_ids(conn: sqlite3.Connection) -> array[int]:
    """Returns the ids of the conversations that were not checked in their present text, ascending."""
    return read_ids(
        conn,
        "SELECT id FROM conversation WHERE id NOT IN"
        " (SELECT conversation_id FROM conversation_check) ORDER BY id",
    )


def checked_texts(conn: sqlite3.Connection, conversation_id: int) -> list[tuple[str, str, str]]:
    """Returns (role, content, calls as JSON) of every message of a conversation, in order."""
    return conn.execute(
        "SELECT role, content, coalesce(tool_calls, '') FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
        message_ids(conversation_id),
    ).fetchall()


def put_checks(conn: sqlite3.Connection, results: Sequence[CheckResult]) -> None:
    """Stores what was found in conversations that were not checked yet."""
    conn.executemany(
        "INSERT INTO conversation_check (conversation_id) VALUES (?)",
        [(result.conversation_id,) for result in results],
    )
    for conversation_id, language, personal in results:
        check_facets: list[Facet] = [(PERSONAL, kind) for kind in sorted(personal)]
        if language:
            check_facets.append((LANGUAGE, language))
        add(conn, [(conversation_id, check_facets)])


def forget_checks(conn: sqlite3.Connection, conversation_id: int) -> None:
    """Deletes what was found in a conversation, whose text is about to change."""
    conn.execute(
        "DELETE FROM conversation_facet WHERE conversation_id = ?"
        " AND facet_id IN (SELECT id FROM facet WHERE key IN (?, ?))",
        (conversation_id, LANGUAGE, PERSONAL),
    )
    conn.execute("DELETE FROM conversation_check WHERE conversation_id = ?", (conversation_id,))


def check_counts(conn: sqlite3.Connection) -> CheckCounts | None:
    """Returns what all checks found together; None if no conversation was checked."""
    (checked,) = conn.execute("SELECT count(*) FROM conversation_check").fetchone()
    if not checked:
        return None
    every = IdSet.every(conn)
    languages = dict(values(conn, LANGUAGE, every, _NO_LIMIT))
    unclear = checked - sum(languages.values())
    if unclear > 0:
        languages[""] = unclear
    return CheckCounts(languages, dict(values(conn, PERSONAL, every, _NO_LIMIT)))
