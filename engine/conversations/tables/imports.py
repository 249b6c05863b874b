"""Writes imported conversations: those that are new, those that grew or changed, and those that repeat stored ones."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.base.conversation import Conversation, Message, content_hash, count_turns
from engine.conversations.records import QuarantineRow
from engine.conversations.shared_text import SharedText
from engine.conversations.tables import earlier_states, facets, shared_text
from engine.conversations.tables.conversations import messages_of
from engine.conversations.tables.earlier_states import verdict_sql
from engine.formats.records import Parsed, Rejected
from engine.project import cjk_index
from engine.project.sql import MESSAGE_BITS, chunks, message_ids, placeholders, to_json


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Counts of one batch.

    Attributes:
        new: Conversations with an id that the source did not have.
        duplicate: Records with the messages of another one.
        unchanged: Records that were stored before.
        grew: Conversations with further messages.
        changed: Records with an id that the source had before, and other messages.
        judged: Conversations that had a verdict on the text that was replaced.
    """

    new: int
    duplicate: int
    unchanged: int
    leaks: int
    grew: int = 0
    changed: int = 0
    judged: int = 0


def add_records(
    conn: sqlite3.Connection,
    source_id: int,
    records: Sequence[Parsed],
    *,
    replace: bool = False,
    beside: Collection[int] = (),
    parts: Collection[int] = (),
    only_forward: bool = False,
) -> BatchCounts:
    """Stores a batch of records of one source.

    A record whose messages are stored already counts as unchanged if it is the same record of the same source, or an
    earlier state of a conversation. Otherwise it is stored as an alias, with its bytes and its truth.

    A record with an id that the source had before has grown if the stored messages are its first ones, the last of them
    perhaps cut short. It replaces them, and they stay as an earlier state. Otherwise it has changed, and becomes a
    conversation beside the stored one.

    Args:
        replace: A record that has changed replaces the stored messages as well, also those of another source, if just
            one conversation has its id.
        beside: Ids of further sources whose conversations are not replaced by those of this one.
        parts: Ids of sources from which the records may have a part, such as the requests of a batch. A conversation
            of theirs from which a record has grown is replaced as one of its own source is.
        only_forward: An earlier text of a conversation never replaces the present one. Otherwise, with `replace`, it
            does: the conversation has changed back.
    """
    hashes = [content_hash(record.conversation.messages) for record in records]
    ids_by_hash = _conversations_by_hash(conn, hashes)
    strangers = [
        record.conversation.external_id
        for record, digest in zip(records, hashes, strict=True)
        if digest not in ids_by_hash
    ]
    named = _ids_in_sources(conn, strangers, None if replace else {source_id, *parts})
    # rows of new conversations are written at the end, and are referred to before
    conn.execute("PRAGMA defer_foreign_keys = ON")
    adder = _RecordAdder(
        conn=conn,
        source_id=source_id,
        replace=replace,
        beside=beside,
        parts=parts,
        only_forward=only_forward,
        ids_by_hash=ids_by_hash,
        named=named,
        next_id=_next_id(conn, "conversation"),
        batch=_Batch(shared_text.stored(conn)),
    )
    for record, digest in zip(records, hashes, strict=True):
        adder.add(record, digest)
    adder.batch.write(conn)
    return adder.counts()


