"""Reads answers of models from the events of their streams, as a proxy saves them: lines, or server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.json_values import as_object, object_or_empty, objects_in
from engine.formats.messages.call_messages import messages_answered
from engine.formats.messages.normalize import read_in_turn
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.records import ParsedRecord, Reader

_FIRST_EVENTS = ("message_start", "response.created")
"""Types of events that begin an answer."""
_MESSAGE_EVENTS = frozenset((
    *_FIRST_EVENTS, "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "ping",
))  # fmt: skip
"""Types of events of Anthropic's streams, and those that begin one."""
_RESPONSE_PREFIXES = (
    "response.output_", "response.content_part", "response.function_call_arguments", "response.reasoning",
    "response.in_progress", "response.completed", "response.incomplete", "response.failed",
)  # fmt: skip
"""Beginnings of the types of events of the Responses API."""
_FACTS = ("model", "usage", "stop_reason", "finish_reason", "created", "created_at")
"""Keys of an event that are facts of the answer; the last event with a key counts."""


def _recognize(record: Any) -> str | None:
    """Returns in words why a record looks like an event of a stream; None if it does not."""
    if not isinstance(record, dict):
        return None
    kind = str(record.get("type"))
    is_chunk = record.get("object") == "chat.completion.chunk"
    if not is_chunk and kind not in _MESSAGE_EVENTS and not kind.startswith(_RESPONSE_PREFIXES):
        return None
    return "the records are events of the stream of an answer"


def _arrange(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields a frame for each answer; broken lines come first. The whole file is in memory at once."""
    frames_by_answer: dict[str, list[Frame]] = {}
    current = ""  # id of the answer that the events belong to
    for frame in frames:
        if frame.reason is not None or _recognize(frame.value) is None:
            yield frame._replace(reason=frame.reason or "it is no event of a stream")
            continue
        event = frame.value
        if event.get("type") in _FIRST_EVENTS:
            answer = object_or_empty(event.get("message") or event.get("response"))
            current = str(answer.get("id") or frame.number)
        elif event.get("object") == "chat.completion.chunk":
            current = str(event.get("id"))
        frames_by_answer.setdefault(current, []).append(frame)
    for name, members in frames_by_answer.items():
        value = {"id": name, "events": [member.value for member in members]}
        yield joined_frame(members, value, number=members[0].number, name=name or None)


def _read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the answer that the events add up to as a draft.

    Raises:
        BadRecord: They add up to none.
    """
    record = as_object(record)
    events = objects_in(record.get("events"))
    messages = read_in_turn(messages_answered(events))
    facts: dict[str, Any] = {}
    for event in events:
        answer = object_or_empty(event.get("message") or event.get("response") or event)
        choice = next(iter(objects_in(event.get("choices"))), {})
        for record_part in (answer, object_or_empty(event.get("delta")), choice, event):
            facts |= {key: record_part[key] for key in _FACTS if record_part.get(key) is not None}
    start_time = as_time(facts.pop("created_at", None) or facts.pop("created", None))
    name = str(record.get("id") or fallback_id)
    left_out = frozenset((id(record["events"]), position) for position in range(len(events)))
    conversation = Conversation(name, tuple(messages), created_at=start_time)
    return ParsedRecord(conversation, facts, left_out=left_out)


STREAMS = Reader(
    "streams",
    _recognize,
    _read,
    arrange=_arrange,
    conditions=3,
    title="events of the streams of OpenAI and Anthropic, a line each or server-sent",
)
"""Reads the answers in files of stream events."""
