"""Sessions of Claude Code: a line for each part of a message, in files of one or several sessions.

The lines of a session are one conversation, those of each sub-agent (a side chain) another, and `/clear` begins a new
one. Of prompts that were taken back and written anew, the last is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from engine.base.conversation import Conversation, Message
from engine.formats.json_values import (
    BadRecord,
    as_object,
    json_text,
    object_or_empty,
    objects_in,
    without_keys,
)
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.inserted import with_context_apart
from engine.formats.messages.normalize import messages_of
from engine.formats.opening.framing import Frame
from engine.formats.records import ParsedRecord, Reader

_MESSAGE_TYPES = ("user", "assistant")
"""Types of lines of Claude Code that have a message."""

_FramedLine = tuple[dict[str, Any], Frame]
"""A line of a session, and the frame that has it, alone or with others."""

_CLEAR_COMMAND = "<command-name>/clear</command-name>"
"""The text in a user's message that begins a new conversation."""

_SESSION_KEYS = (
    "cwd", "gitBranch", "version", "slug", "userType", "entrypoint", "sessionId", "agentId",
)  # fmt: skip
"""Keys that nearly all lines of a session share; the conversation has each value once."""

_KEYS_BESIDE_FACTS = frozenset(("type", "message", "toolUseResult", "isSidechain", *_SESSION_KEYS))
"""Keys of a line that are no facts of its message: the message itself, and what the whole session shares."""

_TAKEN_BACK = "taken_back"
"""Key under which the metadata of a conversation has the lines of prompts that were taken back."""


def _recognize(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict):
        return None
    lines = record.get("loglines")
    if isinstance(lines, list) and lines and _has_message(lines[0]):
        return "the records have `loglines`, as sessions of Claude Code"
    if _has_message(record) and record.keys() & {"sessionId", "parentUuid"}:
        return "the records have `message`, `uuid` and `sessionId`, as lines of Claude Code"
    is_summary = record.get("type") == "summary" and "leafUuid" in record
    if is_summary or record.get("type") == "file-history-snapshot":
        return "the records are lines of Claude Code"
    return None


def _has_message(line: Any) -> bool:
    """Returns whether a line has a message."""
    return (
        isinstance(line, dict)
        and line.get("type") in _MESSAGE_TYPES
        and isinstance(line.get("message"), dict)
        and not line.keys().isdisjoint(("timestamp", "sessionId"))
        and "role" in line["message"]
    )


