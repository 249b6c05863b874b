"""Sessions (rollouts) of Codex: a file of lines, in which items of the Responses API are the conversation.

Events repeat the items for the screen; what they say beyond them is kept as metadata. Older files, which
have the items themselves as lines, are read by `message_lines`, and the events of `codex exec` by a mapping file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import (
    BadRecord,
    as_object,
    object_or_empty,
    objects_in,
    without_keys,
)
from engine.formats.messages.call_messages import is_response_item, response_items
from engine.formats.messages.normalize import messages_of
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.records import ParsedRecord, Reader

_LINE_TYPES = (
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "history_mutation",
)  # fmt: skip
"""Types of the lines of a rollout, as Codex calls the file of a session."""
_SPOKEN_EVENTS = {"user_message": "user", "agent_message": "assistant"}
"""Events of Codex that repeat a message -> the role of its speaker."""
_TOKEN_COUNT = "token_count"
"""Type of the event of Codex that only counts tokens."""

_WORK_EVENTS = ("task_started", "task_complete")
"""Types of the events of Codex that tell the beginning and the end of the work; the end is an outcome."""

_PROGRAM_PREFIXES = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions")
"""Beginnings of the messages that Codex writes in the name of the user."""


def _recognize(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict):
        return None
    if record.get("type") in _LINE_TYPES and isinstance(record.get("payload"), dict):
        return "the records have `type`, `timestamp` and `payload`, as rollouts of Codex"
    return None


def _arrange(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields the lines of a file as one frame, after those that are broken."""
    members: list[Frame] = []
    for frame in frames:
        if frame.reason is None and isinstance(frame.value, dict):
            members.append(frame)
        else:
            yield frame._replace(reason=frame.reason or "it is no line of a rollout")
    if members:
        yield joined_frame(members, {"lines": [frame.value for frame in members]})


