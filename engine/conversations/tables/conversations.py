"""Reads conversations: messages, originals, leaks, the ids in their sources with their duplicates, and the truth.

Truth is what is known from elsewhere, such as gold goals. It is for validation only: no model is given it.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from engine.base.conversation import (
    Conversation,
    Message,
    Role,
    ToolCall,
    opens_turn,
    without_surrogates,
)
from engine.base.errors import ProjectError
from engine.conversations.records import MessageRow, Origin
from engine.formats.records import Duplicate, Imported, Leak
from engine.project import sql

COLUMNS = "conversation_id, idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts"
"""Columns of a message, in the order in which `message_of` reads them."""

_EXPORTED_AT_ONCE = 200
"""Number of conversations that are read together for an export."""

_LETTERS = str.maketrans("0123456789", "ghijklmnop")
"""Replaces the digits of hexadecimal numbers by letters that hexadecimal numbers do not have."""

_DIGITS = str.maketrans("ghijklmnop", "0123456789")
"""Replaces the letters that `_LETTERS` puts by the digits again."""


# Messages


def messages_of(conn: sqlite3.Connection, conversation_id: int) -> tuple[Message, ...]:
    """Returns the messages of a conversation, in order."""
    rows = conn.execute(
        f"SELECT {COLUMNS} FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
        sql.message_ids(conversation_id),
    )
    return tuple(map(message_of, rows))


def message_of(row: Sequence[Any]) -> Message:
    """Returns the message of a row with `COLUMNS`."""
    _, _, role, name, content, calls, tool_call_id, model_view, hidden, reasoning, facts = row
    return Message(
        role=role,
        content=content,
        name=name,
        tool_calls=() if calls is None else _tool_calls(calls),
        tool_call_id=tool_call_id,
        model_view=model_view,
        hidden=bool(hidden),
        reasoning=reasoning,
        facts=facts,
    )


def _tool_calls(text: str) -> tuple[ToolCall, ...]:
    """Returns tool calls from the JSON text that is stored of them.

    Raises:
        JSONDecodeError: The text is no JSON, or no list of calls, because the project file is damaged.
    """
    try:
        return tuple(ToolCall(*call) for call in json.loads(text))
    except TypeError as error:
        raise json.JSONDecodeError("no tool calls", text, 0) from error


def messages(conn: sqlite3.Connection, conversation_id: int) -> list[MessageRow]:
    """Returns all messages of one conversation in order."""
    rows: list[MessageRow] = []
    turn = 0
    for index, message in enumerate(messages_of(conn, conversation_id)):
        turn += not index or opens_turn(message.role)
        fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
        rows.append(MessageRow(**fields, index=index, turn=turn))
    return rows


def conversations_for(
    conn: sqlite3.Connection, ids: Sequence[int]
) -> list[tuple[int, tuple[Message, ...]]]:
    """Returns the messages of many conversations, in id order; ids that do not exist are left out."""
    rows = ((key, messages_of(conn, key)) for key in sorted(set(ids)))
    return [(key, messages) for key, messages in rows if messages]


def texts(conn: sqlite3.Connection, among: sql.IdSet) -> Iterator[tuple[int, Role, str]]:
    """Yields the conversation, role and text of each message of a set, as models see it, in order; hidden ones are left
    out, and so are calls of tools."""
    chosen, flags = among.condition("conversation_id")
    yield from conn.execute(
        "SELECT conversation_id, role, coalesce(model_view, content) FROM message"
        f" WHERE NOT hidden AND {chosen} ORDER BY id",
        flags,
    )


# Columns of conversations


def chars(conn: sqlite3.Connection, ids: Sequence[int]) -> array[int]:
    """Returns the numbers of characters of these conversations, in the order of `ids`; ids that do not exist are left
    out."""
    lengths = _column(conn, "chars", ids)
    return array("q", (lengths[key] for key in ids if key in lengths))


def names(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns the ids in their sources of these conversations, by id; ids that do not exist are left out."""
    return _column(conn, "external_id", ids)


def message_counts(conn: sqlite3.Connection, among: sql.IdSet) -> array[int]:
    """Returns the numbers of messages of the conversations of a set, ascending."""
    chosen, flags = among.condition("id")
    return sql.read_ids(
        conn, f"SELECT messages FROM conversation WHERE {chosen} ORDER BY messages", flags
    )


def dates(conn: sqlite3.Connection) -> tuple[str, str] | None:
    """Returns when the first and the last conversation took place, in ISO 8601; None where no date is known."""
    first, last = conn.execute(
        "SELECT (SELECT min(created_at) FROM conversation), (SELECT max(created_at) FROM conversation)"
    ).fetchone()
    return None if first is None else (first, last)


def origins_of(conn: sqlite3.Connection, ids: Sequence[int]) -> list[Origin]:
    """Returns where each of these conversations is from, in their order."""
    origin_by_source = {
        key: Origin(label, format)
        for key, label, format in conn.execute("SELECT id, label, format FROM source")
    }
    source_by_id = _column(conn, "source_id", ids)
    return [origin_by_source[source_by_id[key]] for key in ids]


