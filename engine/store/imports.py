"""Writes the results of an import: sources, conversations, duplicates, leaks, truth and the quarantine."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.conversation import Message, content_hash, count_turns
from engine.records.conversations import LeakRow, QuarantineRow
from engine.records.imports import Parsed, Rejected
from engine.shared_text import SharedText
from engine.store import cjk_index, shared_text
from engine.store.sql import MESSAGE_BITS, chunks, placeholders, to_json


@dataclass(frozen=True, slots=True)
class Added:
    """Counts of one batch: new records, duplicates of another record, records stored before."""

    new: int
    duplicate: int
    unchanged: int
    leaks: int


def source(conn: sqlite3.Connection, place: str, label: str, format: str, why: str) -> int:
    """The id of the source at `place`, recorded if it is new."""
    conn.execute(
        "INSERT INTO source (place, label, format, why) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (place) DO NOTHING",
        (place, label, format, why),
    )
    row = conn.execute("SELECT id FROM source WHERE place = ?", (place,)).fetchone()
    return int(row[0])


def source_labels(conn: sqlite3.Connection) -> list[str]:
    """Labels of the sources, in order of import."""
    return list(
        dict.fromkeys(row[0] for row in conn.execute("SELECT label FROM source ORDER BY id"))
    )


def add(conn: sqlite3.Connection, source_id: int, records: Sequence[Parsed]) -> Added:
    """Stores a batch of records of one source.

    A record whose messages are stored already counts as unchanged if it is the same record of the same source.
    Otherwise it is stored as an alias, with its bytes and its truth.
    """
    hashes = [content_hash(record.conversation.messages) for record in records]
    known = _known(conn, hashes)
    next_id = _next(conn, "conversation")
    batch = _Batch(shared_text.stored(conn))
    twins: list[tuple[int, Parsed]] = []
    for record, digest in zip(records, hashes, strict=True):
        twin = known.get(digest)
        if twin is not None:
            twins.append((twin, record))
            continue
        known[digest] = next_id
        batch.take(source_id, next_id, digest, record)
        next_id += 1
    batch.write(conn)
    duplicates = sum(_add_alias(conn, source_id, twin, record) for twin, record in twins)
    return Added(
        new=len(batch.conversations),
        duplicate=duplicates,
        unchanged=len(twins) - duplicates,
        leaks=len(batch.leaks),
    )


class _Batch:
    """The rows of new conversations, collected so that each table is written with one statement."""

    def __init__(self, shared: SharedText) -> None:
        self._shared = shared
        self.conversations: list[tuple[Any, ...]] = []
        self.originals: list[tuple[Any, ...]] = []
        self.messages: list[tuple[Any, ...]] = []
        self.truths: list[tuple[Any, ...]] = []
        self.leaks: list[tuple[Any, ...]] = []

    def take(self, source_id: int, key: int, digest: bytes, record: Parsed) -> None:
        """Adds a record under the id `key`."""
        first = key << MESSAGE_BITS
        conversation = record.conversation
        messages = conversation.messages
        chars = 0
        append = self.messages.append
        for index, message in enumerate(messages):
            chars += len(message.content)
            calls = None
            if message.tool_calls:
                calls = _calls(message)
                chars += sum(len(call.arguments) for call in message.tool_calls)
            append(
                (
                    first + index,
                    key,
                    index,
                    message.role,
                    message.name,
                    message.content,
                    calls,
                    message.tool_call_id,
                    message.model_view,
                    message.hidden,
                    message.reasoning,
                    message.facts,
                )
            )
        self.conversations.append(
            (
                key,
                source_id,
                conversation.external_id,
                digest,
                shared_text.opening(((one.role, one.content) for one in messages), self._shared),
                len(messages),
                count_turns(messages),
                chars,
                conversation.created_at,
                to_json(conversation.meta) if conversation.meta else "{}",
                record.line,
            )
        )
        self.originals.append((key, record.raw))
        if conversation.truth is not None:
            self.truths.append((key, to_json(conversation.truth)))
        self.leaks.extend((key, leak.message, leak.rule, leak.found) for leak in record.leaks)

    def write(self, conn: sqlite3.Connection) -> None:
        """Stores everything; the messages are indexed from the table itself."""
        if not self.conversations:
            return
        conn.executemany(
            "INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns,"
            " chars, created_at, meta, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self.conversations,
        )
        conn.executemany(
            "INSERT INTO original (conversation_id, raw) VALUES (?, ?)", self.originals
        )
        conn.executemany(
            "INSERT INTO message (id, conversation_id, idx, role, name, content, tool_calls,"
            " tool_call_id, model_view, hidden, reasoning, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self.messages,
        )
        conn.execute(
            "INSERT INTO message_fts (rowid, content, tool_calls)"
            " SELECT id, content, tool_calls FROM message WHERE id >= ?",
            (self.conversations[0][0] << MESSAGE_BITS,),
        )
        cjk_index.add(conn, ((row[0], row[5], row[6]) for row in self.messages))
        conn.executemany("INSERT INTO truth (conversation_id, truth) VALUES (?, ?)", self.truths)
        conn.executemany(
            "INSERT INTO leak (conversation_id, message, rule, found) VALUES (?, ?, ?, ?)",
            self.leaks,
        )


def quarantine(conn: sqlite3.Connection, source_id: int, records: Sequence[Rejected]) -> int:
    """Stores records that could not be read; returns how many of them are new."""
    before = conn.total_changes
    conn.executemany(
        "INSERT INTO quarantine (digest, source_id, line, reason, raw) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (digest) DO NOTHING",
        [
            (
                hashlib.sha256(f"{source_id}:{record.line}:".encode() + record.raw).digest(),
                source_id,
                record.line,
                record.reason,
                record.raw,
            )
            for record in records
        ],
    )
    return conn.total_changes - before


def quarantined(conn: sqlite3.Connection, after: int = 0, limit: int = 200) -> list[QuarantineRow]:
    """Records that could not be imported, in order, from behind the id `after` on."""
    return [
        QuarantineRow(row[0], row[1], row[2], row[3], bytes(row[4]))
        for row in conn.execute(
            "SELECT quarantine.id, source.label, line, reason, raw FROM quarantine"
            " JOIN source ON source.id = source_id WHERE quarantine.id > ?"
            " ORDER BY quarantine.id LIMIT ?",
            (after, limit),
        )
    ]


def count_quarantined(conn: sqlite3.Connection, label: str | None = None) -> int:
    """How many records could not be imported, of one source or of all."""
    row = conn.execute(
        "SELECT count(*) FROM quarantine WHERE ? IS NULL"
        " OR source_id IN (SELECT id FROM source WHERE label = ?)",
        (label, label),
    ).fetchone()
    return int(row[0])


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


def truths(conn: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """(id, truth) of every conversation that has one, in id order. For validation only."""
    for key, truth in conn.execute(
        "SELECT conversation_id, truth FROM truth ORDER BY conversation_id"
    ):
        yield key, json.loads(truth)


def recorded_truths(conn: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `truths`, but of every record: two that came with the same text and are one conversation count twice."""
    for key, truth in conn.execute(
        "SELECT conversation_id, truth FROM truth UNION ALL"
        " SELECT conversation_id, truth FROM alias WHERE truth IS NOT NULL ORDER BY 1"
    ):
        yield key, json.loads(truth)


