"""Sessions (rollouts) of Codex: a file of lines, in which items of the Responses API are the conversation.

Events repeat the items for the screen; what they say beyond them is kept as metadata. Older files have the items
themselves as lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import BadRecord, as_object, object_or_empty
from engine.formats.messages.call_messages import is_response_item, response_items
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalise import messages_of
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.records import ParsedRecord, Reader

_KINDS = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
"""Types of the lines of a rollout."""
_SPOKEN = {"user_message": "user", "agent_message": "assistant"}
"""Events that repeat a message, and the role of its speaker."""
_COUNTS = "token_count"
"""Event that only counts tokens."""


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict):
        return None
    if record.get("type") in _KINDS and isinstance(record.get("payload"), dict):
        return "the records have `type`, `timestamp` and `payload`, as rollouts of Codex"
    if _is_exec(record):
        return "the records are events of `codex exec --json`"
    if record.get("record_type") == "state" or _is_old_header(record):
        return "the records are lines of older rollouts of Codex"
    if "payload" not in record and (is_response_item(record) or _is_old_message(record)):
        return "the records are items of the Responses API, as in older rollouts of Codex"
    return None


def _is_exec(record: dict[str, Any]) -> bool:
    """Returns whether a line is an event of `codex exec --json`."""
    kind = record.get("type")
    if not isinstance(kind, str) or "payload" in record:
        return False
    item = record.get("item")
    ran = kind.startswith("item.") and isinstance(item, dict) and not item.keys().isdisjoint(_TYPES)
    return ran or (kind == "thread.started" and "thread_id" in record) or kind in _TURNS


_TYPES = ("type", "item_type")
"""Keys of the type of an item."""
_TURNS = ("turn.started", "turn.completed", "turn.failed")
"""Types of events at the beginning and the end of a turn."""


def _exec_items(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the items of a stream of events in the form of the Responses API; of an item the last state counts."""
    states: dict[str, dict[str, Any]] = {}
    for line in lines:
        item = line.get("item")
        if isinstance(item, dict) and _is_exec(line):
            states[str(item.get("id"))] = item
    for name, item in states.items():
        kind = next((item[key] for key in _TYPES if isinstance(item.get(key), str)), "")
        if kind in ("agent_message", "assistant_message"):
            yield {"type": "message", "role": "assistant", "content": item.get("text") or ""}
        elif kind == "user_message":
            yield {"type": "message", "role": "user", "content": item.get("text") or ""}
        elif kind == "reasoning":
            yield {"type": "reasoning", "summary": [{"text": item.get("text") or ""}]}
        else:
            answers = ("aggregated_output", "result", "error", "status", "exit_code")
            beside = ("id", *_TYPES, *answers)
            arguments = {key: item[key] for key in item if key not in beside}
            answer = {key: item[key] for key in answers if item.get(key) not in (None, "")}
            text = answer.pop("aggregated_output", None)
            yield {"type": "function_call", "name": kind, "arguments": arguments, "call_id": name}
            yield {
                "type": "function_call_output",
                "call_id": name,
                "output": text if isinstance(text, str) else answer,
                **({"ended": answer} if text is not None and answer else {}),
            }


def _exec_repeats(lines: list[dict[str, Any]]) -> Iterator[tuple[int, str | int]]:
    """Yields the places of earlier states of items, and of what only tells how far an item is."""
    last = {
        str(item.get("id")): id(item)
        for line in lines
        if (item := object_or_empty(line.get("item")))
    }
    for line in lines:
        item = object_or_empty(line.get("item"))
        if last.get(str(item.get("id"))) != id(item):
            yield (id(line), "item")
        yield from ((id(item), key) for key in ("id", "status"))


def _is_old_header(record: dict[str, Any]) -> bool:
    return record.keys() >= {"id", "timestamp", "instructions"} and "messages" not in record


def _is_old_message(record: dict[str, Any]) -> bool:
    """Returns whether a line is a message of an older rollout."""
    content = record.get("content")
    first = content[0] if isinstance(content, list) and content else None
    return (
        record.get("type") == "message"
        and isinstance(record.get("role"), str)
        and isinstance(first, dict)
        and first.get("type") in ("input_text", "output_text")
    )


def arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields the lines of a file as one frame, after those that are broken."""
    members: list[Frame] = []
    for frame in frames:
        if frame.reason is None and isinstance(frame.value, dict):
            members.append(frame)
        else:
            yield frame._replace(reason=frame.reason or "it is no line of a rollout")
    if members:
        yield joined_frame(members, {"lines": [frame.value for frame in members]})


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of the lines of a rollout as a draft.

    Raises:
        BadRecord: No line has a message.
    """
    items: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    about: list[dict[str, Any]] = []
    name, began, model = "", None, None
    left_out: set[tuple[int, str | int]] = set()
    lines = [entry for entry in as_object(record).get("lines", ()) if isinstance(entry, dict)]
    is_prompt = _prompt_test(lines)
    if any(map(_is_exec, lines)):
        items += _exec_items(lines)
        name = next((str(line["thread_id"]) for line in lines if line.get("thread_id")), "")
        about += [line for line in lines if "item" not in line]
        left_out.update(_exec_repeats(lines))
        lines = []
    for position, line in enumerate(lines):
        kind, body = line.get("type"), line.get("payload")
        time = line.get("timestamp")
        if kind not in _KINDS or not isinstance(body, dict):
            old = is_response_item(line) or line.get("type") == "message"
            if old:
                written_by = {} if is_prompt(position, line) else {"role": "developer"}
                items.append({**line, **(written_by if line.get("role") == "user" else {})})
            else:
                about.append(line)
                name = name or str(line.get("id") or "")
                began = began or as_time(time)
        elif kind == "response_item":
            written = body.get("role") == "assistant" or str(body.get("type")).endswith("_call")
            facts: dict[str, Any] = {"model": model} if model and written else {}
            if body.get("role") == "user" and not is_prompt(position, body):
                facts = {"role": "developer"}  # the program wrote it
            if "role" in body or is_response_item(body):
                items.append({**body, **facts, "timestamp": time})
            else:
                events.append(body)
        elif kind == "compacted":
            items.append(
                {"type": "message", "role": "system", "content": body.get("message") or ""}
            )
            items[-1]["timestamp"] = time
            left_out.add((id(body), "replacement_history"))
        elif kind == "event_msg":
            if body.get("type") == _COUNTS:
                left_out.add((id(line), "payload"))
            else:
                events.append(body)
        else:
            if kind == "session_meta":
                name = name or str(body.get("id") or "")
                began = began or as_time(body.get("timestamp"))
                items += _system_message(body)
            else:
                model = body.get("model", model)
            rest = {key: body[key] for key in body if key != "turn_id"}
            if rest not in about:
                about.append(rest)
    if not any(item.get("role") == "assistant" or is_response_item(item) for item in items):
        items += _messages_of_events(events)
    messages: list[Message] = []
    for message in response_items(items):
        messages += messages_of(_without_empty(message), len(messages) + 1)
    if not messages:
        raise BadRecord("no messages")
    texts = MessageTexts(messages)
    fields = {
        "session": texts.without(about),
        "events": texts.without([entry for entry in events if entry.get("type") not in _MARKS]),
    }
    conversation = Conversation(name or fallback_id, tuple(messages), created_at=began)
    fields_kept = {key: value for key, value in fields.items() if value}
    times = {str(json.loads(message.facts or "{}").get("timestamp")) for message in messages}
    for line in lines:
        if str(line.get("timestamp")) not in times:
            left_out.add((id(line), "timestamp"))
        body = line.get("payload")
        if isinstance(body, dict) and line.get("type") in ("event_msg", "turn_context"):
            left_out.add((id(body), "turn_id"))
            if body.get("type") in _MARKS:
                left_out.add((id(body), "last_agent_message"))
    return ParsedRecord(conversation, fields_kept, left_out=frozenset(left_out))


_MARKS = ("task_started", "task_complete")
"""Events that tell the beginning and end of the work; the end is an outcome."""


_OF_PROGRAM = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions")
"""Beginnings of what the program writes in the name of the user."""


def _prompt_test(lines: list[dict[str, Any]]) -> Callable[[int, dict[str, Any]], bool]:
    """Tells whether the message of a user at a position is what the user wrote: an event beside it says so."""
    prompt_positions = {
        position
        for position, line in enumerate(lines)
        if line.get("type") == "event_msg"
        and object_or_empty(line.get("payload")).get("type") == "user_message"
    }

    def own(position: int, body: dict[str, Any]) -> bool:
        """Returns whether the user wrote the message at a position."""
        if prompt_positions:
            return not prompt_positions.isdisjoint((position - 1, position + 1))
        content = body.get("content")
        first = content[0] if isinstance(content, list) and content else {}
        text = object_or_empty(first).get("text", content)
        return not (isinstance(text, str) and text.lstrip().startswith(_OF_PROGRAM))

    return own


def _system_message(session: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the system message of a session."""
    base = session.get("base_instructions")
    text = base.get("text") if isinstance(base, dict) else None
    return [{"type": "message", "role": "system", "content": text}] if isinstance(text, str) else []


def _messages_of_events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the messages of events, for files that have no items."""
    messages = []
    for event in events:
        role = _SPOKEN.get(str(event.get("type")))
        if role is not None and isinstance(event.get("message"), str):
            message = {"type": "message", "role": role, "content": event["message"]}
            messages.append(message)
    return messages


def _without_empty(message: ChatMessage) -> ChatMessage:
    return {key: value for key, value in message.items() if value is not None}


CODEX = Reader(
    "codex",
    recognise,
    read,
    arrange=arrange,
    conditions=3,
    title="rollouts of Codex",
    sample="codex_rollout_1.jsonl",
)
"""Reads a file of lines as one conversation."""
