"""Reads logs in which each line is one message, or one event of the stream of an answer.

The reader of messages is for the logs of programs that no other format knows. Its lines are one conversation if they
name the same session, or follow each other. Lines without a message, such as the beginning of a session or a change of
the model, are kept as *events*. A *stream* is the answer of a model in pieces, as a proxy saves it: a line for each, or
server-sent events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation, Role
from engine.formats.coded.table_rows import ID_COLUMNS, columns_of, named_column, plain_name
from engine.formats.json_values import as_object, object_or_empty, objects_in, without_keys
from engine.formats.messages.call_messages import is_response_item, output_messages, response_items
from engine.formats.messages.chat_message import ChatMessage, as_message, is_autogen_message
from engine.formats.messages.inserted import with_context_apart
from engine.formats.messages.normalize import (
    OTHER_BRANCHES,
    id_of,
    other_branches,
    parent_of,
    read_in_turn,
)
from engine.formats.messages.parts import part_kind
from engine.formats.messages.roles import role_named, role_of_event, role_of_speaker, speaker_word
from engine.formats.messages.times import TIMES, as_time
from engine.formats.opening.framing import Frame, group_frames
from engine.formats.records import ParsedRecord, Reader

# Lines that are one message each

_MESSAGE_KEYS = ("message", "payload", "data", "msg", "event", "item", "entry", "body")
"""Keys under which a line may have its message."""

_SESSION_OBJECT_KEYS = (
    "metadata", "meta", "context", "attributes", "properties", "payload", "data",
)  # fmt: skip
"""Keys of an object in which a line may name its session."""

_CONTENT_KEYS = ("content", "parts", "tool_calls", "text", "value")
"""Keys of what a message says, the surest first."""

_ROLES_OF_PARTS = {"call": "assistant", "answer": "tool", "reasoning": "assistant"}
"""Roles of lines that are no message but a part of one."""

_SESSION_START_TYPES = frozenset(
    ("session", "session_start", "session_started", "session_meta", "thread_started")
)
"""Types of lines that begin a session."""

_TIME_SUFFIXES = ("timestamp", "time", "_at", "ts")
"""Endings of the names of times. A time is a fact of the message where a line is only a part of one."""

_USUAL_KEYS = {"toolCallId": "tool_call_id", "toolName": "name"}
"""Keys of an answer of a tool in some logs -> the usual key of the same thing."""


def _recognize_message_line(record: Any) -> str | None:
    """Returns in words why a record looks like a line with one message; None if it does not."""
    message = _message_of(_without_label(record))
    if message is None or not ("role" in message or is_response_item(message)):
        return None
    return "each line is one message, with its role and content"


def _without_label(line: Any) -> Any:
    """Returns the event in a line that is a list of the name of a call of an API and the event, as
    `["sessions.events", {...}]`; another line as it is."""
    is_labeled = isinstance(line, list) and len(line) == 2 and isinstance(line[0], str)
    return line[1] if is_labeled else line


def _message_of(line: Any) -> ChatMessage | None:
    """Returns the message of a line in the form of a chat API; None if it has none.

    The first that fits: a message of AutoGen, an item of the Responses API, a role with content, columns as of a table,
    a part of a message. Where the message is an object within the line, the rest of the line is facts of it.
    """
    if not isinstance(line, dict):
        return None
    if is_autogen_message(line):
        return as_message(line)
    inner = next((line[key] for key in _MESSAGE_KEYS if isinstance(line.get(key), dict)), line)
    event = str(inner.get("type") or line.get("type") or line.get("event"))
    role = _named_role(line, inner) or role_of_event(event)
    facts: dict[str, Any] = {}
    if inner is not line:
        others = {key: value for key, value in line.items() if value is not inner}
        facts = without_keys(others, "type")
    elif "." in event:  # as in `agent.message` and `agent.custom_tool_use`
        inner = {**line, "type": event.rpartition(".")[2].removeprefix("custom_")}
    if is_response_item(inner):
        return {**facts, **inner}
    content_key = next((key for key in _CONTENT_KEYS if isinstance(inner.get(key), str | list)), "")
    if role is not None and content_key:
        remaining = without_keys(inner, "type", content_key)
        message = {**facts, **{_USUAL_KEYS.get(key, key): remaining[key] for key in remaining}}
        if content_key == "tool_calls":
            return {**message, "tool_calls": inner["tool_calls"], "role": role, "content": ""}
        return {**message, "role": role, "content": inner[content_key]}
    columns = columns_of(inner)
    if columns is not None and columns.role is not None:
        role = role_of_speaker(speaker_word(inner[columns.role]))
        remaining = without_keys(inner, columns.role, columns.text)
        return (
            {**facts, **remaining, "role": role, "content": inner[columns.text]} if role else None
        )
    part = part_kind(inner) if isinstance(inner.get("type"), str) else "unknown"
    if part not in _ROLES_OF_PARTS:
        return None
    times = {key: line[key] for key in line if plain_name(key).endswith(_TIME_SUFFIXES)}
    return {**times, "role": _ROLES_OF_PARTS[part], "content": [inner]}


def _named_role(line: dict[str, Any], inner: dict[str, Any]) -> Role | None:
    """Returns the role that a line names, in the object with its message first; None if it names no known role."""
    for key in ("role", "from", "type"):
        for word in (inner.get(key), line.get(key)):
            if isinstance(word, str) and (role := role_named(word)) is not None:
                return role
    return None


def _arrange_message_lines(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each session that the lines name, or for the lines that follow each other; frames that cannot
    be read come first.

    A line belongs to the session that it names, else to the group of the line that it names as its parent, else to that
    of the line before it. Where lines name parents and none begins a session, a message of the user without a known
    parent begins a group. All lines are in memory at once.
    """
    groups: dict[str, list[Frame]] = {}
    group_by_id: dict[str, str] = {}
    linked_groups: set[str] = set()  # groups in which a line names the one before it
    current = ""  # the group of the last line
    has_session_start = False
    for frame in frames:
        line = _without_label(frame.value)
        if frame.reason is not None or not isinstance(line, dict):
            yield frame._replace(reason=frame.reason or "it is no line of a session")
            continue
        message = _message_of(line)
        is_start = message is None and plain_name(str(line.get("type"))) in _SESSION_START_TYPES
        has_session_start = has_session_start or is_start
        own_id, parent = id_of(line), parent_of(line)
        if session := _session_id(line, is_start):
            current = session
        elif parent in group_by_id:
            current = group_by_id[parent]
        elif own_id and not has_session_start and current in linked_groups:
            is_root = message is not None and message.get("role") == "user"
            current = own_id if is_root else current
        groups.setdefault(current, []).append(frame._replace(value=line))
        if parent:
            linked_groups.add(current)
        group_by_id.setdefault(own_id, current)
    for session_frame in group_frames(groups, "lines"):
        yield session_frame if len(groups) > 1 else session_frame._replace(number=None)


