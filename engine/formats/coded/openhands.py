"""Trajectories of OpenHands: events with actions and observations (version 0), or with kinds (version 1).

A record is the list of events of a file, or an object with them as `history`, as its evaluations write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.accounting import MessageTexts
from engine.formats.json_values import json_text, list_or_empty, object_or_empty, objects_in
from engine.formats.messages.chat_message import ChatMessage
from engine.formats.messages.normalize import read_in_turn
from engine.formats.messages.parts import answer_text
from engine.formats.messages.times import as_time
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import json_within
from engine.formats.records import ParsedRecord, Reader

_LISTS = ("history", "trajectory", "events")
"""Keys of the list of events in a record."""
_IDS = ("instance_id", "conversation_id", "session_id", "id")
"""Fields that may name a conversation, the first that there is."""
_JUDGED = (
    "test_result",
    "report",
    "resolved",
    "error",
    "fine_grained_report",
    "eval_output",
    "instance",
)
"""Fields that say how well the task was solved; they become truth."""
_PROGRAM = frozenset(
    ("recall", "change_agent_state", "agent_state_changed", "null", "condensation")
)
"""Actions and observations of the program itself, which are no messages."""
_SPOKEN = frozenset(("message", "system"))
"""Actions that are a message."""

_NOT_ARGUMENTS = frozenset(
    (
        *("thought", "hidden", "confirmation_state", "security_risk", "is_static", "blocking"),
        *("impl_source", "translated_ipython_code", "agent_state"),
    )
)
"""What OpenHands adds to the arguments of a call."""


def recognize(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if _is_event(record):
        return "the records are events with `action` or `observation`, as of OpenHands"
    if isinstance(record, dict):
        for key in _LISTS:
            events = _events(record.get(key))
            if events and _is_event(events[0]):
                return f"the records have `{key}` with events of OpenHands"
    return None


def _is_event(event: Any) -> bool:
    """Returns whether a value is an event of either version."""
    if not isinstance(event, dict):
        return False
    kind = event.get("kind")
    if isinstance(kind, str) and "source" in event:
        return kind.endswith(("Event", "Condensation"))
    acts = isinstance(event.get("action"), str) and isinstance(event.get("args"), dict)
    sees = isinstance(event.get("observation"), str) and isinstance(event.get("extras"), dict)
    return "source" in event and (acts or sees)


def _events(listed: Any) -> list[Any]:
    """Events in a list; older evaluations have pairs of an action and its observation."""
    if not isinstance(listed, list):
        return []
    return [event for entry in listed for event in (entry if isinstance(entry, list) else [entry])]


def arrange(frames: Iterable[Frame]) -> Iterator[Frame]:
    """Yields events that are records of their own as one frame, and other records as they are."""
    events: list[Frame] = []
    for frame in frames:
        if frame.reason is None and _is_event(frame.value):
            events.append(frame)
        else:
            yield frame
    if events:
        yield joined_frame(events, {"history": [frame.value for frame in events]})


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; truth are the results of tests and the instance that was to be solved.

    Raises:
        BadRecord: It has no events, or none of them is a message.
    """
    key = next((key for key in _LISTS if isinstance(record, dict) and record.get(key)), None)
    events = _events(record[key]) if key is not None else []
    items: list[ChatMessage] = []
    others: list[Any] = []
    unknown: list[Any] = []
    for event in events:
        if not isinstance(event, dict):
            unknown.append(event)
            continue
        read_event = _version_1 if "kind" in event else _version_0
        message = read_event(event)
        if message is None:
            others.append(event)
        elif not _join_to_last(items, message):
            items.append(message)
    messages = read_in_turn(items)
    texts = MessageTexts(messages)
    rest = {name: value for name, value in record.items() if name not in (key, *_JUDGED)}
    fields = texts.without(rest) or {}
    if rest_of_events := texts.without(events):
        fields["events"] = rest_of_events
    truth = {name: record[name] for name in _JUDGED if record.get(name) is not None}
    name = next(
        (record[id_key] for id_key in _IDS if isinstance(record.get(id_key), str)), fallback_id
    )
    began = next(
        (as_time(event.get("timestamp")) for event in events if isinstance(event, dict)), None
    )
    conversation = Conversation(name, tuple(messages), created_at=began)
    return ParsedRecord(conversation, {**fields, **truth}, frozenset(truth), unknown=tuple(unknown))


def _join_to_last(items: list[ChatMessage], message: ChatMessage) -> bool:
    """Adds a call to the message before if the model wrote both in one answer."""
    before = items[-1] if items else {}
    same = message.get("response") is not None and before.get("response") == message["response"]
    if not same or "tool_calls" not in message or "tool_calls" not in before:
        return False
    before["tool_calls"] = [*before["tool_calls"], *message["tool_calls"]]
    if message["content"] and message["content"] != before["content"]:
        before["content"] = "\n".join(filter(None, (before["content"], message["content"])))
    return True


