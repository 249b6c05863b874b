"""Sessions of Claude Code: a line for each part of a message, in files of one or several sessions.

The lines of a session are one conversation, those of each sub-agent (a side chain) another, and `/clear` begins a new
one. Of prompts that were taken back and written anew, the last is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from engine.base.conversation import Conversation, Message
from engine.formats.json_values import BadRecord, as_object, json_text, object_or_empty, objects_in
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.inserted import with_context_apart
from engine.formats.messages.normalize import messages_of
from engine.formats.opening.framing import Frame
from engine.formats.records import ParsedRecord, Reader

_SPOKEN = ("user", "assistant")
"""Types of lines that have a message."""
_CLEAR = "<command-name>/clear</command-name>"
"""What the user's message holds that begins a new conversation."""
_OF_SESSION = (
    "cwd", "gitBranch", "version", "slug", "userType", "entrypoint", "sessionId", "agentId",
)  # fmt: skip
"""Keys that are much the same in all lines of a session; each value is kept once."""

_NOT_FACTS = frozenset(("type", "message", "toolUseResult", "isSidechain", *_OF_SESSION))
"""Keys of a line that are not kept as facts of its message."""
_TAKEN_BACK = "taken_back"
"""Key under which a conversation has the lines of prompts that were taken back."""

_STREAM_KEYS = ("session_id", "parent_tool_use_id")
"""Keys that only lines of the stream have."""


def recognize(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict):
        return None
    lines = record.get("loglines")
    if isinstance(lines, list) and lines and _is_spoken(lines[0]):
        return "the records have `loglines`, as sessions of Claude Code"
    if _is_spoken(record) and record.keys() & {"sessionId", "parentUuid"}:
        return "the records have `message`, `uuid` and `sessionId`, as lines of Claude Code"
    if _is_spoken(record) and record.keys() >= {"session_id", "parent_tool_use_id"}:
        return "the records have `message` and `session_id`, as the stream of Claude Code"
    if record.get("type") == "summary" and "leafUuid" in record:
        return "the records are lines of Claude Code"
    if record.get("type") == "file-history-snapshot":
        return "the records are lines of Claude Code"
    return None


def _is_spoken(line: Any) -> bool:
    """Returns whether a line has a message."""
    return (
        isinstance(line, dict)
        and line.get("type") in _SPOKEN
        and isinstance(line.get("message"), dict)
        and not line.keys().isdisjoint(("timestamp", "session_id", "sessionId"))
        and "role" in line["message"]
    )


def arrange(frames: Iterable[Frame], all_branches: bool) -> Iterator[Frame]:
    """Yields a frame for each conversation, in the order of their first lines; broken lines come first.

    The whole file is in memory at once.
    """
    lines: list[tuple[dict[str, Any], Frame]] = []
    for frame in frames:
        if frame.reason is not None:
            yield frame
        elif not isinstance(frame.value, dict) or not frame.value.keys() & {"type", "loglines"}:
            yield frame._replace(reason="it is no line of Claude Code")
        else:
            inner = frame.value.get("loglines")
            inner = inner if isinstance(inner, list) else [frame.value]
            lines += [
                (_as_session_line(inner_line), frame)
                for inner_line in inner
                if isinstance(inner_line, dict)
            ]
    lines = _without_repeats(lines)
    taken_back: set[str] = set() if all_branches else _find_taken_back([line for line, _ in lines])
    groups = _lines_by_conversation(lines)
    for name, members in groups.items():
        frames_of = {id(frame): frame for _, frame in members}
        followed_lines = [line for line, _ in members if _uuid(line) not in taken_back]
        value: dict[str, Any] = {"id": name, "lines": followed_lines}
        if len(followed_lines) < len(members):
            value[_TAKEN_BACK] = [line for line, _ in members if _uuid(line) in taken_back]
        has_own_bytes = all("loglines" not in frame.value for _, frame in members)
        raw = b"\n".join(frame.raw for frame in frames_of.values())
        first = next(iter(frames_of.values()))
        yield Frame(
            first.number,
            raw if has_own_bytes else json_text(value).encode(),
            value,
            name=name or None,
        )


def _as_session_line(line: dict[str, Any]) -> dict[str, Any]:
    """Returns a line of `claude --output-format stream-json` with the keys of a session's line; another as it is."""
    if "session_id" not in line or "sessionId" in line:
        return line
    renamed = {"sessionId": line["session_id"]}
    if call := line.get("parent_tool_use_id"):
        renamed |= {"isSidechain": True, "agentId": call}
    return {**{key: line[key] for key in line if key not in _STREAM_KEYS}, **renamed}


