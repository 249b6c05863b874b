"""Reads conversations with their messages, originals and leaks."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Collection, Iterator, Sequence

from engine.base.conversation import Conversation, Message, opens_turn, without_surrogates
from engine.base.errors import ProjectError
from engine.conversations.records import LeakRow, MessageRow
from engine.conversations.tables.messages import COLUMNS, message_of, messages_of
from engine.project.sql import chunks, id_pages, message_ids, placeholders, snapshot

_EXPORTED_AT_ONCE = 200


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


_DIGITS = str.maketrans("ghijklmnop", "0123456789")


def with_external_ids(
    conn: sqlite3.Connection, wanted: array[int], names: Collection[str]
) -> array[int]:
    """Those of the ids, in their order, whose conversations have one of these ids in their source."""
    found = {
        key
        for key, name in conn.execute("SELECT id, external_id FROM conversation")
        if name in names
    }
    return array("q", (key for key in wanted if key in found))


def chars(conn: sqlite3.Connection, wanted: Sequence[int]) -> array[int]:
    """Characters of these conversations, in the order asked; ids that do not exist are left out."""
    found: dict[int, int] = {}
    for keys in chunks(wanted):
        query = f"SELECT id, chars FROM conversation WHERE id IN ({placeholders(keys)})"
        found.update(conn.execute(query, (*keys,)).fetchall())
    return array("q", (found[key] for key in wanted if key in found))


def dates(conn: sqlite3.Connection) -> tuple[str, str] | None:
    """When the first and the last conversation took place; None where no date is known."""
    first, last = conn.execute(
        "SELECT (SELECT min(created_at) FROM conversation), (SELECT max(created_at) FROM conversation)"
    ).fetchone()
    return None if first is None else (first, last)


def messages(conn: sqlite3.Connection, conversation_id: int) -> list[MessageRow]:
    """All messages of one conversation in order."""
    result: list[MessageRow] = []
    turn = 0
    for row in conn.execute(
        f"SELECT {COLUMNS} FROM message WHERE id BETWEEN ? AND ? ORDER BY id",
        message_ids(conversation_id),
    ):
        message = message_of(row)
        if not result or opens_turn(message.role):
            turn += 1
        result.append(
            MessageRow(
                index=row[1],
                turn=turn,
                role=message.role,
                name=message.name,
                content=message.content,
                tool_calls=message.tool_calls,
                tool_call_id=message.tool_call_id,
                model_view=message.model_view,
                hidden=message.hidden,
                reasoning=message.reasoning,
                facts=message.facts,
            )
        )
    return result


def conversations_for(
    conn: sqlite3.Connection, wanted: Sequence[int]
) -> list[tuple[int, tuple[Message, ...]]]:
    """The messages of many conversations, in id order; ids that do not exist are left out."""
    found = ((key, messages_of(conn, key)) for key in sorted(set(wanted)))
    return [(key, texts) for key, texts in found if texts]


def original(conn: sqlite3.Connection, conversation_id: int) -> bytes:
    """The record as imported, byte for byte.

    Raises:
        ProjectError: There is no such conversation.
    """
    row = conn.execute(
        "SELECT raw FROM original WHERE conversation_id = ?", (conversation_id,)
    ).fetchone()
    if row is None:
        raise ProjectError(f"There is no conversation {conversation_id}.")
    return bytes(row[0])


def text_keys(conn: sqlite3.Connection, ids: Sequence[int]) -> dict[int, str]:
    """For each conversation sixteen letters that stand for the text of its messages: no other has the same ones.

    They are letters only, so that nothing takes them for a phone number.
    """
    return {
        row[0]: row[1].hex()[:16].translate(_LETTERS)
        for row in conn.execute(
            f"SELECT id, hash FROM conversation WHERE id IN ({placeholders(ids)})", tuple(ids)
        )
    }


def by_text_key(conn: sqlite3.Connection, key: str) -> int | None:
    """The conversation whose text a key of `text_keys` stands for; None if there is none (now)."""
    digits = key.translate(_DIGITS)
    if len(digits) != 16 or set(digits) - set("0123456789abcdef"):
        return None
    row = conn.execute(
        "SELECT id FROM conversation WHERE hash >= ? AND hash < ?",
        (bytes.fromhex(digits), bytes.fromhex(digits) + b"\xff" * 32),
    ).fetchone()
    return None if row is None else row[0]


def by_name(conn: sqlite3.Connection, external_id: str, source: str | None = None) -> list[int]:
    """The conversations that were imported with this id, of a source with this label or of any."""
    rows = conn.execute(
        "SELECT c.id FROM conversation AS c JOIN source ON source.id = c.source_id"
        " WHERE external_id = ?1 AND (?2 IS NULL OR source.label = ?2)"
        " UNION SELECT a.conversation_id FROM alias AS a JOIN source ON source.id = a.source_id"
        " WHERE external_id = ?1 AND (?2 IS NULL OR source.label = ?2)",
        (without_surrogates(external_id), source and without_surrogates(source)),
    )
    return [row[0] for row in rows]


def leaks(conn: sqlite3.Connection, conversation_id: int) -> list[LeakRow]:
    """What the leak guard kept from the model in one conversation."""
    return [
        LeakRow(*row)
        for row in conn.execute(
            "SELECT conversation_id, message, rule, found FROM leak WHERE conversation_id = ?"
            " ORDER BY id",
            (conversation_id,),
        )
    ]


def export_conversations(
    conn: sqlite3.Connection, wanted: Sequence[int] | None = None
) -> Iterator[tuple[int, str, Conversation]]:
    """Yields (id, source, conversation with meta and truth) for the ids `wanted` in their order; None takes all."""
    with snapshot(conn):
        for page in id_pages(conn, wanted, _EXPORTED_AT_ONCE):
            heads = {
                row[0]: row
                for row in conn.execute(
                    "SELECT c.id, source.label, c.external_id, c.meta, truth.truth, c.created_at"
                    " FROM conversation AS c JOIN source ON source.id = c.source_id"
                    " LEFT JOIN truth ON truth.conversation_id = c.id"
                    f" WHERE c.id IN ({placeholders(page)})",
                    tuple(page),
                )
            }
            texts = dict(conversations_for(conn, page))
            for key, label, external_id, meta, truth, created_at in (
                heads[wanted_id] for wanted_id in page if wanted_id in heads
            ):
                yield (
                    key,
                    label,
                    Conversation(
                        external_id=external_id,
                        messages=texts.get(key, ()),
                        meta=json.loads(meta),
                        truth=None if truth is None else json.loads(truth),
                        created_at=created_at,
                    ),
                )
