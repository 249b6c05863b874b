"""Sessions that a program stores in pieces, each put together to a record with its messages in their order.

- opencode: `_opencode_sessions` for its tables, `SessionFolder` for its files
- Cursor: `_cursor_sessions`, for values under keys of one table
- simonw/llm: `_LlmLog`, for its `logs.db`. Since version 0.32 messages are a tree and a thread names its last one;
  before, a response has prompt and answer.
- OpenHands: `SessionFolder`, for a file for each event
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple

from engine.formats.json_values import (
    BadRecord,
    as_object,
    json_text,
    list_or_empty,
    object_or_empty,
    storable,
    without_keys,
)
from engine.formats.opening.databases import Database, DatabaseDamaged, ValueTooLarge
from engine.formats.opening.framing import MAX_RECORD, Frame, load, too_large
from engine.formats.opening.source import LEAST_OF_RECORD, Reading
from engine.formats.paths import object_in

# Databases

_ReadSessions = Callable[[Database], Iterator[dict[str, Any] | None]]
"""Yields the sessions in a database, None for one that is larger than a record may be; may raise what `Database.rows`
raises."""


class _Store(NamedTuple):
    """The tables of a database in which a program stores sessions in pieces.

    Attributes:
        tables: Names of the tables by which it is recognized.
        read_sessions: Yields the sessions.
        has_all_tables: Whether all other tables of the database belong to it too.
    """

    tables: frozenset[str]
    read_sessions: _ReadSessions
    has_all_tables: bool


def session_tables(tables: Sequence[str]) -> frozenset[str]:
    """Returns the tables of a database in which a program stores sessions in pieces; empty if it is no such
    database."""
    for store in _STORES:
        if store.tables <= set(tables):
            return frozenset(tables) if store.has_all_tables else store.tables
    return frozenset()


def stored_sessions(path: str, tables: frozenset[str], reading: Reading) -> Iterator[Frame]:
    """Yields a frame for each session in a database.

    Args:
        tables: The tables with the pieces, as `session_tables` returns them.
    """
    read_sessions = next(store.read_sessions for store in _STORES if store.tables <= tables)
    number = 0
    try:
        with Database(path, reading.bounds) as database:
            for frame in _session_frames(read_sessions(database), reading):
                number += 1
                yield frame
    except DatabaseDamaged as error:
        yield Frame(number + 1, b"", None, str(error))
    except ValueTooLarge:
        yield Frame(number + 1, b"", None, f"{too_large()}; what follows is not read")


def _session_frames(sessions: Iterator[dict[str, Any] | None], reading: Reading) -> Iterator[Frame]:
    """Yields a frame for each session, until they are too much."""
    for number, session in enumerate(sessions, 1):
        value = storable(session)
        raw = b"" if session is None else json_text(value).encode()
        if session is None or len(raw) > MAX_RECORD:
            yield Frame(number, b"", None, too_large())
        else:
            yield Frame(number, raw, value)
        if not reading.add(max(len(raw), LEAST_OF_RECORD)):
            yield Frame(None, b"", None, reading.bounds.too_much)
            return


def _object_of_cell(cell: Any) -> dict[str, Any]:
    """Returns the object in the JSON of a cell, a text or its bytes; an empty one if it has none."""
    return object_in(cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell)


def _opencode_sessions(database: Database) -> Iterator[dict[str, Any]]:
    """Yields the sessions of opencode, in the form in which it exports one."""
    columns = database.columns("select * from session limit 0")
    for row in list(database.rows("select * from session order by rowid")):
        info = dict(zip(columns, row, strict=True))
        messages: list[dict[str, Any]] = []
        query = "select id, data from message where session_id = ? order by time_created, id"
        for message_id, message in list(database.rows(query, (info.get("id"),))):
            query = "select data from part where message_id = ? order by id"
            parts = [_object_of_cell(part) for (part,) in database.rows(query, (message_id,))]
            message_info = {"id": message_id, **_object_of_cell(message)}
            messages.append({"info": message_info, "parts": parts})
        if messages:
            yield {"info": info, "messages": messages}


def _cursor_sessions(database: Database) -> Iterator[dict[str, Any]]:
    """Yields the sessions of Cursor, with their bubbles in the order that they name."""
    query = "select key, value from cursorDiskKV where key like 'composerData:%' order by rowid"
    for key, value in list(database.rows(query)):
        session = _object_of_cell(value)
        _, _, session_id = key.partition(":")
        bubbles = {
            name.rpartition(":")[2]: _object_of_cell(bubble)
            for name, bubble in database.rows(
                "select key, value from cursorDiskKV where key >= ? and key < ? order by rowid",
                (f"bubbleId:{session_id}:", f"bubbleId:{session_id};"),  # `;` comes after `:`
            )
        }
        headers = map(object_or_empty, list_or_empty(session.pop("fullConversationHeadersOnly", 0)))
        names = dict.fromkeys(str(header.get("bubbleId")) for header in headers)
        listed = [bubbles.pop(name) for name in names if bubbles.get(name)]
        listed = listed or list_or_empty(session.pop("conversation", None))
        if not listed:
            listed, bubbles = list(filter(None, bubbles.values())), {}
        if listed:
            unlisted = {"unlisted": list(bubbles.values())} if bubbles else {}
            yield {"composerId": session_id, **session, "bubbles": listed, **unlisted}


# Logs of simonw/llm

_FACTS = ("model", "datetime_utc", "input_tokens", "output_tokens", "duration_ms", "token_details")
"""Columns of a log of `llm` that are facts of a message."""

_Rows = list[dict[str, Any]]
"""Rows of a table, each with its cells by the names of the columns."""

_TEXTS = frozenset(("prompt", "response", "system", "reasoning", "prompt_json", "response_json"))
"""Columns of a response in a log of `llm` that are read as messages."""

_FRAGMENTS_OF_RESPONSE = (
    'id in (select fragment_id from prompt_fragments where response_id = ? order by "order")'
)
"""Condition in SQL on the fragments of which `llm` made the prompt of a response."""

_MAX_THREAD_MESSAGES = 100_000
"""Most messages of a thread that is read: those of a damaged one may follow each other in a circle."""


def _llm_sessions(database: Database) -> Iterator[dict[str, Any] | None]:
    """Yields the conversations of a log, each with `thread`, `messages` and `turns`; None for one that is larger than a
    record may be."""
    log = _LlmLog(database)
    yield from log.threads()
    yield from log.conversations()


class _LlmLog:
    """Reads the conversations in a log of `llm`, one in memory at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._size = 0
        query = "select name from sqlite_master where type = 'table'"
        self._tables = {name for (name,) in database.rows(query)}
        self._columns: dict[str, list[str]] = {}

    def _columns_of(self, table: str) -> list[str]:
        """Returns the names of the columns of a table."""
        if table not in self._columns:
            self._columns[table] = self._database.columns(f'select * from "{table}" limit 0')
        return self._columns[table]

    def _rows(self, table: str, where: str = "1", *values: Any) -> Iterator[dict[str, Any]]:
        """Yields rows without their empty cells.

        Raises:
            ValueTooLarge: They are too large together with what was read of the conversation before.
        """
        if table not in self._tables:
            return
        columns = self._columns_of(table)
        for row in self._database.rows(f'select * from "{table}" where {where}', values):
            self._count(*row)
            yield {name: cell for name, cell in zip(columns, row, strict=True) if cell is not None}

    def _count(self, *cells: Any) -> None:
        """Adds the size of cells to that of the conversation; raises ValueTooLarge beyond the limit."""
        self._size += sum(len(cell) for cell in cells if isinstance(cell, str | bytes))
        if self._size > MAX_RECORD:
            raise ValueTooLarge

    def threads(self) -> Iterator[dict[str, Any] | None]:
        """Yields the threads of the newer tables; None for one that is larger than a record may be."""
        for thread in self._rows("threads"):
            try:
                yield self._thread(thread)
            except ValueTooLarge:
                yield None
            self._size = 0

    def _thread(self, thread: dict[str, Any]) -> dict[str, Any]:
        """Returns a thread with its messages, which are followed from the last one back to the first.

        Raises:
            ValueTooLarge: It has more than `_MAX_THREAD_MESSAGES`, or they are too large.
        """
        turns = list(self._rows("turns", "thread_id = ? order by datetime_utc", thread["id"]))
        turn_by_last_message = {turn.get("tip_message_hash"): turn for turn in turns}
        path: _Rows = []
        message_hash = thread.get("tip_message_hash")
        while message_hash is not None:
            if len(path) > _MAX_THREAD_MESSAGES:
                raise ValueTooLarge
            rows = list(self._rows("messages", "hash = ?", message_hash))
            path += rows
            message_hash = rows[0].get("parent_hash") if rows else None
        messages = []
        for row in reversed(path):
            turn = turn_by_last_message.get(row["hash"], {})
            facts = {key: turn[key] for key in _FACTS if key in turn}
            parts = self._rows("parts", "message_hash = ? order by position", row["hash"])
            content = [self._part(part) for part in parts]
            messages.append({"role": row.get("role"), "content": content, **facts})
        return {"thread": thread, "messages": messages, "turns": turns}

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        """Returns a part of a message in the form of a chat API."""
        payload = object_in(part.get("payload"))
        if pieces := list_or_empty(payload.pop("text_ref", None)):
            part["text"] = "".join(map(self._piece, map(object_or_empty, pieces)))
        chat_part = {"type": part.get("type"), **payload}
        if part.get("text"):
            chat_part["text"] = part["text"]
        if chat_part["type"] == "attachment":
            attachment = object_in(payload.get("attachment"))
            chat_part |= {"type": "file", **self._attachment(attachment.get("id"))}
        return chat_part

    def _row_with_id(self, table: str, row_id: Any) -> dict[str, Any]:
        """Returns the row with an id; an empty one if there is none."""
        return next(self._rows(table, "id = ?", row_id), {})

    def _piece(self, piece: dict[str, Any]) -> str:
        """Returns the text of a piece of a part: a literal, or a fragment that is stored once."""
        if "literal" in piece:
            return str(piece["literal"])
        row = self._row_with_id("fragments", piece.get("fragment"))
        return str(row.get("content", ""))

    def _attachment(self, row_id: Any) -> dict[str, Any]:
        """Returns what is known of an attachment."""
        row = self._row_with_id("attachments", row_id)
        return {"mime_type": row.get("type"), "url": row.get("url"), "path": row.get("path")}

    def conversations(self) -> Iterator[dict[str, Any] | None]:
        """Yields the conversations of the older tables; None for one that is larger than a record may be."""
        if "responses" not in self._tables:
            return
        has_conversation_ids = "conversation_id" in self._columns_of("responses")
        name = "coalesce(nullif(conversation_id, ''), id)" if has_conversation_ids else "id"
        query = f"select id, {name} from responses order by datetime_utc, id"
        groups: dict[Any, list[Any]] = {}
        for response_id, conversation_id in self._database.rows(query):
            self._count(response_id, conversation_id)
            groups.setdefault(conversation_id, []).append(response_id)
        for conversation_id, response_ids in groups.items():
            self._size = 0
            try:
                yield self._conversation(conversation_id, response_ids)
            except ValueTooLarge:
                yield None

    def _conversation(self, name: Any, response_ids: list[Any]) -> dict[str, Any]:
        """Returns a conversation of the older tables with its messages."""
        thread = self._row_with_id("conversations", name) or {"id": name}
        messages: list[dict[str, Any]] = []
        turns: _Rows = []
        system = None
        for response_id in response_ids:
            response = self._row_with_id("responses", response_id)
            if response.get("system") and response["system"] != system:
                system = response["system"]
                messages.append({"role": "system", "content": system})
            messages += self._exchange(response)
            turns.append(without_keys(response, *_TEXTS))
        return {"thread": thread, "messages": messages, "turns": turns}

    def _exchange(self, response: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the answers of tools and the prompt that were sent, and what the model answered."""
        response_id = response["id"]
        for result in self._rows("tool_results", "response_id = ? order by id", response_id):
            content = result.get("output") or result.get("exception") or ""
            tool_message = {"role": "tool", "name": result.get("name"), "content": content}
            yield {**tool_message, "tool_call_id": result.get("tool_call_id")}
        pieces: list[str] = []
        if "prompt_fragments" in self._tables:
            fragments = self._rows("fragments", _FRAGMENTS_OF_RESPONSE, response_id)
            pieces = [str(row.get("content", "")) for row in fragments]
        if prompt := "\n".join(filter(None, [*pieces, response.get("prompt", "")])):
            yield {"role": "user", "content": prompt, "datetime_utc": response.get("datetime_utc")}
        call_rows = self._rows("tool_calls", "response_id = ? order by id", response_id)
        keys = {"name": "name", "arguments": "arguments", "id": "tool_call_id"}
        calls = [{name: row.get(column) for name, column in keys.items()} for row in call_rows]
        message = {"role": "assistant", "content": response.get("response", "")}
        message |= {"tool_calls": calls} if calls else {}
        if response.get("reasoning"):
            message["reasoning_content"] = response["reasoning"]
        yield {**message, **{column: response[column] for column in _FACTS if column in response}}


_STORES = (
    _Store(frozenset(("session", "message", "part")), _opencode_sessions, has_all_tables=False),
    _Store(frozenset(("cursorDiskKV",)), _cursor_sessions, has_all_tables=False),
    _Store(
        frozenset(("threads", "messages", "parts", "turns")), _llm_sessions, has_all_tables=True
    ),
    _Store(frozenset(("conversations", "responses")), _llm_sessions, has_all_tables=True),
)
"""The databases of opencode, of Cursor, and of `llm` since version 0.32 and before; the first whose tables a database
has is taken."""


# Folders of files

_Opener = Callable[[], BinaryIO]
"""Opens the bytes of a file."""

_PIECE_KIND = re.compile(r"(?:^|(?<=/))(session|message|part)(?=/(?:[^/]+/)*[^/]+\.json$)")
"""Finds the kind of each piece that the path of a file names; the last one is the kind of the file itself."""

_EVENT = re.compile(r"(?:^|/)(?:events/event-\d+-[^/]+|events/(?!event)\d+|event_\d+_[^/]+)\.json$")
"""Finds the end of the path of an event of OpenHands."""

_SETTINGS = "base_state.json"
"""Name of the file in which OpenHands keeps the settings of a conversation, which are no part of it."""

_FACTS_OF_CONVERSATION = ("meta.json", "metadata.json")
"""Names of the files in which OpenHands keeps facts about a conversation."""


class SessionFolder:
    """The files of a folder or an archive in which an agent stores sessions in pieces.

    opencode has `session/PROJECT/ID.json`, `message/SESSION/ID.json` and `part/MESSAGE/ID.json`; older versions have
    all kinds in `session`. OpenHands has `ID/events/event-NUMBER-ID.json`, before version 1 `ID/events/NUMBER.json`,
    and in an export `event_NUMBER_ID.json`; beside them it has what is said of the conversation.

    Attributes:
        files: Paths of all these files; empty if it is no such folder.
    """

    def __init__(self, paths: Sequence[str], streams: Mapping[str, _Opener] | None = None) -> None:
        """Reads nothing yet.

        Args:
            streams: What opens each path; None for files on disk.
        """
        self._streams = streams or {}
        # the paths of opencode: by kind, and by the id of the session or, of parts, of the message they belong to
        self._by_owner: dict[str, dict[str, list[str]]] = {"session": {}, "message": {}, "part": {}}
        self._events: dict[str, list[str]] = {}
        for path in paths:
            if kinds := _PIECE_KIND.findall(path.replace(os.sep, "/")):
                owner = _stem(path) if kinds[-1] == "session" else _stem(os.path.dirname(path))
                self._by_owner[kinds[-1]].setdefault(owner, []).append(path)
            if _EVENT.search(path.replace(os.sep, "/")):
                folder = os.path.dirname(path)
                in_folder = os.path.basename(folder) == "events"
                conversation = os.path.dirname(folder) if in_folder else folder
                self._events.setdefault(conversation, []).append(path)
        if not self._is_openhands():
            self._events = {}
        if not self._is_opencode():
            self._by_owner = {kind: {} for kind in self._by_owner}
        groups = [group for owners in self._by_owner.values() for group in owners.values()]
        self.files = [path for group in (*groups, *self._events.values()) for path in group]
        known_paths = set(paths)
        settings = [os.path.join(folder, _SETTINGS) for folder in self._events]
        self._facts = {  # the files with facts about each conversation
            folder: [
                path for name in _FACTS_OF_CONVERSATION
                if (path := os.path.join(folder, name)) in known_paths
            ]
            for folder in self._events
        }  # fmt: skip
        self.files += [path for path in settings if path in known_paths]
        self.files += [path for group in self._facts.values() for path in group]
        self._broken: list[Frame] = []

    def _is_opencode(self) -> bool:
        """Returns whether there are messages and parts, and the first message names its session."""
        first = next((paths[0] for paths in self._by_owner["message"].values()), None)
        if first is None or not self._by_owner["part"]:
            return False
        with suppress(OSError, BadRecord):
            return "sessionID" in self._read(first)
        return False

    def _is_openhands(self) -> bool:
        """Returns whether the first file that is named like an event of OpenHands has one."""
        first = next((paths[0] for paths in self._events.values()), None)
        with suppress(OSError, BadRecord):
            return first is not None and {"source", "timestamp"} <= self._read(first).keys()
        return False

    def rows(self, reading: Reading) -> Iterator[Frame]:
        """Yields a frame for each session, in the form in which the agent exports one, and one for each broken file."""
        for frame in _session_frames(self._sessions(), reading):
            yield frame
            yield from self._broken
            self._broken.clear()

    def _sessions(self) -> Iterator[dict[str, Any]]:
        """Yields the sessions of either agent."""
        owners = list(self._by_owner["session"])
        infos = {name: info for owner in owners for info, name in self._pieces("session", owner)}
        for name in self._by_owner["message"]:
            messages: list[dict[str, Any]] = [
                {"info": info, "parts": [part for part, _ in self._pieces("part", message_name)]}
                for info, message_name in self._pieces("message", name)
            ]
            messages.sort(key=lambda message: _creation_time(message["info"]))
            yield {"info": infos.get(name, {"id": name}), "messages": messages}
        for conversation, paths in self._events.items():
            events = [event for event, _ in self._pieces_in(sorted(paths, key=_number_in_name))]
            facts: dict[str, Any] = {}
            for piece, _ in self._pieces_in(self._facts[conversation]):
                facts |= piece
            yield {"id": os.path.basename(conversation), **facts, "events": events}

    def _pieces(self, kind: str, owner: str) -> Iterator[tuple[dict[str, Any], str]]:
        """Yields the pieces of a kind that belong to a session or a message, each with its id."""
        yield from self._pieces_in(sorted(self._by_owner[kind].get(owner, ())))

    def _pieces_in(self, paths: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
        """Yields the pieces in files, each with its id; a broken file becomes a frame that follows the session's."""
        for path in paths:
            try:
                piece = self._read(path)
            except (OSError, BadRecord) as error:
                reason = error.reason if isinstance(error, BadRecord) else str(error)
                self._broken.append(Frame(None, b"", None, f"{path}: {reason}"))
            else:
                yield piece, str(piece.get("id") or _stem(path))

    def _read(self, path: str) -> dict[str, Any]:
        """Returns the object in a file.

        Raises:
            BadRecord: It has none, or is larger than a record may be.
            OSError: It cannot be read.
        """
        with self._streams[path]() if self._streams else open(path, "rb") as file:
            content = file.read(MAX_RECORD + 1)
        if len(content) > MAX_RECORD:
            raise BadRecord(too_large())
        return as_object(load(content, "file"))


def _creation_time(info: dict[str, Any]) -> float:
    """Returns when a message was created, in ms since 1970; -1 if it does not say so."""
    time = object_or_empty(info.get("time")).get("created")
    return time if isinstance(time, int | float) else -1


def _stem(path: str) -> str:
    """Returns the name of a file without its folder and its ending."""
    return os.path.splitext(os.path.basename(path))[0]


def _number_in_name(path: str) -> int:
    """Returns the number in the name of a file."""
    return int(next(iter(re.findall(r"\d+", _stem(path))), 0))