def _without_repeats(
    lines: list[tuple[dict[str, Any], Frame]],
) -> list[tuple[dict[str, Any], Frame]]:
    """Returns the lines without those that a session repeats: a resumed one a line with its id, and one with streamed
    input, before each turn, its whole history under new ids."""
    seen: set[tuple[str, str, str]] = set()
    histories: dict[str, list[str]] = {}  # of each session, what was said so far
    new_lines: list[tuple[dict[str, Any], Frame]] = []
    repeated = 0  # how many of the lines that come next were said before
    for position, (line, frame) in enumerate(lines):
        if not _is_spoken(line):
            new_lines.append((line, frame))
            continue
        session, said = _uuid(line, "sessionId"), _said(line)
        history = histories.setdefault(session, [])
        if not repeated and len(history) > 1 and said == history[0] and not line.get("isSidechain"):
            following = (
                later for later, _ in lines[position:] if _uuid(later, "sessionId") == session
            )
            again = list(islice(map(_said, filter(_is_spoken, following)), len(history)))
            repeated = len(history) if again == history else 0
        is_known = (_uuid(line), session, said) in seen
        if repeated or (is_known and _uuid(line)):
            repeated = max(0, repeated - 1)
            continue
        seen.add((_uuid(line), session, said))
        history.append(said)
        new_lines.append((line, frame))
    return new_lines


def _said(line: dict[str, Any]) -> str:
    """Returns what a line says and who says it, to be compared with other lines."""
    return f"{line.get('type')} {json_text(_content(line))}"


def _lines_by_conversation(
    lines: list[tuple[dict[str, Any], Frame]],
) -> dict[str, list[tuple[dict[str, Any], Frame]]]:
    """Returns the lines of each conversation, by its id: the session's, with `/AGENT` for a sub-agent and `#NUMBER`
    from the second conversation of a session on."""
    parents = {
        _uuid(line): _uuid(line, "parentUuid") for line, _ in lines if line.get("isSidechain")
    }
    groups: dict[str, list[tuple[dict[str, Any], Frame]]] = {}
    name_by_line: dict[str, str] = {}
    part_numbers: dict[str, int] = {}  # of the conversation that a session is in
    without_session: list[tuple[dict[str, Any], Frame]] = []
    for line, frame in lines:
        session = line.get("sessionId")
        if not isinstance(session, str) and not _is_spoken(line):
            without_session.append((line, frame))
            continue
        name = session if isinstance(session, str) else ""
        if line.get("isSidechain"):
            name = f"{name}/{line.get('agentId') or _root(_uuid(line), parents)}"
        else:
            if _begins_anew(line) and name in groups:
                part_numbers[name] = part_numbers.get(name, 1) + 1
            name = f"{name}#{part_numbers[name]}" if name in part_numbers else name
        groups.setdefault(name, []).append((line, frame))
        name_by_line[_uuid(line)] = name
    for name in [name for name in groups if name.rpartition("#")[0] in groups]:
        session, _, _ = name.rpartition("#")
        if not any(_is_spoken(line) and not _begins_anew(line) for line, _ in groups[name]):
            groups[session] += groups.pop(name)  # nothing was said after `/clear`
    for line, frame in without_session:  # summaries and snapshots name a line, not a session
        named_line = _uuid(line, "leafUuid") or _uuid(line, "messageId")
        name = name_by_line.get(named_line, next(iter(groups), ""))
        groups.setdefault(name, []).append((line, frame))
    return groups


def _uuid(line: dict[str, Any], key: str = "uuid") -> str:
    """Returns the id under a key; "" if there is none."""
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _root(uuid: str, parents: dict[str, str]) -> str:
    """Returns the first line of the side chain in which a line lies; loops of parents end."""
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
    return line.get("type") == "user" and _CLEAR in json_text(_content(line))


def _is_prompt(line: dict[str, Any]) -> bool:
    """Returns whether a line is what the user wrote, and neither a tool's answer nor a note of the program."""
    answers = any(part.get("type") == "tool_result" for part in objects_in(_content(line)))
    return line.get("type") == "user" and not answers and not line.get("isMeta")


def _find_taken_back(lines: list[dict[str, Any]]) -> set[str]:
    """Returns the ids of lines that follow a prompt in whose place the user wrote another later."""
    last_prompts: dict[str, str] = {}  # by the line that they follow
    gone: set[str] = set()
    for line in lines:
        parent, uuid = _uuid(line, "parentUuid"), _uuid(line)
        if not parent or not uuid or line.get("isSidechain") or not _is_prompt(line):
            continue
        if parent in last_prompts:
            gone.add(last_prompts[parent])
        last_prompts[parent] = uuid
    for line in lines if gone else ():  # a line stands after the one that it follows
        if _uuid(line, "parentUuid") in gone and _uuid(line):
            gone.add(_uuid(line))
    return gone


class _Item(NamedTuple):
    """A message of a session, and the lines that have its parts."""

    message: ChatMessage
    lines: list[Any]


