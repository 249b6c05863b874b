"""Dialogues on tasks whose calls of an interface stand in annotations: schema-guided dialogues, and Taskmaster 4.

Schema-guided dialogues (Rastogi et al. 2020; also of MultiWOZ 2.2) have turns of a user and a system. A system turn may
hold the service call that was made before it; it becomes a tool call and its result. Annotations become truth or stay
in the original bytes only: no act, slot or state reaches a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from engine.base.conversation import Conversation, Message, ToolCall
from engine.formats.json_values import BadRecord, as_object, kind_of
from engine.formats.messages.normalize import messages_of, record_id
from engine.formats.records import ParsedRecord, Reader

_ROLES = {"USER": "user", "SYSTEM": "assistant"}
"""Speakers and the roles that they stand for."""
_ANNOTATIONS = ("actions", "slots", "state")
"""Keys of a frame that stay in the original record only."""
_VERSION = re.compile(r"_\d+$")
"""Matches the number at the end of a service's name."""

_CALL_ANNOTATIONS = ("api_call", "request", "api_response", "response")
"""Names of the annotations that are part of a call or of its answer."""

_TRUTH_FIELDS = {"vertical": "goal", "scenario": "scenario", "instructions": "instructions"}
"""Fields of a record that are truth, and the names that they get."""


