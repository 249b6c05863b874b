"""Schema-guided dialogues on tasks (Rastogi et al. 2020; also of MultiWOZ 2.2), with turns of a user and a system.

A system turn may hold the service call that was made before it; it becomes a tool call and its result. Annotations
become truth or stay in the original bytes only: no act, slot or state reaches a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engine.base.conversation import Conversation, Message, ToolCall
from engine.formats.json_values import BadRecord, as_object, kind_of
from engine.formats.messages.normalise import messages_of, record_id
from engine.formats.records import ParsedRecord, Reader

_ROLES = {"USER": "user", "SYSTEM": "assistant"}
"""Speakers and the roles that they stand for."""
_VERSION = re.compile(r"_\d+$")
"""Matches the number at the end of a service's name."""


def recognise(record: Any) -> str | None:
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
    for number, turn in enumerate(turns, 1):
        if not isinstance(turn, dict):
            raise BadRecord(f"turn {number} is {kind_of(turn)}, not an object")
        frames = turn.get("frames")
        for frame in frames if isinstance(frames, list) else ():
            if isinstance(frame, dict):
                messages.extend(_service_call(frame))
                intents.update(_intent(frame))
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
    return ParsedRecord(Conversation(external_id, tuple(messages), {}, truth))


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
    state = frame.get("state")
    intent = state.get("active_intent") if isinstance(state, dict) else None
    return {intent: None} if isinstance(intent, str) and intent != "NONE" else {}


SGD = Reader(
    "sgd",
    recognise,
    read,
    frozenset(("actions", "slots", "state")),
    conditions=2,
    title="schema-guided dialogues (Rastogi et al. 2020), also of MultiWOZ 2.2",
    sample="sgd.json",
)
"""Reads schema-guided dialogues."""