@dataclass(slots=True)
class _RecordAdder:
    """Adds the records of one batch; see `add_records` for what becomes of each, and for the options.

    Attributes:
        ids_by_hash: Ids of conversations, stored ones and those of the batch, by the hash of their messages.
        named: Those external ids of the records that the source had before.
        next_id: Id of the next new conversation.
        batch: The rows to be written.
        records_by_id: The records of the batch by the ids of their conversations.
    """

    conn: sqlite3.Connection
    source_id: int
    replace: bool
    beside: Collection[int]
    parts: Collection[int]
    only_forward: bool
    ids_by_hash: dict[bytes, int]
    named: set[str]
    next_id: int
    batch: _Batch
    records_by_id: dict[int, Parsed] = field(default_factory=dict)
    duplicate: int = 0
    unchanged: int = 0
    grew: int = 0
    changed: int = 0
    judged: int = 0

    def add(self, record: Parsed, digest: bytes) -> None:
        """Adds a record whose messages have this hash."""
        twin = self.ids_by_hash.get(digest)
        if twin is not None:
            self._add_twin(record, twin)
            return
        conversation = record.conversation
        older = None
        if conversation.external_id in self.named:
            back = self.replace and not self.only_forward
            if _is_earlier_state(self.conn, self.source_id, conversation.external_id, digest, back):
                self.unchanged += 1
                return
            beside = self.beside if self.replace else None
            older = _find_earlier_text(self.conn, self.source_id, conversation, beside, self.parts)
        key = self._id_for(older, digest)
        if older is not None:
            self.grew += older.grew
            self.changed += not older.grew
        self.ids_by_hash[digest] = key
        self.records_by_id[key] = record
        self.batch.take(self.source_id, key, digest, record)

    def _add_twin(self, record: Parsed, twin: int) -> None:
        """Adds a record with the messages of the conversation `twin`."""
        same = self.records_by_id.get(twin)  # it has no row yet
        is_same = same is not None and (same.raw, same.conversation.external_id) == (
            record.raw,
            record.conversation.external_id,
        )
        if not is_same and _add_alias(self.conn, self.source_id, twin, record):
            self.duplicate += 1
        else:
            self.unchanged += 1

    def _id_for(self, older: _EarlierText | None, digest: bytes) -> int:
        """Returns the id under which a text with this hash is stored: that of the conversation whose text it replaces,
        which is then cleared, or a new one."""
        if older is not None and (older.grew or self.replace):
            if older.alias_id is None:
                return self._clear_text(older, digest)
            earlier_states.keep_duplicate_as_earlier_state(self.conn, older.alias_id, self.next_id)
        self.next_id += 1
        return self.next_id - 1

    def _clear_text(self, older: _EarlierText, digest: bytes) -> int:
        """Makes room for the text with this hash in the conversation of an earlier text; returns its id."""
        self.judged += _is_judged(self.conn, older.conversation_id)
        self.ids_by_hash.pop(older.digest, None)
        if _replace_text(self.conn, older.conversation_id, digest, self.next_id):
            self.ids_by_hash[older.digest] = self.next_id  # its duplicate has that text now
            self.next_id += 1
        return older.conversation_id

    def counts(self) -> BatchCounts:
        """Returns what became of the records."""
        return BatchCounts(
            new=len(self.batch.conversations) - self.grew - self.changed,
            duplicate=self.duplicate,
            unchanged=self.unchanged,
            grew=self.grew,
            changed=self.changed,
            judged=self.judged,
            leaks=len(self.batch.leaks),
        )


@dataclass(frozen=True, slots=True)
class _EarlierText:
    """A stored text of a record's id in its source: its hash, and the conversation or the duplicate that it is of; the
    record has grown from it, or has changed."""

    conversation_id: int
    alias_id: int | None
    digest: bytes
    grew: bool


def _ids_in_sources(
    conn: sqlite3.Connection, names: Sequence[str], sources: Collection[int] | None
) -> set[str]:
    """Returns those of the ids that one of the sources has; of all sources if None."""
    source_list = None if sources is None else json.dumps(sorted(sources))
    names_there: set[str] = set()
    for chunk in chunks(names):
        for table in ("conversation", "alias"):
            # with the plus the source's index, which holds all of its rows, is not used
            rows = conn.execute(
                f"SELECT external_id FROM {table} WHERE external_id IN ({placeholders(chunk)})"
                " AND (? IS NULL OR +source_id IN (SELECT value FROM json_each(?)))",
                (*chunk, source_list, source_list),
            )
            names_there.update(row[0] for row in rows)
    return names_there


def _is_earlier_state(
    conn: sqlite3.Connection, source_id: int, external_id: str, digest: bytes, back: bool
) -> bool:
    """Returns whether a record is an earlier state of a conversation. If conversations may change back, one that comes
    from the source of the present text is not."""
    row = conn.execute(
        "SELECT 1 FROM earlier_state AS e JOIN conversation AS c ON c.id = e.conversation_id"
        " WHERE e.hash = ?1 AND e.source_id = ?2 AND external_id = ?3"
        " AND NOT (?4 AND c.source_id = ?2)",
        (digest, source_id, external_id, back),
    ).fetchone()
    return row is not None


class _StoredText(NamedTuple):
    """A stored text: its conversation, its duplicate (None for the conversation's own text), hash, length, source."""

    conversation_id: int
    alias_id: int | None
    digest: bytes
    message_count: int
    source_id: int