@dataclass(slots=True)
class _Rollout:
    """What the lines of a rollout say, as far as they were read.

    Attributes:
        items: The items that are the conversation, as the Responses API has them.
        events: Events, and items of unknown kinds.
        unknown: Lines and items of unknown kinds.
        settings: What the lines say of the session and of its turns, each once; also lines of unknown kinds.
        name: Id of the session; "" until it is known.
        start_time: When the session began, in ISO 8601.
        model: The model that writes at this place.
        left_out: What stays in the original record only: the id of an object and the key within it.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    unknown: list[dict[str, Any]] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    name: str = ""
    start_time: str | None = None
    model: Any = None
    left_out: set[tuple[int, str | int]] = field(default_factory=set)

    def read_line(self, line: dict[str, Any], is_marked: bool | None) -> None:
        """Reads a line.

        Args:
            is_marked: Whether an event beside the line says that the user wrote it; None without such events.
        """
        kind, body = line.get("type"), line.get("payload")
        if kind not in _LINE_TYPES or not isinstance(body, dict):
            self.settings.append(line)
            self.unknown.append(line)
        elif kind == "response_item":
            self._read_item(body, line.get("timestamp"), is_marked)
        elif kind == "history_mutation":  # Trae
            for item in objects_in(body.get("items")):
                self._read_item(item, line.get("timestamp"), is_marked)
        elif kind == "compacted":  # the summary that takes the place of what was said before
            if body.get("message"):
                summary = {"type": "message", "role": "system", "content": body["message"]}
                self.items.append({**summary, "timestamp": line.get("timestamp")})
            self.left_out.add((id(body), "replacement_history"))
        elif kind == "event_msg":
            if body.get("type") == _TOKEN_COUNT:
                self.left_out.add((id(line), "payload"))
            else:
                self.events.append(body)
        else:
            self._read_settings(body, is_session=kind == "session_meta")

    def _read_item(self, body: dict[str, Any], time: Any, is_marked: bool | None) -> None:
        """Reads an item of the Responses API; the arguments are those of `read_line`, and the time of the line."""
        is_of_model = body.get("role") == "assistant" or str(body.get("type")).endswith("_call")
        facts: dict[str, Any] = {"model": self.model} if self.model and is_of_model else {}
        is_prompt = not _begins_as_program(body) if is_marked is None else is_marked
        if body.get("role") == "user" and not is_prompt:
            facts = {"role": "developer"}  # the program wrote it
        if "role" in body or is_response_item(body):
            self.items.append({**body, **facts, "timestamp": time})
        else:
            self.events.append(body)
            self.unknown.append(body)

    def _read_settings(self, body: dict[str, Any], *, is_session: bool) -> None:
        """Reads what is said of the session, or of a turn."""
        if is_session:
            self.name = self.name or str(body.get("id") or "")
            self.start_time = self.start_time or as_time(body.get("timestamp"))
            self.items += _system_message(body)
        else:
            self.model = body.get("model", self.model)
        remaining = without_keys(body, "turn_id")
        if remaining not in self.settings:
            self.settings.append(remaining)

    def leave_out_repetitions(self, lines: list[dict[str, Any]], messages: list[Message]) -> None:
        """Leaves out of the account the times of lines without a message, and what events repeat of the messages."""
        times = {str(json.loads(message.facts or "{}").get("timestamp")) for message in messages}
        for line in lines:
            if str(line.get("timestamp")) not in times:
                self.left_out.add((id(line), "timestamp"))
            body = line.get("payload")
            if isinstance(body, dict) and line.get("type") in ("event_msg", "turn_context"):
                self.left_out.add((id(body), "turn_id"))
                if body.get("type") in _WORK_EVENTS:
                    self.left_out.add((id(body), "last_agent_message"))


def _read(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation of the lines of a rollout as a draft.

    Raises:
        BadRecord: No line has a message.
    """
    lines = objects_in(as_object(record).get("lines"))
    rollout = _Rollout()
    for line, is_marked in zip(lines, _prompt_marks(lines), strict=True):
        rollout.read_line(line, is_marked)
    items, events = rollout.items, rollout.events
    if not any(item.get("role") == "assistant" or is_response_item(item) for item in items):
        items += _messages_of_events(events)
    messages: list[Message] = []
    for item in response_items(items):
        message = {key: value for key, value in item.items() if value is not None}
        messages += messages_of(message, len(messages) + 1)
    if not messages:
        raise BadRecord("no messages")
    texts = MessageTexts(messages)
    fields = {
        "session": texts.without(rollout.settings),
        "events": texts.without(
            [entry for entry in events if entry.get("type") not in _WORK_EVENTS]
        ),
    }
    fields = {key: value for key, value in fields.items() if value}
    rollout.leave_out_repetitions(lines, messages)
    conversation = Conversation(
        rollout.name or fallback_id, tuple(messages), created_at=rollout.start_time
    )
    return ParsedRecord(
        conversation,
        fields,
        left_out=frozenset(rollout.left_out),
        unknown=tuple(rollout.unknown),
    )


def _prompt_marks(lines: list[dict[str, Any]]) -> list[bool | None]:
    """Returns for each line whether an event beside it says that the user wrote it; None for all if no line is such an
    event."""
    positions = {
        position
        for position, line in enumerate(lines)
        if line.get("type") == "event_msg"
        and object_or_empty(line.get("payload")).get("type") == "user_message"
    }
    if not positions:
        return [None] * len(lines)
    return [not positions.isdisjoint((place - 1, place + 1)) for place in range(len(lines))]


def _begins_as_program(body: dict[str, Any]) -> bool:
    """Returns whether a message of the user begins as one that the program wrote."""
    content = body.get("content")
    first = content[0] if isinstance(content, list) and content else {}
    text = object_or_empty(first).get("text", content)
    return isinstance(text, str) and text.lstrip().startswith(_PROGRAM_PREFIXES)


def _system_message(session: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the system message of a session as an item; [] if it has none."""
    text = object_or_empty(session.get("base_instructions")).get("text")
    return [{"type": "message", "role": "system", "content": text}] if isinstance(text, str) else []


def _messages_of_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the messages of events as items, for files that have no items."""
    return [
        {"type": "message", "role": role, "content": event["message"]}
        for event in events
        if isinstance(event.get("message"), str)
        and (role := _SPOKEN_EVENTS.get(str(event.get("type")))) is not None
    ]


CODEX = Reader(
    "codex",
    _recognize,
    _read,
    arrange=_arrange,
    conditions=3,
    title="rollouts of Codex",
    sample="codex_rollout_1.jsonl",
    seen="0.146, 2026-08",
)
"""Reads a file of lines of Codex as one conversation."""