def _arrange(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each conversation, in the order of their first lines; broken lines come first.

    The whole file is in memory at once.
    """
    lines: list[_FramedLine] = []
    for frame in frames:
        if frame.reason is not None:
            yield frame
        elif not isinstance(frame.value, dict) or not frame.value.keys() & {"type", "loglines"}:
            yield frame._replace(reason="it is no line of Claude Code")
        else:
            inner = frame.value.get("loglines")
            inner = inner if isinstance(inner, list) else [frame.value]
            lines += [(inner_line, frame) for inner_line in objects_in(inner)]
            for entry in inner:
                if not isinstance(entry, dict):
                    yield frame._replace(value=entry, reason="it is no line of Claude Code")
    lines = _without_repeats(lines)
    taken_back = _find_taken_back([line for line, _ in lines])
    groups = _lines_by_conversation(lines)
    for name, members in groups.items():
        frames_by_id = {id(frame): frame for _, frame in members}
        followed_lines = [line for line, _ in members if _id_at(line) not in taken_back]
        value: dict[str, Any] = {"id": name, "lines": followed_lines}
        if len(followed_lines) < len(members):
            value[_TAKEN_BACK] = [line for line, _ in members if _id_at(line) in taken_back]
        has_own_bytes = all("loglines" not in frame.value for _, frame in members)
        raw = b"\n".join(frame.raw for frame in frames_by_id.values())
        first = next(iter(frames_by_id.values()))
        raw = raw if has_own_bytes else json_text(value).encode()
        yield Frame(first.number, raw, value, name=name or None)


def _without_repeats(lines: list[_FramedLine]) -> list[_FramedLine]:
    """Returns the lines without those that a session repeats.

    A session that is resumed repeats lines with their ids. A session with streamed input repeats its whole history
    under new ids before each turn.
    """
    known_lines: set[tuple[str, str, str]] = set()  # id, session, text
    history_by_session: dict[str, list[str]] = {}  # the texts so far
    new_lines: list[_FramedLine] = []
    lines_to_skip = 0  # the rest of a history that is repeated
    for position, (line, frame) in enumerate(lines):
        if not _has_message(line):
            new_lines.append((line, frame))
            continue
        uuid, session, text = _id_at(line), _id_at(line, "sessionId"), _comparison_text(line)
        history = history_by_session.setdefault(session, [])
        may_begin_repeat = len(history) > 1 and text == history[0] and not line.get("isSidechain")
        if not lines_to_skip and may_begin_repeat:
            following = (
                _comparison_text(later)
                for later, _ in lines[position:]
                if _id_at(later, "sessionId") == session and _has_message(later)
            )
            is_repeat = list(islice(following, len(history))) == history
            lines_to_skip = len(history) if is_repeat else 0
        if lines_to_skip or (uuid and (uuid, session, text) in known_lines):
            lines_to_skip = max(0, lines_to_skip - 1)
            continue
        known_lines.add((uuid, session, text))
        history.append(text)
        new_lines.append((line, frame))
    return new_lines


def _comparison_text(line: dict[str, Any]) -> str:
    """Returns who speaks in a line and what the message contains, as one text by which lines are compared."""
    return f"{line.get('type')} {json_text(_content(line))}"


def _lines_by_conversation(lines: list[_FramedLine]) -> dict[str, list[_FramedLine]]:
    """Returns the lines of each conversation, by its id: the session's, with `/AGENT` for a sub-agent and `#NUMBER`
    from the second conversation of a session on."""
    parents = {
        _id_at(line): _id_at(line, "parentUuid") for line, _ in lines if line.get("isSidechain")
    }
    groups: dict[str, list[_FramedLine]] = {}
    name_by_line: dict[str, str] = {}  # the conversation of each line, by the ids of both
    part_numbers: dict[str, int] = {}  # by session: the number of its last conversation
    without_session: list[_FramedLine] = []
    for line, frame in lines:
        session = line.get("sessionId")
        if not isinstance(session, str) and not _has_message(line):
            without_session.append((line, frame))
            continue
        name = session if isinstance(session, str) else ""
        if line.get("isSidechain"):
            name = f"{name}/{line.get('agentId') or _first_of_chain(_id_at(line), parents)}"
        else:
            if _begins_anew(line) and name in groups:
                part_numbers[name] = part_numbers.get(name, 1) + 1
            name = f"{name}#{part_numbers[name]}" if name in part_numbers else name
        groups.setdefault(name, []).append((line, frame))
        name_by_line[_id_at(line)] = name
    _join_silent_conversations(groups)
    for line, frame in without_session:  # summaries and snapshots name a line, not a session
        named_line = _id_at(line, "leafUuid") or _id_at(line, "messageId")
        name = name_by_line.get(named_line, next(iter(groups), ""))
        groups.setdefault(name, []).append((line, frame))
    return groups


def _join_silent_conversations(groups: dict[str, list[_FramedLine]]) -> None:
    """Moves the lines of conversations in which nothing was said after `/clear` to the first of their session."""
    for name in [name for name in groups if name.rpartition("#")[0] in groups]:
        session, _, _ = name.rpartition("#")
        if not any(_has_message(line) and not _begins_anew(line) for line, _ in groups[name]):
            groups[session] += groups.pop(name)


def _id_at(line: dict[str, Any], key: str = "uuid") -> str:
    """Returns the id under a key; "" if there is none."""
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _first_of_chain(uuid: str, parents: dict[str, str]) -> str:
    """Returns the id of the first line of the side chain in which a line lies; loops of parents end."""
    visited = set()
    while uuid in parents and parents[uuid] in parents and uuid not in visited:
        visited.add(uuid)
        uuid = parents[uuid]
    return uuid


def _content(line: dict[str, Any]) -> Any:
    """Returns the content of the message of a line; None without one."""
    message = line.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _begins_anew(line: dict[str, Any]) -> bool:
    """Returns whether the user began a new conversation with this line (`/clear`)."""
    return line.get("type") == "user" and _CLEAR_COMMAND in json_text(_content(line))


def _is_prompt(line: dict[str, Any]) -> bool:
    """Returns whether a line is what the user wrote, and neither a tool's answer nor a note of the program."""
    has_answer = any(part.get("type") == "tool_result" for part in objects_in(_content(line)))
    return line.get("type") == "user" and not has_answer and not line.get("isMeta")


def _find_taken_back(lines: list[dict[str, Any]]) -> set[str]:
    """Returns the ids of prompts in whose place the user wrote another later, and of the lines that follow them."""
    last_prompts: dict[str, str] = {}  # by the line that they follow
    taken_back: set[str] = set()
    for line in lines:
        parent, uuid = _id_at(line, "parentUuid"), _id_at(line)
        if not parent or not uuid or line.get("isSidechain") or not _is_prompt(line):
            continue
        if parent in last_prompts:
            taken_back.add(last_prompts[parent])
        last_prompts[parent] = uuid
    for line in lines if taken_back else ():  # a line stands after the one that it follows
        if _id_at(line, "parentUuid") in taken_back and _id_at(line):
            taken_back.add(_id_at(line))
    return taken_back


class _SessionMessage(NamedTuple):
    """A message of a session, and the lines that have its parts."""

    message: ChatMessage
    lines: list[Any]


class _SortedLines(NamedTuple):
    """The lines of a session by what they are.

    Attributes:
        messages: The messages, with their lines.
        events: Lines without a message.
        unknown: The events whose type is that of a message.
        left_out: What stays in the original record only: `id()` of a line's object, and the key within it.
    """

    messages: list[_SessionMessage]
    events: list[Any]
    unknown: list[Any]
    left_out: set[tuple[int, str | int]]


def _sort_lines(lines: list[dict[str, Any]]) -> _SortedLines:
    """Sorts the lines of a session; those with the parts of one message of the assistant are joined."""
    messages: list[_SessionMessage] = []
    events: list[Any] = []
    unknown: list[Any] = []
    left_out: set[tuple[int, str | int]] = set()
    current_id: Any = None  # of the last message of the assistant, which `current` is
    current: _SessionMessage | None = None
    for line in lines:
        if (queued := _queued_prompt(line)) is not None:
            messages += [_SessionMessage(message, [line]) for message in with_context_apart(queued)]
            continue
        if not _has_message(line) or _begins_anew(line):
            events.append(line)
            if not _has_message(line) and line.get("type", "user") in _MESSAGE_TYPES:
                unknown.append(line)
            continue
        if "toolUseResult" in line:
            left_out.add((id(line), "toolUseResult"))
        message = _message_of_line(line)
        message_id = line["message"].get("id") if line["type"] == "assistant" else None
        if current is not None and message_id is not None and current_id == message_id:
            _join_parts(current.message, message)
            current.lines.append(line)
            left_out |= {(id(line), "timestamp"), (id(line), "parentUuid")}
            continue
        messages += [_SessionMessage(part, [line]) for part in with_context_apart(message)]
        if message_id is not None:
            current_id, current = message_id, messages[-1]
    return _SortedLines(messages, events, unknown, left_out)


def _read(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation of the lines of a session as a draft.

    Raises:
        BadRecord: No line has a message.
    """
    record = as_object(record)
    lines = objects_in(record.get("lines"))
    session_messages, events, unknown, left_out = _sort_lines(lines)
    messages: list[Message] = []
    for session_message in session_messages:
        try:
            messages += messages_of(session_message.message, len(messages) + 1)
        except BadRecord:
            events += session_message.lines
            unknown += session_message.lines
    if not messages:
        raise BadRecord("no messages")
    fields = _session_facts(lines)
    if events:
        fields["events"] = events
    if record.get(_TAKEN_BACK):
        fields[_TAKEN_BACK] = record[_TAKEN_BACK]
    start_time = next((line["timestamp"] for line in lines if line.get("timestamp")), None)
    conversation = Conversation(
        str(record.get("id") or fallback_id),
        tuple(messages),
        created_at=start_time if isinstance(start_time, str) else None,
    )
    return ParsedRecord(conversation, fields, left_out=frozenset(left_out), unknown=tuple(unknown))


def _message_of_line(line: dict[str, Any]) -> ChatMessage:
    """Returns the message of a line in the form of a chat API, with what else the line says as facts."""
    message = line["message"]
    role = message["role"]
    if role == "user" and (line.get("isMeta") or line.get("isCompactSummary")):
        role = "system"  # the program wrote it, not the user
    facts = {
        key: line[key] for key in line if key not in _KEYS_BESIDE_FACTS and line[key] is not None
    }
    apart = ("role", "content", "type", "id")
    remaining = {
        key: message[key] for key in message if key not in apart and message[key] is not None
    }
    message_id = {"message_id": message["id"]} if "id" in message else {}
    content = {"content": message["content"]} if "content" in message else {}
    return {**facts, **remaining, **message_id, **content, "role": role}


def _queued_prompt(line: dict[str, Any]) -> ChatMessage | None:
    """Returns what the user wrote while the model worked, which is an attachment; None for another line."""
    attachment = object_or_empty(line.get("attachment"))
    prompt = attachment.get("prompt")
    if attachment.get("type") != "queued_command" or not isinstance(prompt, str | list):
        return None
    role = "user" if attachment.get("commandMode", "prompt") == "prompt" else "system"
    facts = without_keys(line, *_KEYS_BESIDE_FACTS, "attachment")
    return {**facts, "role": role, "content": prompt}


def _join_parts(message: ChatMessage, addition: ChatMessage) -> None:
    """Adds the content and the usage of a further line to the message that the line is a part of."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    added = addition.get("content")
    new_parts = added if isinstance(added, list) else [{"type": "text", "text": added or ""}]
    message["content"] = [*parts, *new_parts]
    message["uuids"] = [*message.get("uuids", [message.get("uuid")]), addition.get("uuid")]
    for key in ("usage", "stop_reason"):
        if key in addition:
            message[key] = addition[key]


def _session_facts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what the lines of a session have in common, each value once."""
    session: dict[str, Any] = {}
    for key in _SESSION_KEYS:
        values = list(dict.fromkeys(line[key] for line in lines if isinstance(line.get(key), str)))
        if values:
            session[key] = values[0] if len(values) == 1 else values
    summary = next((line.get("summary") for line in lines if line.get("type") == "summary"), None)
    if isinstance(summary, str):
        session["summary"] = summary
    return session


CLAUDE_CODE = Reader(
    "claude_code",
    _recognize,
    _read,
    arrange=_arrange,
    conditions=5,
    title="sessions of Claude Code",
    sample="claude_code/tool_call_conversation.jsonl",
)
