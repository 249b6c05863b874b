"""Histories of tasks of Cline, and telemetry of OpenClaw.

Cline and programs made of it write messages of Anthropic, tool calls often as XML in the text. A result of a tool
stands in a message of the user that begins with `[name for 'what'] Result:`. It becomes the answer of a tool, unless
the user wrote something in it. Calls in the text stay there, as the model wrote them.

OpenClaw writes a line for each event, of which `agent.start` has the history of the session so far. A session is one
conversation: the longest history, then what the events after it tell. Its sub-agents are sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import (
    BadRecord,
    as_object,
    json_text,
    list_or_empty,
    object_or_empty,
    objects_in,
    without_keys,
)
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.inserted import with_context_apart
from engine.formats.messages.normalize import looks_like_message, read_in_turn
from engine.formats.messages.parts import texts_of
from engine.formats.messages.times import as_time, created_at
from engine.formats.opening.framing import Frame, group_frames
from engine.formats.records import ParsedRecord, Reader

# Cline

_CLINE_RESULT = re.compile(r"\s*\[([\w.-]+)(?: for [^\n]*)?\] Result:")
"""Beginning of a message that Cline writes in the name of the user, with the result of a tool."""

_CLINE_FEEDBACK = re.compile(r"<(feedback|user_message|answer)>")
"""Finds the tags of what a user wrote into a message with the result of a tool."""

_CLINE_DETAILS = "<environment_details>"
"""Beginning of the part that Cline adds to a message."""

_CLINE_CHECKED_MESSAGES = 6
"""Number of first messages in which the marks of Cline must appear."""


def _recognize_cline(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, list) or not record or not looks_like_message(record[0]):
        return None
    beginning = json_text(record[:_CLINE_CHECKED_MESSAGES])
    if _CLINE_DETAILS in beginning and ("<task>" in beginning or "] Result:" in beginning):
        return "the records are lists of messages with `<environment_details>`, as of Cline"
    return None


def _read_cline(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation as a draft.

    Raises:
        BadRecord: It is no list of messages.
    """
    if not isinstance(record, list):
        raise BadRecord("it is no list of messages")
    messages = read_in_turn(
        message
        for item in record
        for message in (
            with_context_apart(_with_tool_role(item)) if isinstance(item, dict) else [item]
        )
    )
    start_time = created_at({"timestamp": object_or_empty(record[0]).get("ts")})
    return ParsedRecord(Conversation(fallback_id, tuple(messages), created_at=start_time))


def _with_tool_role(item: ChatMessage) -> ChatMessage:
    """Returns a message with the role `tool` if it is the result of a tool, and with the name of that tool."""
    if item.get("role") != "user":
        return item
    texts = texts_of(item.get("content"))
    parts = objects_in(item.get("content"))
    has_result = any(part.get("type") == "tool_result" for part in parts)
    if has_result and all(text.startswith(_CLINE_DETAILS) for text in texts):
        return {**item, "role": "tool"}
    result = _CLINE_RESULT.match(texts[0]) if texts else None
    if result is None or any(map(_CLINE_FEEDBACK.search, texts)):
        return item
    return {**item, "role": "tool", "name": result[1]}


CLINE_HISTORY = Reader(
    "cline_history",
    _recognize_cline,
    _read_cline,
    conditions=4,
    title="conversation histories of Cline",
)


# OpenClaw

_OPENCLAW_EVENT_TYPES = ("message.", "agent.", "tool.", "llm.", "session.")
"""Beginnings of the types of events of OpenClaw."""

_OPENCLAW_SUB_AGENT = ":subagent:"
"""Part of the key of a session that a sub-agent has."""

_OPENCLAW_SESSION_PROMPT = "[Inter-session message]"
"""Beginning of a prompt that another session wrote."""

_OPENCLAW_ROLES = {"toolResult": "tool", "custom": "system", "bashExecution": "tool"}
"""The role for each name that OpenClaw gives a speaker."""

_OPENCLAW_REPEAT_DISTANCE = 3
"""Number of last messages that an event may repeat: `message.out` tells again what `message.sending` did."""


