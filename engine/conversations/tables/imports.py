"""Stores imported records as conversations.

A record is *new*, or it is one of these. *Unchanged*: the same record is stored already. *Duplicate*: its messages are
those of a stored conversation; it is stored as an alias of it. *Grew*: its source has had its id before, with the first
messages of the record. *Changed*: its source has had its id before, with other messages. A text that is replaced is
kept as an *earlier state* (`earlier_states`).

Where a source has the conversation `7` with the messages A and B, a record `7` with A and B is unchanged, `8` with A
and B a duplicate, `7` with A, B and C grew, and `7` with A and X changed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from engine.base.conversation import Conversation, Message, content_hash, count_turns
from engine.conversations.shared_text import SharedText
from engine.conversations.tables import earlier_states, facets, shared_text
from engine.conversations.tables.conversations import COLUMNS, messages_of
from engine.conversations.tables.earlier_states import verdict_sql
from engine.formats.records import Parsed
from engine.project import cjk_index
from engine.project.sql import MESSAGE_BITS, message_ids, rows_in, to_json

# What becomes of records


@dataclass(slots=True)
class ImportCounts:
    """What became of the records of an import; the docstring of the module explains the first five words.

    Attributes:
        new: Number of new conversations.
        grew: Number of conversations that came with further messages.
        changed: Number of records with an id that their source had before, and other messages.
        duplicate: Number of records with the messages of another one.
        unchanged: Number of records that were stored before.
        quarantined: Number of records that could not be read, including those that were in the quarantine already.
        judged: Number of conversations that had a verdict on the text that was replaced.
        leaks: Number of marks of the end that are hidden from the model.
    """

    new: int = 0
    grew: int = 0
    changed: int = 0
    duplicate: int = 0
    unchanged: int = 0
    quarantined: int = 0
    judged: int = 0
    leaks: int = 0

    @property
    def read(self) -> int:
        """Number of records that were read."""
        stored = self.new + self.grew + self.changed
        return stored + self.duplicate + self.unchanged + self.quarantined

    def add(self, other: ImportCounts) -> None:
        """Adds the counts of further records."""
        for counter in fields(self):
            name = counter.name
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class ImportRules:
    """What a record replaces whose id was stored before, with other messages.

    Attributes:
        replace: Whether a record that has changed replaces the stored messages, also those of another source if just
            one conversation has its id; otherwise it becomes a conversation beside the stored one.
        read_sources: Ids of the sources that the import has read, whose conversations it does not replace by those of
            another source.
        part_sources: Ids of sources from which the records may have a part, such as the requests of a batch. A
            conversation of theirs from which a record has grown is replaced as one of its own source is.
        only_forward: Whether an earlier text of a conversation never replaces the present one. Otherwise, with
            `replace`, it does: the conversation has changed back.
    """

    replace: bool = False
    read_sources: Collection[int] = ()
    part_sources: Collection[int] = ()
    only_forward: bool = False


KEEP_CHANGED = ImportRules()
"""Keeps conversations that have changed beside the stored ones."""


# Adding the records of a batch


def add_records(
    conn: sqlite3.Connection,
    source_id: int,
    records: Sequence[Parsed],
    rules: ImportRules = KEEP_CHANGED,
) -> ImportCounts:
    """Stores a batch of records of one source, in which no two have the same id; returns what became of them.

    A record whose messages are stored already counts as unchanged if it is the same record of the same source, or an
    earlier state of a conversation. Otherwise it is stored as an alias, with its bytes and its truth.

    A record with an id that the source had before has grown if the stored messages are its first ones, the last of them
    perhaps cut short. It replaces them, and they stay as an earlier state. Otherwise it has changed.
    """
    hashes = [content_hash(record.conversation.messages) for record in records]
    ids_by_hash = _conversations_by_hash(conn, hashes)
    names_of_other_texts = [
        record.conversation.external_id
        for record, digest in zip(records, hashes, strict=True)
        if digest not in ids_by_hash
    ]
    sources = None if rules.replace else {source_id, *rules.part_sources}
    # rows of new conversations are written at the end, and are referred to before
    conn.execute("PRAGMA defer_foreign_keys = ON")
    (next_id,) = conn.execute("SELECT coalesce(max(id), 0) + 1 FROM conversation").fetchone()
    adder = _RecordAdder(
        conn=conn,
        source_id=source_id,
        rules=rules,
        ids_by_hash=ids_by_hash,
        known_names=_names_in_sources(conn, names_of_other_texts, sources),
        next_id=next_id,
        rows=_NewRows(shared_text.stored(conn)),
    )
    for record, digest in zip(records, hashes, strict=True):
        adder.add(record, digest)
    adder.rows.write(conn)
    return adder.counts


class _StoredText(NamedTuple):
    """A stored text.

    Attributes:
        conversation_id: Id of its conversation.
        alias_id: Id of the duplicate that it is the text of; None for the text of the conversation itself.
        digest: Hash of its messages.
        message_count: Number of its messages.
        source_id: Id of its source.
    """

    conversation_id: int
    alias_id: int | None
    digest: bytes
    message_count: int
    source_id: int


class _EarlierText(NamedTuple):
    """A stored text with the id of a record, and whether the record has grown from it; otherwise it has changed."""

    text: _StoredText
    has_grown: bool


@dataclass(slots=True)
class _RecordAdder:
    """Adds the records of one batch.

    Attributes:
        conn: The connection that writes.
        source_id: Id of the source of all records.
        rules: What records replace.
        ids_by_hash: Ids of conversations, stored ones and those of the batch, by the hash of their messages.
        known_names: External ids of records of the batch that a source had before: this one or one of
            `rules.part_sources`; with `rules.replace` any source.
        next_id: Id of the next new conversation.
        rows: The rows to write.
        records_by_id: The records of the batch by the ids of their conversations.
        counts: What became of the records so far.
    """

    conn: sqlite3.Connection
    source_id: int
    rules: ImportRules
    ids_by_hash: dict[bytes, int]
    known_names: set[str]
    next_id: int
    rows: _NewRows
    records_by_id: dict[int, Parsed] = field(default_factory=dict)
    counts: ImportCounts = field(default_factory=ImportCounts)

    def add(self, record: Parsed, digest: bytes) -> None:
        """Adds a record whose messages have the hash `digest`."""
        stored_id = self.ids_by_hash.get(digest)
        if stored_id is not None:
            self._add_repeated(record, stored_id)
            return
        conversation = record.conversation
        earlier = None
        if conversation.external_id in self.known_names:
            if self._is_earlier_state(conversation.external_id, digest):
                self.counts.unchanged += 1
                return
            earlier = self._find_earlier_text(conversation)
        conversation_id = self._make_room(earlier, digest)
        self.counts.new += earlier is None
        self.counts.grew += earlier is not None and earlier.has_grown
        self.counts.changed += earlier is not None and not earlier.has_grown
        self.counts.leaks += len(record.leaks)
        self.ids_by_hash[digest] = conversation_id
        self.records_by_id[conversation_id] = record
        self.rows.add(self.source_id, conversation_id, digest, record)

    def _add_repeated(self, record: Parsed, conversation_id: int) -> None:
        """Adds a record with the messages of a conversation, as an alias unless it is stored already."""
        first = self.records_by_id.get(conversation_id)  # one of this batch has no row yet
        is_same_record = (
            first is not None
            and first.raw == record.raw
            and first.conversation.external_id == record.conversation.external_id
        )
        if not is_same_record and _add_alias(self.conn, self.source_id, conversation_id, record):
            self.counts.duplicate += 1
        elif (
            self.rules.replace
            and first is None
            and _renew_fields(self.conn, self.source_id, conversation_id, record)
        ):
            self.counts.changed += 1
        else:
            self.counts.unchanged += 1

    def _is_earlier_state(self, external_id: str, digest: bytes) -> bool:
        """Returns whether a text is an earlier state of the conversation of its id, and does not replace the present
        one as a change back."""
        changes_back = self.rules.replace and not self.rules.only_forward
        row = self.conn.execute(
            "SELECT 1 FROM earlier_state AS e JOIN conversation AS c ON c.id = e.conversation_id"
            " WHERE e.hash = ?1 AND e.source_id = ?2 AND external_id = ?3"
            " AND NOT (?4 AND c.source_id = ?2)",
            (digest, self.source_id, external_id, changes_back),
        ).fetchone()
        return row is not None

    def _find_earlier_text(self, conversation: Conversation) -> _EarlierText | None:
        """Returns the text that a record has grown from, or else the text of its id that it is a change of.

        The latter is the newest text of its id in its source. Where the source has none, and with `replace`, it is the
        only text of its id in the sources that the import has not read. None where there is no such text either.
        """
        texts = _texts_of(self.conn, conversation.external_id)
        replaceable = [text for text in texts if text.source_id == self.source_id]
        if not replaceable and self.rules.replace:
            replaceable = [text for text in texts if text.source_id not in self.rules.read_sources]
            replaceable = replaceable if len(replaceable) == 1 else []
        texts_of_parts = [
            text
            for text in texts
            if text.source_id in self.rules.part_sources and text.source_id != self.source_id
        ]
        # the longest first: a record has grown from as much as possible; of equal ones a conversation before duplicates
        candidates = sorted(
            replaceable + texts_of_parts,
            key=lambda text: (-text.message_count, text.alias_id is not None),
        )
        for text in candidates:
            beginning = conversation.messages[: text.message_count]
            if len(beginning) == text.message_count and _is_continuation(
                self.conn, text.conversation_id, beginning
            ):
                return _EarlierText(text, has_grown=True)
        if not replaceable:
            return None
        newest = max(replaceable, key=lambda text: (text.alias_id is None, text.conversation_id))
        return _EarlierText(newest, has_grown=False)

    def _make_room(self, earlier: _EarlierText | None, digest: bytes) -> int:
        """Returns the id under which a text with the hash `digest` is stored: a new one, or that of the conversation
        whose text it replaces, which is deleted."""
        if earlier is not None and (earlier.has_grown or self.rules.replace):
            if earlier.text.alias_id is None:
                self._delete_text(earlier.text, digest)
                return earlier.text.conversation_id
            earlier_states.keep_duplicate_as_earlier_state(
                self.conn, earlier.text.alias_id, self.next_id
            )
        return self._take_next_id()

    def _delete_text(self, text: _StoredText, digest: bytes) -> None:
        """Deletes the text of a conversation, which gets another one with the hash `digest`.

        It stays as an earlier state, and so do its duplicates with the id of the conversation. The first other
        duplicate becomes a conversation of its own, whose duplicates are the others.
        """
        conversation_id = text.conversation_id
        self.counts.judged += _is_judged(self.conn, conversation_id)
        self.ids_by_hash.pop(text.digest, None)
        duplicates = []
        for alias_id, has_same_id in self.conn.execute(
            "SELECT a.id, a.source_id = c.source_id AND a.external_id = c.external_id FROM alias AS a"
            " JOIN conversation AS c ON c.id = a.conversation_id WHERE c.id = ? ORDER BY a.id",
            (conversation_id,),
        ).fetchall():
            if has_same_id:
                earlier_states.keep_duplicate_as_earlier_state(self.conn, alias_id, conversation_id)
            else:
                duplicates.append(alias_id)
        earlier_states.keep_earlier_state(self.conn, conversation_id)
        if duplicates:
            self.conn.execute(
                "UPDATE conversation SET hash = ? WHERE id = ?", (digest, conversation_id)
            )
            self.ids_by_hash[text.digest] = self._take_next_id()
            _split_off_duplicate(self.conn, text, duplicates[0], self.ids_by_hash[text.digest])
        earlier_states.delete_text(self.conn, conversation_id)

    def _take_next_id(self) -> int:
        """Returns the id of a new conversation, another one at each call."""
        self.next_id += 1
        return self.next_id - 1


# Finding stored texts


def find_by_messages(conn: sqlite3.Connection, messages: Sequence[Message]) -> int | None:
    """Returns the id of the conversation that has exactly these messages; None if there is none."""
    digest = content_hash(messages)
    return _conversations_by_hash(conn, [digest]).get(digest)


def _conversations_by_hash(conn: sqlite3.Connection, hashes: Sequence[bytes]) -> dict[bytes, int]:
    """Returns the ids of the stored conversations with these messages, by the hash of the messages."""
    return dict(rows_in(conn, "SELECT hash, id FROM conversation WHERE hash IN", hashes))


def _names_in_sources(
    conn: sqlite3.Connection, names: Sequence[str], sources: Collection[int] | None
) -> set[str]:
    """Returns those of the external ids that one of these sources has; for None, that any source has."""
    source_list = None if sources is None else json.dumps(sorted(sources))
    known_names: set[str] = set()
    for table in ("conversation", "alias"):
        # with the plus the source's index, which holds all of its rows, is not used
        query = (
            f"SELECT external_id FROM {table} WHERE (? IS NULL OR +source_id IN"
            " (SELECT value FROM json_each(?))) AND external_id IN"
        )
        rows = rows_in(conn, query, names, (source_list, source_list))
        known_names.update(row[0] for row in rows)
    return known_names


def _texts_of(conn: sqlite3.Connection, external_id: str) -> list[_StoredText]:
    """Returns the texts that any source has under an id."""
    rows: list[tuple[int, int | None, bytes, int, int]] = conn.execute(
        "SELECT id, NULL, hash, messages, source_id FROM conversation WHERE external_id = ?1"
        " UNION ALL SELECT c.id, a.id, hash, messages, a.source_id FROM alias AS a"
        " JOIN conversation AS c ON c.id = a.conversation_id WHERE a.external_id = ?1",
        (external_id,),
    ).fetchall()
    return [_StoredText(*row) for row in rows]


def _is_continuation(
    conn: sqlite3.Connection, conversation_id: int, messages: Sequence[Message]
) -> bool:
    """Returns whether a conversation has these messages, which are as many as its own.

    The last message of the conversation may be the beginning of the last of these, as in a log that was imported while
    it was written.
    """
    stored = messages_of(conn, conversation_id)
    if not stored or content_hash(stored[:-1]) != content_hash(messages[:-1]):
        return False
    old, new = stored[-1], messages[-1]
    return (
        (old.role, old.name) == (new.role, new.name)
        and new.content.startswith(old.content)
        and (new.reasoning or "").startswith(old.reasoning or "")
        and _names_and_arguments(new)[: len(old.tool_calls)] == _names_and_arguments(old)
    )


def _names_and_arguments(message: Message) -> list[tuple[str, str]]:
    """Returns the names and arguments of the calls of a message."""
    return [(call.name, call.arguments) for call in message.tool_calls]


def _is_judged(conn: sqlite3.Connection, conversation_id: int) -> bool:
    """Returns whether a conversation has a verdict."""
    (verdict,) = conn.execute(f"SELECT {verdict_sql('?')}", (conversation_id,)).fetchone()
    return verdict is not None


# Duplicates


def _add_alias(
    conn: sqlite3.Connection, source_id: int, conversation_id: int, record: Parsed
) -> bool:
    """Stores a record as an alias of a conversation unless it is stored already; returns whether it was not."""
    external_id = record.conversation.external_id
    stored_row = conn.execute(
        "SELECT 1 FROM conversation JOIN original ON conversation_id = id WHERE id = ?1"
        " AND source_id = ?2 AND external_id = ?3 AND raw = ?4 UNION ALL"
        # a conversation may have any number of equal records, which have different names
        " SELECT 1 FROM alias INDEXED BY alias_by_name"
        " WHERE conversation_id = ?1 AND source_id = ?2 AND external_id = ?3"
        " AND raw = ?4",
        (conversation_id, source_id, external_id, record.raw),
    ).fetchone()
    if stored_row:
        return False
    truth = record.conversation.truth
    conn.execute(
        "INSERT INTO alias (conversation_id, source_id, external_id, line, raw, truth)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            conversation_id,
            source_id,
            external_id,
            record.line,
            record.raw,
            None if truth is None else to_json(truth),
        ),
    )
    return True


def _renew_fields(
    conn: sqlite3.Connection, source_id: int, conversation_id: int, record: Parsed
) -> bool:
    """Stores the metadata, the time and the truth of a record that is stored already, as another mapping reads them;
    returns whether they are others than before."""
    conversation = record.conversation
    meta = to_json(conversation.meta) if conversation.meta else "{}"
    truth = None if conversation.truth is None else to_json(conversation.truth)
    stored_row = conn.execute(
        "SELECT meta, created_at, truth FROM conversation AS c"
        " JOIN original AS o ON o.conversation_id = c.id"
        " LEFT JOIN truth AS t ON t.conversation_id = c.id"
        " WHERE c.id = ? AND source_id = ? AND external_id = ? AND raw = ?",
        (conversation_id, source_id, conversation.external_id, record.raw),
    ).fetchone()
    if stored_row is None or stored_row == (meta, conversation.created_at, truth):
        return False
    facets.remove(conn, conversation_id)
    conn.execute(
        "UPDATE conversation SET meta = ?, created_at = ? WHERE id = ?",
        (meta, conversation.created_at, conversation_id),
    )
    conn.execute("DELETE FROM truth WHERE conversation_id = ?", (conversation_id,))
    if truth is not None:
        conn.execute(
            "INSERT INTO truth (conversation_id, truth) VALUES (?, ?)", (conversation_id, truth)
        )
    facets.add_stored(conn, conversation_id)
    return True


def _split_off_duplicate(
    conn: sqlite3.Connection, text: _StoredText, alias_id: int, new_id: int
) -> None:
    """Makes a duplicate of a text a conversation with the id `new_id`, and the other duplicates those of this one."""
    conn.execute(
        "INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns, chars,"
        " created_at, meta, line) SELECT ?, a.source_id, a.external_id, ?, opening, messages, turns,"
        " chars, NULL, '{}', a.line FROM alias AS a JOIN conversation AS c ON c.id = a.conversation_id"
        " WHERE a.id = ?",
        (new_id, text.digest, alias_id),
    )
    first, last = message_ids(text.conversation_id)
    own_columns = COLUMNS.removeprefix("conversation_id, ")
    conn.execute(
        f"INSERT INTO message (id, {COLUMNS})"
        f" SELECT id - ? + ?, ?, {own_columns} FROM message WHERE id BETWEEN ? AND ?",
        (first, message_ids(new_id)[0], new_id, first, last),
    )
    texts = conn.execute(
        "SELECT id, content, tool_calls FROM message WHERE id BETWEEN ? AND ?", message_ids(new_id)
    ).fetchall()
    _index_texts(conn, texts)
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
        conn.execute(statement, (new_id, alias_id))
    conn.execute("DELETE FROM alias WHERE id = ?", (alias_id,))
    facets.add_stored(conn, new_id)


# Writing new conversations


class _NewRows:
    """The rows of new conversations, collected so that each table is written with one statement."""

    def __init__(self, shared: SharedText) -> None:
        """Has no rows yet; `shared` is the text that openings leave out."""
        self._shared = shared
        self._conversations: list[tuple[Any, ...]] = []
        self._originals: list[tuple[Any, ...]] = []
        self._messages: list[tuple[Any, ...]] = []
        self._truths: list[tuple[Any, ...]] = []
        self._leaks: list[tuple[Any, ...]] = []
        self._facets: list[tuple[int, set[facets.Facet]]] = []

    def add(self, source_id: int, conversation_id: int, digest: bytes, record: Parsed) -> None:
        """Adds a record, whose messages have the hash `digest`, as a conversation."""
        conversation = record.conversation
        messages = conversation.messages
        chars = self._add_messages(conversation_id, messages)
        self._conversations.append(
            (
                conversation_id,
                source_id,
                conversation.external_id,
                digest,
                shared_text.opening(
                    ((message.role, message.content) for message in messages), self._shared
                ),
                len(messages),
                count_turns(messages),
                chars,
                conversation.created_at,
                to_json(conversation.meta) if conversation.meta else "{}",
                record.line,
            )
        )
        self._originals.append((conversation_id, record.raw))
        if conversation.truth is not None:
            self._truths.append((conversation_id, to_json(conversation.truth)))
        self._leaks.extend(
            (conversation_id, leak.message, leak.rule, leak.found) for leak in record.leaks
        )
        own_facets = facets.facets_of(conversation.meta, conversation.truth, messages)
        self._facets.append((conversation_id, own_facets))

    def _add_messages(self, conversation_id: int, messages: Sequence[Message]) -> int:
        """Adds the messages of a conversation; returns the number of their characters, arguments of calls included.

        Calls are stored as a JSON list of (name, arguments, id).
        """
        first = conversation_id << MESSAGE_BITS
        chars = 0
        for index, message in enumerate(messages):
            chars += len(message.content)
            calls = None
            if message.tool_calls:
                calls = _encode(
                    [[call.name, call.arguments, call.call_id] for call in message.tool_calls]
                )
                chars += sum(len(call.arguments) for call in message.tool_calls)
            self._messages.append(
                (
                    first + index,
                    conversation_id,
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
        if not self._conversations:
            return
        # the index writes a segment for every id that is below the one before
        texts = sorted(
            (row_id, content, calls) for row_id, _, _, _, _, content, calls, *_ in self._messages
        )
        conn.executemany(
            "INSERT INTO conversation (id, source_id, external_id, hash, opening, messages, turns,"
            " chars, created_at, meta, line) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET source_id = excluded.source_id, hash = excluded.hash,"
            " opening = excluded.opening, messages = excluded.messages, turns = excluded.turns,"
            " chars = excluded.chars, created_at = excluded.created_at, meta = excluded.meta,"
            " line = excluded.line",
            self._conversations,
        )
        conn.executemany(
            "INSERT INTO original (conversation_id, raw) VALUES (?, ?)", self._originals
        )
        conn.executemany(
            f"INSERT INTO message (id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._messages,
        )
        _index_texts(conn, texts)
        conn.executemany("INSERT INTO truth (conversation_id, truth) VALUES (?, ?)", self._truths)
        conn.executemany(
            "INSERT INTO leak (conversation_id, message, rule, found) VALUES (?, ?, ?, ?)",
            self._leaks,
        )
        facets.add(conn, self._facets)


def _index_texts(conn: sqlite3.Connection, texts: Sequence[tuple[int, str, str | None]]) -> None:
    """Adds messages, given by (id, content, calls as JSON), to the full-text indexes."""
    conn.executemany("INSERT INTO message_fts (rowid, content, tool_calls) VALUES (?, ?, ?)", texts)
    cjk_index.add(conn, texts)


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Returns a value as JSON without needless spaces; made once, because `json.dumps` makes an encoder at each call."""