def _version_0(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event with `action` or `observation`; None if it is none."""
    facts = {"timestamp": event.get("timestamp")}
    call_metadata = object_or_empty(event.get("tool_call_metadata"))
    args = object_or_empty(event.get("args"))
    action = _text_or_empty(event.get("action"))
    observation = _text_or_empty(event.get("observation"))
    if action in _PROGRAM or observation in _PROGRAM:
        return None
    if action in _SPOKEN:
        role = "user" if event.get("source") == "user" else "assistant"
        if action == "system":
            role = "system"
        content = args.get("content") or event.get("message") or ""
        pictures = [
            {"type": "image_url", "image_url": url} for url in list_or_empty(args.get("image_urls"))
        ]
        return {**facts, "role": role, "content": [content, *pictures] if pictures else content}
    if observation:
        message = {
            **facts,
            "role": "tool",
            "content": event.get("content") or event.get("message") or "",
        }
        message["name"] = call_metadata.get("function_name") or observation
        if call_metadata.get("tool_call_id"):
            message["tool_call_id"] = call_metadata["tool_call_id"]
        return message
    if not action:
        return None
    response = object_or_empty(call_metadata.get("model_response"))
    call = _find_written_call(response, call_metadata) or {
        "name": call_metadata.get("function_name") or action,
        "arguments": {key: args[key] for key in args if key not in _NOT_ARGUMENTS},
        "id": call_metadata.get("tool_call_id"),
    }
    content = _find_written_text(response)
    thought = args.get("thought") if action != "think" else None
    message = {**facts, "role": "assistant", "tool_calls": [call]}
    message["content"] = content or (thought if isinstance(thought, str) else "")
    if response.get("id"):
        message |= {"response": response["id"], "model": response.get("model")}
        message["usage"] = response.get("usage")
    return message


def _text_or_empty(value: Any) -> str:
    """Returns a value that is text; empty for any other."""
    return value if isinstance(value, str) else ""


def _answer_messages(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages in the response of a model."""
    return objects_in([choice.get("message") for choice in objects_in(response.get("choices"))])


def _find_written_call(
    response: dict[str, Any], call_metadata: dict[str, Any]
) -> dict[str, Any] | None:
    """Returns the call as the model wrote it."""
    for message in _answer_messages(response):
        for call in objects_in(message.get("tool_calls")):
            if call.get("id") == call_metadata.get("tool_call_id"):
                return call
    return None


def _find_written_text(response: dict[str, Any]) -> str:
    """Returns the first text in the response of a model; empty if there is none."""
    texts = (message.get("content") for message in _answer_messages(response))
    return next((text for text in texts if isinstance(text, str)), "")


def _version_1(event: dict[str, Any]) -> ChatMessage | None:
    """Returns the message of an event with a kind; None if it is none."""
    kind = event["kind"]
    facts = {"timestamp": event.get("timestamp")}
    if kind == "SystemPromptEvent":
        return {**facts, "role": "system", "content": _as_parts(event.get("system_prompt"))}
    if kind == "MessageEvent":
        message = object_or_empty(event.get("llm_message"))
        assumed_role = "user" if event.get("source") == "user" else "assistant"
        content = [*_as_parts(message.get("content")), *_as_parts(event.get("extended_content"))]
        draft = {**facts, "role": message.get("role") or assumed_role, "content": content}
        return _with_reasoning(draft, message)
    if kind == "ActionEvent":
        action = object_or_empty(json_within(event.get("action")))
        call = object_or_empty(event.get("tool_call"))
        arguments = call.get("arguments") or (call.get("function") or {}).get("arguments")
        written = {
            "name": event.get("tool_name") or call.get("name") or action.get("kind") or "action",
            "arguments": arguments or {key: action[key] for key in action if key != "kind"},
            "id": event.get("tool_call_id"),
        }
        draft = {**facts, "role": "assistant", "content": _as_parts(event.get("thought"))}
        draft |= {"tool_calls": [written], "response": event.get("llm_response_id")}
        return _with_reasoning(draft, event)
    if kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        observation = event.get("observation", event.get("error", event.get("rejection_reason")))
        draft = {**facts, "role": "tool", "content": _observed_text(observation)}
        return {
            **draft,
            "name": event.get("tool_name"),
            "tool_call_id": event.get("tool_call_id"),
        }
    return None


def _with_reasoning(message: ChatMessage, source: dict[str, Any]) -> ChatMessage:
    """Adds the reasoning in `source` to a message, if there is any; returns that message."""
    if isinstance(source.get("reasoning_content"), str):
        message["reasoning_content"] = source["reasoning_content"]
    return message


def _as_parts(value: Any) -> list[Any]:
    """Returns a content, which may be a text, a part or a list of parts, as a list of parts."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, dict):
        return [value]
    return list_or_empty(value)


def _observed_text(observation: Any) -> str:
    """Returns what a tool answered, as text."""
    if not isinstance(observation, dict):
        return answer_text(observation)
    for key in ("content", "output", "text", "error"):
        if observation.get(key):
            return answer_text(observation[key])
    return json_text(
        {key: value for key, value in observation.items() if key != "kind" and value is not None}
    )


OPENHANDS = Reader(
    "openhands",
    recognize,
    read,
    arrange=arrange,
    conditions=4,
    title="trajectories of OpenHands",
    sample="openhands_output.jsonl",
    seen="0.39 and SDK 1, 2025-11",
)
"""Reads the events of a trajectory as one conversation."""
