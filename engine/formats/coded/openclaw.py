"""Telemetry of OpenClaw: a line for each event, of which `agent.start` has the history of the session so far.

A session is one conversation: the longest history, then what the events after it tell. Its sub-agents are sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.coded.repeats import MessageTexts
from engine.formats.json_values import BadRecord, as_object, json_text
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalise import as_time, read_in_turn
from engine.formats.opening.framing import Frame
from engine.formats.reader import ParsedRecord

_KINDS = ("message.", "agent.", "tool.", "llm.", "session.")
_SUB_AGENT = ":subagent:"
_NOT_THE_USER = "[Inter-session message]"
_ROLES = {"toolResult": "tool", "custom": "system", "bashExecution": "tool"}


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return None
    kind = record["type"]
    if kind.startswith(_KINDS) and (
        "sessionKey" in record or (kind.startswith("message.") and "channel" in record)
    ):
        return "the records have `type` and `sessionKey` or `channel`, as telemetry of OpenClaw"
    return None


def arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields a frame for each session, in the order of their beginnings; broken lines come first.

    The whole file is in memory at once. Events that name no session that began belong to the session before them.
    """
    members: list[Frame] = []
    for frame in frames:
        if frame.reason is not None or recognise(frame.value) is None:
            yield frame._replace(reason=frame.reason or "it is no event of OpenClaw")
        else:
            members.append(frame)
    begun = [frame.value for frame in members if frame.value["type"] == "agent.start"]
    known = dict.fromkeys(str(event.get("sessionKey")) for event in begun)
    main = next((key for key in known if _SUB_AGENT not in key), next(iter(known), ""))
    sessions: dict[str, list[Frame]] = {key: [] for key in known}
    for frame in members:
        key = str(frame.value.get("sessionKey"))
        main = key if key in known and _SUB_AGENT not in key else main
        sessions.setdefault(key if key in known else main, []).append(frame)
    for key, events in sessions.items():
        raw = b"\n".join(frame.raw for frame in events)
        value = {"id": key, "events": [frame.value for frame in events]}
        yield Frame(events[0].number, raw, value, name=key or None)


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of the events of a session as a draft.

    Raises:
        BadRecord: No event has a message.
    """
    events = [one for one in as_object(record).get("events", ()) if isinstance(one, dict)]
    lengths = [len(_history(event)) for event in events]
    longest = lengths.index(max(lengths)) if any(lengths) else 0
    items = [_message(one) for one in _history(events[longest])] if events else []
    for event in events[longest:]:
        message = _of_event(event)
        if message is not None and not any(_same(message, one) for one in items[-_NEAR:]):
            items.append(message)
    messages = read_in_turn(items)
    rest = MessageTexts(messages).without(events)
    times = (as_time(event.get("timestamp", event.get("ts"))) for event in events)
    conversation = Conversation(
        str(record.get("id") or fallback_id),
        tuple(messages),
        created_at=next(filter(None, times), None),
    )
    return ParsedRecord(conversation, {"events": rest} if rest else {})


_NEAR = 3
"""Messages among which an event may repeat one: `message.sending` and `message.out`, both starts of an agent."""


def _history(event: dict[str, Any]) -> list[Any]:
    found = event.get("messages")
    return found if isinstance(found, list) and event.get("type") == "agent.start" else []


def _message(item: Any) -> ChatMessage:
    if not isinstance(item, dict):
        raise BadRecord("a message of the history is no object")
    role = item.get("role")
    rest = {key: item[key] for key in item if key not in ("role", "toolCallId", "toolName")}
    message = {**rest, "role": _ROLES.get(str(role), role)}
    if item.get("toolCallId"):
        message["tool_call_id"] = item["toolCallId"]
    if item.get("toolName"):
        message["name"] = item["toolName"]
    return message


def _of_event(event: dict[str, Any]) -> ChatMessage | None:
    kind = event.get("type")
    if kind == "agent.start" and event.get("prompt"):
        prompt = event["prompt"]
        role = "system" if str(prompt).startswith(_NOT_THE_USER) else "user"
        return {"role": role, "content": prompt}
    if kind == "tool.start" and event.get("toolName"):
        call = {
            "name": event["toolName"],
            "arguments": event.get("params"),
            "id": event.get("toolCallId"),
        }
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if kind == "tool.end" and event.get("result") is not None:
        result = event["result"]
        text = result if isinstance(result, str | list) else json_text(result)
        found = {"role": "tool", "content": text, "tool_call_id": event.get("toolCallId")}
        return {**found, "name": event.get("toolName")}
    if kind in ("message.out", "message.sending") and isinstance(event.get("content"), str):
        return {"role": "assistant", "content": event["content"]}
    return None


def _same(message: ChatMessage, other: ChatMessage) -> bool:
    return message == other and message["role"] != "tool" and "tool_calls" not in message