def _find_earlier_text(
    conn: sqlite3.Connection,
    source_id: int,
    conversation: Conversation,
    beside: Collection[int] | None,
    parts: Collection[int],
) -> _EarlierText | None:
    """Returns the stored text that a record has grown from, in its source or in `parts`; if there is none, the newest
    one of its id in its source, or the only one in other sources but those of `beside`."""
    rows: list[tuple[int, int | None, bytes, int, int]] = conn.execute(
        "SELECT id, NULL, hash, messages, source_id FROM conversation WHERE external_id = ?1"
        " UNION ALL SELECT c.id, a.id, hash, messages, a.source_id FROM alias AS a"
        " JOIN conversation AS c ON c.id = a.conversation_id WHERE a.external_id = ?1",
        (conversation.external_id,),
    ).fetchall()
    texts = [_StoredText(*row) for row in rows]
    own_texts = [text for text in texts if text.source_id == source_id]
    if not own_texts and beside is not None:
        own_texts = [text for text in texts if text.source_id not in beside]
        own_texts = own_texts if len(own_texts) == 1 else []
    candidates = own_texts + [
        text for text in texts if text.source_id in parts and text.source_id != source_id
    ]
    candidates.sort(key=lambda text: (-text.message_count, text.alias_id is not None))
    for text in candidates:
        count = text.message_count
        if count <= len(conversation.messages) and _is_continuation(
            conn, text.conversation_id, conversation.messages[:count]
        ):
            return _EarlierText(text.conversation_id, text.alias_id, text.digest, True)
    if not own_texts:
        return None
    newest = max(own_texts, key=lambda text: (text.alias_id is None, text.conversation_id))
    return _EarlierText(newest.conversation_id, newest.alias_id, newest.digest, False)


def _is_continuation(
    conn: sqlite3.Connection, conversation_id: int, messages: Sequence[Message]
) -> bool:
    """Returns whether a conversation has these messages, as many; its last one may be the beginning of the last of
    these, as in a log that was imported while it was written."""
    stored = messages_of(conn, conversation_id)
    if not stored or content_hash(stored[:-1]) != content_hash(messages[:-1]):
        return False
    old, new = stored[-1], messages[-1]
    return (
        (old.role, old.name) == (new.role, new.name)
        and new.content.startswith(old.content)
        and (new.reasoning or "").startswith(old.reasoning or "")
        and _called(new)[: len(old.tool_calls)] == _called(old)
    )


def _called(message: Message) -> list[tuple[str, str]]:
    """Returns the names and arguments of the calls of a message."""
    return [(call.name, call.arguments) for call in message.tool_calls]


def _is_judged(conn: sqlite3.Connection, conversation_id: int) -> bool:
    """Returns whether a conversation has a verdict."""
    (verdict,) = conn.execute(f"SELECT {verdict_sql('?')}", (conversation_id,)).fetchone()
    return verdict is not None


def _replace_text(
    conn: sqlite3.Connection, conversation_id: int, digest: bytes, free_id: int
) -> bool:
    """Makes room for another text of a conversation, with the hash `digest`; returns whether `free_id` was used.

    Its duplicates do not change with it: those of its own id are earlier states, and the first other one becomes a
    conversation of its own, with the id `free_id` and the others as its duplicates.
    """
    others = []
    for alias_id, is_own in conn.execute(
        "SELECT a.id, a.source_id = c.source_id AND a.external_id = c.external_id FROM alias AS a"
        " JOIN conversation AS c ON c.id = a.conversation_id WHERE c.id = ? ORDER BY a.id",
        (conversation_id,),
    ).fetchall():
        if is_own:
            earlier_states.keep_duplicate_as_earlier_state(conn, alias_id, conversation_id)
        else:
            others.append(alias_id)
    earlier_states.keep_earlier_state(conn, conversation_id)
    if others:
        _split_off_duplicate(conn, conversation_id, others[0], free_id, digest)
    earlier_states.delete_text(conn, conversation_id)
    return bool(others)