def _recognize_openclaw(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return None
    kind = record["type"]
    if kind.startswith(_OPENCLAW_EVENT_TYPES) and (
        "sessionKey" in record or (kind.startswith("message.") and "channel" in record)
    ):
        return "the records have `type` and `sessionKey` or `channel`, as telemetry of OpenClaw"
    return None


def _arrange_openclaw(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each session, in the order of their beginnings; broken lines come first.

    The whole file is in memory at once. Events without the key of a session that began belong to the last main session
    before them, which is one of no sub-agent.
    """
    members: list[Frame] = []
    for frame in frames:
        if frame.reason is not None or _recognize_openclaw(frame.value) is None:
            yield frame._replace(reason=frame.reason or "it is no event of OpenClaw")
        else:
            members.append(frame)
    keys = dict.fromkeys(
        str(frame.value.get("sessionKey"))
        for frame in members
        if frame.value["type"] == "agent.start"
    )
    main = next((key for key in keys if _OPENCLAW_SUB_AGENT not in key), next(iter(keys), ""))
    sessions: dict[str, list[Frame]] = {key: [] for key in keys}
    for frame in members:
        key = str(frame.value.get("sessionKey"))
        if key in keys and _OPENCLAW_SUB_AGENT not in key:
            main = key
        sessions.setdefault(key if key in keys else main, []).append(frame)
    yield from group_frames(sessions, "events")


def _read_openclaw(record: Any, fallback_id: str, _outer: Any) -> ParsedRecord:
    """Returns the conversation of the events of a session as a draft.

    Raises:
        BadRecord: No event has a message.
    """
    events = objects_in(as_object(record).get("events"))
    lengths = [len(_history_of(event)) for event in events]
    longest = lengths.index(max(lengths)) if any(lengths) else 0
    items = [_message_of_history(entry) for entry in _history_of(events[longest])] if events else []
    for event in events[longest:]:
        message = _message_of_event(event)
        if message is not None and not any(
            _is_repeated(message, entry) for entry in items[-_OPENCLAW_REPEAT_DISTANCE:]
        ):
            items.append(message)
    messages = read_in_turn(items)
    remaining = MessageTexts(messages).without(events)
    times = (as_time(event.get("timestamp", event.get("ts"))) for event in events)
    conversation = Conversation(
        str(record.get("id") or fallback_id),
        tuple(messages),
        created_at=next(filter(None, times), None),
    )
    return ParsedRecord(conversation, {"events": remaining} if remaining else {})


def _history_of(event: dict[str, Any]) -> list[Any]:
    """Returns the messages so far that the start of an agent repeats; empty for other events."""
    return list_or_empty(event.get("messages")) if event.get("type") == "agent.start" else []


def _message_of_history(item: Any) -> ChatMessage:
    """Returns an entry of a session's history in the form of a chat API.

    Raises:
        BadRecord: It is no object.
    """
    if not isinstance(item, dict):
        raise BadRecord("a message of the history is no object")
    role = item.get("role")
    remaining = without_keys(item, "role", "toolCallId", "toolName")
    message = {**remaining, "role": _OPENCLAW_ROLES.get(str(role), role)}
    if item.get("toolCallId"):
        message["tool_call_id"] = item["toolCallId"]
    if item.get("toolName"):
        message["name"] = item["toolName"]
    return message


def _message_of_event(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event of OpenClaw in the form of a chat API; None if the event is no message.

    The start of an agent has a prompt, the start of a tool is a call and its end an answer, and what is sent
    (`message.out`, `message.sending`) the assistant says.
    """
    kind = event.get("type")
    if kind == "agent.start" and event.get("prompt"):
        prompt = event["prompt"]
        role = "system" if str(prompt).startswith(_OPENCLAW_SESSION_PROMPT) else "user"
        return {"role": role, "content": prompt}
    if kind == "tool.start" and event.get("toolName"):
        call = {"name": event["toolName"], "arguments": event.get("params")}
        call["id"] = event.get("toolCallId")
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if kind == "tool.end" and event.get("result") is not None:
        result = event["result"]
        text = result if isinstance(result, str | list) else json_text(result)
        answer = {"role": "tool", "content": text, "tool_call_id": event.get("toolCallId")}
        return {**answer, "name": event.get("toolName")}
    if kind in ("message.out", "message.sending") and isinstance(event.get("content"), str):
        return {"role": "assistant", "content": event["content"]}
    return None


def _is_repeated(message: ChatMessage, earlier: ChatMessage) -> bool:
    """Returns whether a message repeats an earlier one; equal calls and results of tools are messages of their own."""
    return message == earlier and message["role"] != "tool" and "tool_calls" not in message


OPENCLAW = Reader(
    "openclaw",
    _recognize_openclaw,
    _read_openclaw,
    arrange=_arrange_openclaw,
    conditions=4,
    title="telemetry of OpenClaw",
    sample="openclaw_telemetry.jsonl",
)
"""Reads the sessions in a file of telemetry of OpenClaw."""