def _session_id(line: dict[str, Any], is_start: bool) -> str:
    """Returns the id of the session that a line names, itself or in an object about it; empty if it names none.

    Args:
        is_start: Whether the line begins a session.
    """
    names: tuple[str, ...] = (*ID_COLUMNS, "id") if is_start else ID_COLUMNS
    if is_response_item(line):  # its `call_id` is that of a call of a tool
        names = tuple(name for name in names if name != "call_id")
    if id_key := named_column(line, names, (str, int)):
        return str(line[id_key])
    for key, value in line.items():
        name = plain_name(key)
        if isinstance(value, dict) and (name in _SESSION_OBJECT_KEYS or name in ID_COLUMNS):
            id_names = (*ID_COLUMNS, "id") if name in ID_COLUMNS else ID_COLUMNS
            if id_key := named_column(value, id_names, (str, int)):
                return str(value[id_key])
    return ""


def _read_message_lines(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation of the lines of a session as a draft.

    Raises:
        BadRecord: No line has a message.
    """
    lines = objects_in(as_object(record).get("lines"))
    branch_positions = other_branches(lines)
    chat_messages: list[ChatMessage] = []
    events: list[Any] = []
    for position, line in enumerate(lines):
        message = _message_of(line)
        if message is None:
            events.append(line)
        elif position in branch_positions:
            continue
        elif chat_messages and _is_next_piece(chat_messages[-1], message):
            last = chat_messages[-1]
            chat_messages[-1] = {**last, "content": last["content"] + message["content"]}
        else:
            chat_messages += with_context_apart(message)
    if any(map(is_response_item, chat_messages)):
        chat_messages = response_items(chat_messages)
    messages = read_in_turn(chat_messages)
    fields: dict[str, Any] = {"events": events} if events else {}
    if branch_positions:
        fields[OTHER_BRANCHES] = [lines[position] for position in sorted(branch_positions)]
    times = (as_time(line.get(key)) for line in lines for key in TIMES)
    conversation = Conversation(
        str(record.get("id") or fallback_id),
        tuple(messages),
        created_at=next(filter(None, times), None),
    )
    pieces = frozenset(line["content"] for line in lines if isinstance(line.get("content"), str))
    return ParsedRecord(conversation, fields, unknown=tuple(events), pieces=pieces)


def _is_next_piece(before: ChatMessage, message: ChatMessage) -> bool:
    """Returns whether a message is the next piece of the one before it, as a stream of an answer has them."""
    pieces = (before, message)
    return before.get("role") == message.get("role") and all(
        piece.get("delta") is True and isinstance(piece.get("content"), str) for piece in pieces
    )


MESSAGE_LINES = Reader(
    "message_lines",
    _recognize_message_line,
    _read_message_lines,
    arrange=_arrange_message_lines,
    title="lines that are one message each, of a session or of a file",
)


# Events of a stream

_START_EVENTS = ("message_start", "response.created")
"""Types of events that begin an answer."""

_MESSAGE_EVENTS = frozenset((
    *_START_EVENTS, "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "ping",
))  # fmt: skip
"""Types of events of Anthropic's streams, and the types of events that begin an answer."""

_RESPONSE_EVENT_PREFIXES = (
    "response.output_", "response.content_part", "response.function_call_arguments", "response.reasoning",
    "response.in_progress", "response.completed", "response.incomplete", "response.failed",
)  # fmt: skip
"""Beginnings of the types of events of the Responses API."""

_ANSWER_FACT_KEYS = ("model", "usage", "stop_reason", "finish_reason", "created", "created_at")
"""Keys of an event that are facts of the answer; the last event with a key counts."""


def _recognize_stream(record: Any) -> str | None:
    """Returns in words why a record looks like an event of a stream; None if it does not."""
    if not isinstance(record, dict):
        return None
    kind = str(record.get("type"))
    is_chunk = record.get("object") == "chat.completion.chunk"
    if is_chunk or kind in _MESSAGE_EVENTS or kind.startswith(_RESPONSE_EVENT_PREFIXES):
        return "the records are events of the stream of an answer"
    return None


def _arrange_streams(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each answer; broken lines come first. The whole file is in memory at once."""
    frames_by_answer: dict[str, list[Frame]] = {}
    current = ""  # id of the answer that the events belong to
    for frame in frames:
        if frame.reason is not None or _recognize_stream(frame.value) is None:
            yield frame._replace(reason=frame.reason or "it is no event of a stream")
            continue
        event = frame.value
        if event.get("type") in _START_EVENTS:
            answer = object_or_empty(event.get("message") or event.get("response"))
            current = str(answer.get("id") or frame.number)
        elif event.get("object") == "chat.completion.chunk":
            current = str(event.get("id"))
        frames_by_answer.setdefault(current, []).append(frame)
    yield from group_frames(frames_by_answer, "events")


def _read_stream(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the answer that the events add up to as a draft.

    Raises:
        BadRecord: They add up to none.
    """
    record = as_object(record)
    events = objects_in(record.get("events"))
    messages = read_in_turn(output_messages(events))
    facts: dict[str, Any] = {}
    for event in events:
        answer = object_or_empty(event.get("message") or event.get("response") or event)
        choice = next(iter(objects_in(event.get("choices"))), {})
        for record_part in (answer, object_or_empty(event.get("delta")), choice, event):
            facts |= {
                key: record_part[key]
                for key in _ANSWER_FACT_KEYS
                if record_part.get(key) is not None
            }
    start_time = as_time(facts.pop("created_at", None) or facts.pop("created", None))
    name = str(record.get("id") or fallback_id)
    left_out = frozenset((id(record["events"]), position) for position in range(len(events)))
    conversation = Conversation(name, tuple(messages), created_at=start_time)
    return ParsedRecord(conversation, facts, left_out=left_out)


STREAMS = Reader(
    "streams",
    _recognize_stream,
    _read_stream,
    arrange=_arrange_streams,
    conditions=3,
    title="events of the streams of OpenAI and Anthropic, a line each or server-sent",
)
"""Reads the answers in files of stream events."""