def recognize(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or "dialogue_id" not in record:
        return None
    turns = record.get("turns")
    first = turns[0] if isinstance(turns, list) and turns else None
    if isinstance(first, dict) and "speaker" in first and "utterance" in first:
        return "the records have `dialogue_id` and `turns` with speaker and utterance"
    return None


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; truth are `services`, `intents`, and `goal`, which is made of the services.

    Raises:
        BadRecord: The record does not have this format.
    """
    record = as_object(record)
    turns = record.get("turns")
    if not isinstance(turns, list):
        raise BadRecord(f"`turns` is {kind_of(turns)}, not a list")
    if not turns:
        raise BadRecord("no turns")
    messages: list[Message] = []
    intents: dict[str, None] = {}
    left_out: set[tuple[int, str | int]] = set()
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict):
            raise BadRecord(f"turn {number} is {kind_of(turn)}, not an object")
        frames = turn.get("frames")
        for frame in frames if isinstance(frames, list) else ():
            if isinstance(frame, dict):
                messages.extend(_service_call(frame))
                intents.update(_intent(frame))
                left_out.update((id(frame), key) for key in _ANNOTATIONS)
        speaker = turn.get("speaker")
        role = _ROLES.get(speaker) if isinstance(speaker, str) else None
        spoken = {"role": role or speaker, "content": turn.get("utterance")}
        messages.extend(messages_of(spoken, number))
    services = record.get("services", [])
    truth: dict[str, Any] = {"services": services, "intents": list(intents)}
    if (
        isinstance(services, list)
        and services
        and all(isinstance(service, str) for service in services)
    ):
        truth["goal"] = "+".join(sorted({_VERSION.sub("", service) for service in services}))
    external_id = record_id(record, ("dialogue_id",), fallback_id)
    conversation = Conversation(external_id, tuple(messages), {}, truth)
    return ParsedRecord(conversation, left_out=frozenset(left_out))


def _service_call(frame: Mapping[str, Any]) -> list[Message]:
    """Returns the tool call of a frame and its result as messages; [] if it has no call."""
    call = frame.get("service_call")
    method = call.get("method") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(method, str):
        return []
    arguments = json.dumps(call.get("parameters"), ensure_ascii=False)
    results = json.dumps(frame.get("service_results", []), ensure_ascii=False)
    return [
        Message("assistant", "", tool_calls=(ToolCall(method, arguments),)),
        Message("tool", results, name=method),
    ]


def _intent(frame: Mapping[str, Any]) -> dict[str, None]:
    """Returns the active intent of a frame as the only key of a dictionary; {} if it has none."""
    state = frame.get("state")
    intent = state.get("active_intent") if isinstance(state, dict) else None
    return {intent: None} if isinstance(intent, str) and intent != "NONE" else {}


SGD = Reader(
    "sgd",
    recognize,
    read,
    conditions=2,
    title="schema-guided dialogues (Rastogi et al. 2020), also of MultiWOZ 2.2",
    sample="sgd.json",
)
"""Reads schema-guided dialogues."""


# In Taskmaster 4 a call is two annotations of an utterance, its name and its request; so is an answer. They come after
# what the user said, and before what the assistant says.


def _recognize_taskmaster(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or "conversation_id" not in record:
        return None
    utterances = record.get("utterances")
    if not isinstance(utterances, list) or not all(map(_is_utterance, utterances)):
        return None
    if not any(
        note["name"] == "api_call"
        for utterance in utterances
        for note in _call_annotations(utterance)
    ):
        return None
    return "the records have `utterances[].annotations[]` with api_call, as of Taskmaster 4"


def _read_taskmaster(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of a record as a draft.

    Raises:
        BadRecord: An utterance is no message, or there is none.
    """
    record = as_object(record)
    messages: list[Message] = []
    left_out: set[tuple[int, str | int]] = set()
    utterances = record.get("utterances")
    if not isinstance(utterances, list):
        raise BadRecord("the utterances are no list")
    for utterance in map(as_object, utterances):
        left_out.add((id(utterance), "segments"))
        for note in _call_annotations(utterance):
            left_out.add((id(note), "context"))
            left_out.add((id(note), "name"))
        rest = {
            key: utterance[key] for key in utterance if key not in ("speaker", "text", "segments")
        }
        calls = _call_annotations(utterance)
        if calls or not rest.get("annotations"):
            annotations = rest.pop("annotations", None) or ()
            others = [note for note in annotations if note not in calls]
            rest |= {"annotations": others} if others else {}
        number = len(messages) + 1
        spoken = messages_of(
            {"role": utterance.get("speaker"), "content": utterance.get("text")}, number, facts=rest
        )
        called = list(_annotated_calls(utterance, number))
        is_user = spoken[0].role == "user"
        messages += [*spoken, *called] if is_user else [*called, *spoken]
    if not messages:
        raise BadRecord("no messages")
    truth = {name: record[key] for key, name in _TRUTH_FIELDS.items() if record.get(key)}
    read_fields = ("conversation_id", "utterances", *_TRUTH_FIELDS)
    fields = {key: record[key] for key in record if key not in read_fields}
    external_id = record_id(record, ("conversation_id",), fallback_id)
    return ParsedRecord(
        Conversation(external_id, tuple(messages)),
        {**fields, **truth},
        frozenset(truth),
        left_out=frozenset(left_out),
    )


def _is_utterance(value: Any) -> bool:
    """Returns whether a value is an utterance with a speaker and a text."""
    return isinstance(value, dict) and isinstance(value.get("speaker"), str) and "text" in value


def _call_annotations(utterance: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the annotations of an utterance that are of calls and answers, in order."""
    listed = utterance.get("annotations")
    return [
        note
        for note in (listed if isinstance(listed, list) else ())
        if isinstance(note, dict)
        and note.get("name") in _CALL_ANNOTATIONS
        and isinstance(note.get("value"), str)
    ]


def _annotated_calls(utterance: dict[str, Any], number: int) -> Iterator[Message]:
    """Yields the calls and answers that stand in the annotations of an utterance, as messages."""
    name, call, answering = "", "", ""
    for note in _call_annotations(utterance):
        kind, value, context = note["name"], note["value"], str(note.get("context", ""))
        if kind == "api_call":
            name, call = value, context
        elif kind == "api_response":
            answering = value
        elif kind == "request":
            made = {"name": name or "api", "arguments": value, "id": call or None}
            item: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [made]}
            yield from messages_of(item, number)
        else:
            answer = {"role": "tool", "content": value, "name": answering or name or None}
            yield from messages_of({**answer, "tool_call_id": call or None}, number)


TASKMASTER_CALLS = Reader(
    "taskmaster_calls",
    _recognize_taskmaster,
    _read_taskmaster,
    conditions=5,
    title="dialogues of Taskmaster 4, with calls of an interface",
    sample="taskmaster4.json",
)
"""Reads dialogues of Taskmaster 4."""