def original(conn: sqlite3.Connection, conversation_id: int) -> bytes:
    """Returns the record as imported, byte for byte.

    Raises:
        ProjectError: There is no such conversation.
    """
    row = conn.execute(
        "SELECT raw FROM original WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise ProjectError(f"There is no conversation {conversation_id}.")
    return bytes(row[0])


def leaks(conn: sqlite3.Connection, conversation_id: int) -> list[Leak]:
    """Returns what the leak guard kept from the model in one conversation."""
    return [
        Leak(*row)
        for row in conn.execute(
            "SELECT message, rule, found FROM leak WHERE conversation_id = ? ORDER BY id",
            (conversation_id,),
        )
    ]


def _column(conn: sqlite3.Connection, column: str, ids: Sequence[int]) -> dict[int, Any]:
    """Returns the value that each of these conversations has in a column, by id; ids that do not exist are left out."""
    return dict(sql.rows_in(conn, f"SELECT id, {column} FROM conversation WHERE id IN", ids))


# Finding conversations


def by_name(conn: sqlite3.Connection, external_id: str, source: str | None = None) -> list[int]:
    """Returns the ids of the conversations that have this id in a source with this label, or for None in any source."""
    rows = conn.execute(
        "SELECT c.id FROM conversation AS c JOIN source ON source.id = c.source_id"
        " WHERE external_id = ?1 AND (?2 IS NULL OR source.label = ?2)"
        " UNION SELECT a.conversation_id FROM alias AS a JOIN source ON source.id = a.source_id"
        " WHERE external_id = ?1 AND (?2 IS NULL OR source.label = ?2)",
        (without_surrogates(external_id), source and without_surrogates(source)),
    )
    return [row[0] for row in rows]


def with_external_ids(
    conn: sqlite3.Connection, ids: array[int], names: Collection[str]
) -> array[int]:
    """Returns those of the ids, in their order, whose conversations have one of these names as the id in their
    source."""
    rows = conn.execute("SELECT id, external_id FROM conversation")
    ids_with_name = {key for key, name in rows if name in names}
    return array("q", (key for key in ids if key in ids_with_name))


def text_keys(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """Returns for each conversation the key of the text of its messages: sixteen letters, made of its hash, that no
    other text will have by chance.

    They are letters only, so that nothing takes them for a phone number.
    """
    hashes = _column(conn, "hash", ids)
    return {key: digest.hex()[:16].translate(_LETTERS) for key, digest in hashes.items()}


def by_text_key(conn: sqlite3.Connection, key: str) -> int | None:
    """Returns the id of the conversation for whose text a key of `text_keys` stands; None if no conversation has that
    text."""
    digits = key.translate(_DIGITS)
    if len(digits) != 16 or set(digits) - set("0123456789abcdef"):
        return None
    row = conn.execute(
        "SELECT id FROM conversation WHERE hash >= ? AND hash < ?",
        (bytes.fromhex(digits), bytes.fromhex(digits) + b"\xff" * 32),
    ).fetchone()
    return None if row is None else row[0]


# Exports


def export_conversations(
    conn: sqlite3.Connection, ids: Sequence[int] | None = None
) -> Iterator[tuple[int, str, Conversation]]:
    """Yields (id, label of the source, conversation with metadata and truth) for these ids in their order; None takes
    all conversations."""
    with sql.snapshot(conn):
        for page in sql.id_pages(conn, ids, _EXPORTED_AT_ONCE):
            rows = sql.rows_in(
                conn,
                "SELECT c.id, source.label, c.external_id, c.meta, truth.truth, c.created_at"
                " FROM conversation AS c JOIN source ON source.id = c.source_id"
                " LEFT JOIN truth ON truth.conversation_id = c.id WHERE c.id IN",
                page,
            )
            row_by_id = {row[0]: row for row in rows}
            messages = dict(conversations_for(conn, page))
            for conversation_id in page:
                if conversation_id not in row_by_id:
                    continue
                _, label, external_id, meta, truth, created_at = row_by_id[conversation_id]
                conversation = Conversation(
                    external_id=external_id,
                    messages=messages.get(conversation_id, ()),
                    meta=json.loads(meta),
                    truth=None if truth is None else json.loads(truth),
                    created_at=created_at,
                )
                yield conversation_id, label, conversation


def imported(conn: sqlite3.Connection, ids: Sequence[int]) -> Iterator[Imported]:
    """Yields where each of these conversations was imported from, with its duplicates, in the order of `ids`; ids that
    do not exist are left out."""
    for keys in sql.chunks(ids):
        names_and_labels = sql.rows_in(
            conn,
            "SELECT c.id, c.external_id, source.label FROM conversation AS c"
            " JOIN source ON source.id = c.source_id WHERE c.id IN",
            keys,
        )
        origins = {key: (external_id, label) for key, external_id, label in names_and_labels}
        duplicates: dict[int, list[Duplicate]] = {}
        for key, external_id, label in sql.rows_in(
            conn,
            "SELECT a.conversation_id, a.external_id, source.label FROM alias AS a"
            " JOIN source ON source.id = a.source_id WHERE a.conversation_id IN",
            keys,
            order="ORDER BY a.id",
        ):
            duplicates.setdefault(key, []).append(Duplicate(external_id, label))
        for key in keys:
            if key in origins:
                yield Imported(key, *origins[key], tuple(duplicates.get(key, ())))


# Truth


def truth_by_conversation(conn: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (id, truth) of every conversation that has one, in id order."""
    for key, truth in conn.execute(
        "SELECT conversation_id, truth FROM truth ORDER BY conversation_id"
    ):
        yield key, json.loads(truth)


def truth_by_record(conn: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (id, truth) of every record that has a truth, in id order: a conversation that was imported twice has
    two."""
    for key, truth in conn.execute(
        "SELECT conversation_id, truth FROM truth UNION ALL"
        " SELECT conversation_id, truth FROM alias WHERE truth IS NOT NULL ORDER BY 1"
    ):
        yield key, json.loads(truth)