def _split_off_duplicate(
    conn: sqlite3.Connection, conversation_id: int, alias_id: int, key: int, digest: bytes
) -> None:
    """Makes a duplicate a conversation with the id `key`; the one it repeated has the hash `digest` from now on."""
    (old,) = conn.execute(
        "SELECT hash FROM conversation WHERE id = ?", (conversation_id,)
    ).fetchone()
    conn.execute("UPDATE conversation SET hash = ? WHERE id = ?", (digest, conversation_id))
    conn.execute(
        "INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars,"
        " created_at, meta, line) SELECT ?, a.source_id, a.external_id, ?, opening, messages, turns,"
        " chars, NULL, '{}', a.line FROM alias AS a JOIN conversation AS c ON c.id = a.conversation_id"
        " WHERE a.id = ?",
        (key, old, alias_id),
    )
    first, last = message_ids(conversation_id)
    columns = (
        "idx, role, name, content, tool_calls, tool_call_id, model_view, hidden, reasoning, facts"
    )
    conn.execute(
        f"INSERT INTO message (id, conversation_id, {columns})"
        f" SELECT id - ? + ?, ?, {columns} FROM message WHERE id BETWEEN ? AND ?",
        (first, message_ids(key)[0], key, first, last),
    )
    texts = conn.execute(
        "SELECT id, content, tool_calls FROM message WHERE id BETWEEN ? AND ?", message_ids(key)
    ).fetchall()
    conn.executemany("INSERT INTO message_fts (rowid, content, tool_calls) VALUES (?, ?, ?)", texts)
    cjk_index.add(conn, texts)
    for statement in (
        "INSERT INTO original (conversation_id, raw) SELECT ?1, raw FROM alias WHERE id = ?2",
        "INSERT INTO truth (conversation_id, truth) SELECT ?1, truth FROM alias"
        " WHERE id = ?2 AND truth IS NOT NULL",
        "INSERT INTO leak (conversation_id, message, rule, found) SELECT ?1, message, rule, found"
        " FROM leak WHERE message IS NOT NULL"
        " AND conversation_id = (SELECT conversation_id FROM alias WHERE id = ?2)",
        "UPDATE alias SET conversation_id = ?1 WHERE id <> ?2"
        " AND conversation_id = (SELECT conversation_id FROM alias WHERE id = ?2)",
    ):
        conn.execute(statement, (key, alias_id))
    conn.execute("DELETE FROM alias WHERE id = ?", (alias_id,))
    facets.add_stored(conn, [key])


