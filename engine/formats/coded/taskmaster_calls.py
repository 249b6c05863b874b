"""Dialogues of Taskmaster 4, in which the calls of an interface and its answers are annotations of an utterance.

A call is two annotations, its name and its request; so is an answer. They come after what the user said, and before
what the assistant says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.base.conversation import Conversation, Message
from engine.formats.json_values import BadRecord, as_object
from engine.formats.messages.normalise import messages_of, record_id
from engine.formats.reader import ParsedRecord

_KINDS = ("api_call", "request", "api_response", "response")
_TRUTH = {"vertical": "goal", "scenario": "scenario", "instructions": "instructions"}


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or "conversation_id" not in record:
        return None
    said = record.get("utterances")
    if not isinstance(said, list) or not all(map(_is_utterance, said)):
        return None
    if not any(note["name"] == "api_call" for one in said for note in _notes(one)):
        return None
    return "the records have `utterances[].annotations[]` with api_call, as of Taskmaster 4"


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of a record as a draft.

    Raises:
        BadRecord: An utterance is no message, or there is none.
    """
    record = as_object(record)
    messages: list[Message] = []
    left_out: set[tuple[int, str | int]] = set()
    said = record.get("utterances")
    if not isinstance(said, list):
        raise BadRecord("the utterances are no list")
    for one in map(as_object, said):
        left_out.add((id(one), "segments"))
        for note in _notes(one):
            left_out.add((id(note), "context"))
            left_out.add((id(note), "name"))
        rest = {key: one[key] for key in one if key not in ("speaker", "text", "segments")}
        calls = _notes(one)
        if calls or not rest.get("annotations"):
            listed = rest.pop("annotations", None) or ()
            others = [note for note in listed if note not in calls]
            rest |= {"annotations": others} if others else {}
        number = len(messages) + 1
        utterance = messages_of(
            {"role": one.get("speaker"), "content": one.get("text")}, number, facts=rest
        )
        called = list(_calls(one, number))
        first = utterance[0].role == "user"
        messages += [*utterance, *called] if first else [*called, *utterance]
    if not messages:
        raise BadRecord("no messages")
    truth = {name: record[key] for key, name in _TRUTH.items() if record.get(key)}
    known = ("conversation_id", "utterances", *_TRUTH)
    fields = {key: record[key] for key in record if key not in known}
    found = record_id(record, ("conversation_id",), fallback_id)
    return ParsedRecord(
        Conversation(found, tuple(messages)),
        {**fields, **truth},
        frozenset(truth),
        left_out=frozenset(left_out),
    )


def _is_utterance(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("speaker"), str) and "text" in value


def _notes(utterance: dict[str, Any]) -> list[dict[str, Any]]:
    """The annotations of an utterance that are of calls and answers."""
    listed = utterance.get("annotations")
    return [
        note
        for note in (listed if isinstance(listed, list) else ())
        if isinstance(note, dict)
        and note.get("name") in _KINDS
        and isinstance(note.get("value"), str)
    ]


def _calls(utterance: dict[str, Any], number: int) -> Iterator[Message]:
    name, call, answering = "", "", ""
    for note in _notes(utterance):
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