class _SessionItems(NamedTuple):
    """What the lines of a session are.

    Attributes:
        items: The messages.
        events: Lines that are none.
        unknown: Those of the events that say they are messages.
        left_out: What stays in the original record only: the id of a line and the key within it.
    """

    items: list[_Item]
    events: list[Any]
    unknown: list[Any]
    left_out: set[tuple[int, str | int]]


def _collect_items(lines: list[dict[str, Any]]) -> _SessionItems:
    """Sorts the lines of a session; those with the parts of one message of the assistant are joined."""
    items: list[_Item] = []
    events: list[Any] = []
    unknown: list[Any] = []
    left_out: set[tuple[int, str | int]] = set()
    current_id: Any = None  # of the last message of the assistant, which `current` is
    current: _Item | None = None
    for line in lines:
        if (queued := _queued_prompt(line)) is not None:
            items += [_Item(message, [line]) for message in with_context_apart(queued)]
            continue
        if not _is_spoken(line) or _begins_anew(line):
            events.append(line)
            if not _is_spoken(line) and line.get("type", "user") in _SPOKEN:
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
        items += [_Item(part, [line]) for part in with_context_apart(message)]
        if message_id is not None:
            current_id, current = message_id, items[-1]
    return _SessionItems(items, events, unknown, left_out)


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of the lines of a session as a draft.

    Raises:
        BadRecord: No line has a message.
    """
    record = as_object(record)
    lines = [line for line in record.get("lines", ()) if isinstance(line, dict)]
    items, events, unknown, left_out = _collect_items(lines)
    messages: list[Message] = []
    for item in items:
        try:
            messages += messages_of(item.message, len(messages) + 1)
        except BadRecord:
            events += item.lines
            unknown += item.lines
    if not messages:
        raise BadRecord("no messages")
    fields = _session_facts(lines)
    results = [line for line in events if line.get("type") == "result"]
    events = [line for line in events if line.get("type") != "result"]
    if events:
        fields["events"] = events
    if record.get(_TAKEN_BACK):
        fields[_TAKEN_BACK] = record[_TAKEN_BACK]
    began = next((line["timestamp"] for line in lines if line.get("timestamp")), None)
    conversation = Conversation(
        str(record.get("id") or fallback_id),
        tuple(messages),
        created_at=began if isinstance(began, str) else None,
    )
    truth = {"result": results} if results else {}
    return ParsedRecord(
        conversation,
        {**fields, **truth},
        frozenset(truth),
        left_out=frozenset(left_out),
        unknown=tuple(unknown),
    )


def _message_of_line(line: dict[str, Any]) -> ChatMessage:
    """Returns the message of a line in the form of a chat API, with what else the line says as facts."""
    message = line["message"]
    role = message["role"]
    if role == "user" and (line.get("isMeta") or line.get("isCompactSummary")):
        role = "system"  # the program wrote it, not the user
    facts = {key: line[key] for key in line if key not in _NOT_FACTS and line[key] is not None}
    rest = {key: message[key] for key in message if key not in ("role", "content", "type", "id")}
    rest = {key: value for key, value in rest.items() if value is not None}
    named = {"message_id": message["id"]} if "id" in message else {}
    content = {"content": message["content"]} if "content" in message else {}
    return {**facts, **rest, **named, **content, "role": role}


def _queued_prompt(line: dict[str, Any]) -> ChatMessage | None:
    """Returns what the user wrote while the model worked, which is an attachment; None for another line."""
    attachment = object_or_empty(line.get("attachment"))
    prompt = attachment.get("prompt")
    if attachment.get("type") != "queued_command" or not isinstance(prompt, str | list):
        return None
    role = "user" if attachment.get("commandMode", "prompt") == "prompt" else "system"
    facts = {key: line[key] for key in line if key not in (*_NOT_FACTS, "attachment")}
    return {**facts, "role": role, "content": prompt}


def _join_parts(item: ChatMessage, more: ChatMessage) -> None:
    """Adds a further part of the same message."""
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    added = more.get("content")
    added = added if isinstance(added, list) else [{"type": "text", "text": added or ""}]
    item["content"] = [*parts, *added]
    item["uuids"] = [*item.get("uuids", [item.get("uuid")]), more.get("uuid")]
    for key in ("usage", "stop_reason"):
        if key in more:
            item[key] = more[key]


def _session_facts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns what the lines of a session have in common, each value once."""
    session: dict[str, Any] = {}
    for key in _OF_SESSION:
        values = list(dict.fromkeys(line[key] for line in lines if isinstance(line.get(key), str)))
        if values:
            session[key] = values[0] if len(values) == 1 else values
    summary = next((line.get("summary") for line in lines if line.get("type") == "summary"), None)
    if isinstance(summary, str):
        session["summary"] = summary
    return session


CLAUDE_CODE = Reader(
    "claude_code",
    recognize,
    read,
    arrange=arrange,
    conditions=5,
    title="sessions of Claude Code",
    sample="claude_code/tool_call_conversation.jsonl",
)
"""Reads the sessions in files of Claude Code."""