def find_by_messages(conn: sqlite3.Connection, messages: Sequence[Message]) -> int | None:
    """Id of the conversation that has exactly these messages, or None."""
    digest = content_hash(messages)
    return _known(conn, [digest]).get(digest)


def duplicates(conn: sqlite3.Connection) -> Iterator[tuple[int, str, dict[str, Any] | None]]:
    """(conversation id, external id, truth) of every record that repeats a stored one, in order of import."""
    for key, external_id, truth in conn.execute(
        "SELECT conversation_id, external_id, truth FROM alias ORDER BY id"
    ):
        yield key, external_id, None if truth is None else json.loads(truth)


def _known(conn: sqlite3.Connection, hashes: Sequence[bytes]) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for keys in chunks(hashes):
        found.update(
            conn.execute(
                f"SELECT hash, id FROM conversation WHERE hash IN ({placeholders(keys)})", keys
            )
        )
    return found


def _next(conn: sqlite3.Connection, table: str) -> int:
    row = conn.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()
    return int(row[0])


def _add_alias(conn: sqlite3.Connection, source_id: int, twin: int, record: Parsed) -> bool:
    """Stores a record as an alias of the conversation `twin` unless it is stored already; returns whether it was
    new."""
    external_id = record.conversation.external_id
    there = conn.execute(
        "SELECT 1 FROM conversation JOIN original ON conversation_id = id WHERE id = ?1"
        " AND source_id = ?2 AND external_id = ?3 AND raw = ?4 UNION ALL"
        " SELECT 1 FROM alias WHERE conversation_id = ?1 AND source_id = ?2 AND external_id = ?3"
        " AND raw = ?4",
        (twin, source_id, external_id, record.raw),
    ).fetchone()
    if there:
        return False
    truth = record.conversation.truth
    conn.execute(
        "INSERT INTO alias (conversation_id, source_id, external_id, line, raw, truth)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            twin,
            source_id,
            external_id,
            record.line,
            record.raw,
            None if truth is None else to_json(truth),
        ),
    )
    return True


def _calls(message: Message) -> str:
    return json.dumps(
        [[call.name, call.arguments, call.call_id] for call in message.tool_calls],
        ensure_ascii=False,
        separators=(",", ":"),
    )