class _Batch:
    """The rows of new conversations, collected so that each table is written with one statement."""

    def __init__(self, shared: SharedText) -> None:
        self._shared = shared
        self.conversations: list[tuple[Any, ...]] = []
        self.originals: list[tuple[Any, ...]] = []
        self.messages: list[tuple[Any, ...]] = []
        self.truths: list[tuple[Any, ...]] = []
        self.leaks: list[tuple[Any, ...]] = []
        self.facets: list[tuple[int, set[facets.Facet]]] = []

    def take(self, source_id: int, key: int, digest: bytes, record: Parsed) -> None:
        """Adds a record under the id `key`."""
        conversation = record.conversation
        messages = conversation.messages
        chars = self._take_messages(key, messages)
        self.conversations.append(
            (
                key,
                source_id,
                conversation.external_id,
                digest,
                shared_text.opening(
                    ((spoken.role, spoken.content) for spoken in messages), self._shared
                ),
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
        own_facets = facets.facets_of(conversation.meta, conversation.truth, messages)
        self.facets.append((key, own_facets))

    def _take_messages(self, key: int, messages: Sequence[Message]) -> int:
        """Adds the messages of a conversation; returns the number of their characters, arguments of calls included."""
        first = key << MESSAGE_BITS
        chars = 0
        append = self.messages.append
        for index, message in enumerate(messages):
            chars += len(message.content)
            calls = None
            if message.tool_calls:
                calls = _calls_json(message)
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
        return chars

    def write(self, conn: sqlite3.Connection) -> None:
        """Stores everything; a conversation whose text was cleared gets the new one."""
        if not self.conversations:
            return
        # the index writes a segment for every id that is below the one before
        texts = sorted(
            (row_id, content, calls) for row_id, _, _, _, _, content, calls, *_ in self.messages
        )
        conn.executemany(
            "INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns,"
            " chars, created_at, meta, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET source_id = excluded.source_id, hash = excluded.hash,"
            " opening = excluded.opening, messages = excluded.messages, turns = excluded.turns,"
            " chars = excluded.chars, created_at = excluded.created_at, meta = excluded.meta,"
            " line = excluded.line",
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
        conn.executemany(
            "INSERT INTO message_fts (rowid, content, tool_calls) VALUES (?, ?, ?)", texts
        )
        cjk_index.add(conn, texts)
        conn.executemany("INSERT INTO truth (conversation_id, truth) VALUES (?, ?)", self.truths)
        conn.executemany(
            "INSERT INTO leak (conversation_id, message, rule, found) VALUES (?, ?, ?, ?)",
            self.leaks,
        )
        facets.add(conn, self.facets)


def find_by_messages(conn: sqlite3.Connection, messages: Sequence[Message]) -> int | None:
    """Returns the id of the conversation that has exactly these messages; None if there is none."""
    digest = content_hash(messages)
    return _conversations_by_hash(conn, [digest]).get(digest)


def _conversations_by_hash(conn: sqlite3.Connection, hashes: Sequence[bytes]) -> dict[bytes, int]:
    """Returns the ids of the stored conversations with these messages, by the hash of the messages."""
    ids_by_hash: dict[bytes, int] = {}
    for keys in chunks(hashes):
        ids_by_hash.update(
            conn.execute(
                f"SELECT hash, id FROM conversation WHERE hash IN ({placeholders(keys)})", keys
            )
        )
    return ids_by_hash


def _next_id(conn: sqlite3.Connection, table: str) -> int:
    """Returns the id that the next row of a table gets."""
    (next_id,) = conn.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()
    return int(next_id)


def _add_alias(conn: sqlite3.Connection, source_id: int, twin: int, record: Parsed) -> bool:
    """Stores a record as an alias of the conversation `twin` unless it is stored already; returns whether it was
    new."""
    external_id = record.conversation.external_id
    known_row = conn.execute(
        "SELECT 1 FROM conversation JOIN original ON conversation_id = id WHERE id = ?1"
        " AND source_id = ?2 AND external_id = ?3 AND raw = ?4 UNION ALL"
        # a conversation may have any number of equal records, which have different names
        " SELECT 1 FROM alias INDEXED BY alias_by_name"
        " WHERE conversation_id = ?1 AND source_id = ?2 AND external_id = ?3"
        " AND raw = ?4",
        (twin, source_id, external_id, record.raw),
    ).fetchone()
    if known_row:
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


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Returns a value as JSON without needless spaces; made once, because `json.dumps` makes an encoder at each call."""


def _calls_json(message: Message) -> str:
    """Returns the calls of a message as they are stored."""
    return _json([[call.name, call.arguments, call.call_id] for call in message.tool_calls])


def put_source(conn: sqlite3.Connection, place: str, label: str, format: str, why: str) -> int:
    """Returns the id of the source at `place`, recorded if it is new."""
    conn.execute(
        "INSERT INTO source (place, label, format, why) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (place) DO NOTHING",
        (place, label, format, why),
    )
    row = conn.execute("SELECT id FROM source WHERE place = ?", (place,)).fetchone()
    return int(row[0])


def source_ids(conn: sqlite3.Connection, places: Sequence[str]) -> set[int]:
    """Returns the ids of those of the places from which something was imported."""
    source_ids: set[int] = set()
    for chunk in chunks(places):
        rows = conn.execute(f"SELECT id FROM source WHERE place IN ({placeholders(chunk)})", chunk)
        source_ids.update(row[0] for row in rows)
    return source_ids


def report_if_unchanged(conn: sqlite3.Connection, source_id: int, digest: bytes) -> str | None:
    """Returns the report of a source that was read to its end when it had this digest; None if it was not."""
    row = conn.execute(
        "SELECT report FROM source_read WHERE source_id = ? AND digest = ?", (source_id, digest)
    ).fetchone()
    return None if row is None else str(row[0])


def source_reports(conn: sqlite3.Connection) -> list[str]:
    """Returns the reports of all sources that were read to their end, as JSON, in the order of the first imports."""
    return [row[0] for row in conn.execute("SELECT report FROM source_read ORDER BY source_id")]


def put_report(conn: sqlite3.Connection, source_id: int, digest: bytes, report: str) -> None:
    """Records that a source with this digest was read to its end."""
    conn.execute(
        "INSERT OR REPLACE INTO source_read (source_id, digest, report) VALUES (?, ?, ?)",
        (source_id, digest, report),
    )


def source_labels(conn: sqlite3.Connection) -> list[str]:
    """Returns the labels of the sources, in order of import."""
    return list(
        dict.fromkeys(row[0] for row in conn.execute("SELECT label FROM source ORDER BY id"))
    )


def put_rejected(conn: sqlite3.Connection, source_id: int, records: Sequence[Rejected]) -> int:
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


def quarantine_rows(
    conn: sqlite3.Connection, after: int = 0, limit: int = 200
) -> list[QuarantineRow]:
    """Returns the records that could not be imported, in order, from behind the id `after` on."""
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
    """Returns how many records could not be imported, of one source or of all."""
    row = conn.execute(
        "SELECT count(*) FROM quarantine WHERE ? IS NULL"
        " OR source_id IN (SELECT id FROM source WHERE label = ?)",
        (label, label),
    ).fetchone()
    return int(row[0])
