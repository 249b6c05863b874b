"""The readers, one for each format: how its records are recognised, and where they have messages, ids and truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.conversation import Conversation, Message
from engine.formats import recllmsim, sgd, sharded_logs
from engine.formats.json_values import BadRecord, as_object, kind_of
from engine.formats.normalise import (
    Draft,
    created_at,
    looks_like_messages,
    read_messages,
    record_id,
)


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of one format.

    Attributes:
        recognise: Returns in words why a record looks like this format; None if it does not.
        read: Returns the draft of a record; the second argument is the id for a record without one. Raises BadRecord.
    """

    name: str
    recognise: Callable[[Any], str | None]
    read: Callable[[Any, str], Draft]


def _rest(record: Mapping[str, Any], *used: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in used}


def _recognise_uniform(record: Any) -> str | None:
    if not isinstance(record, dict) or not looks_like_messages(record.get("messages")):
        return None
    if isinstance(record.get("truth"), dict):
        return "the records have `messages` with role and content, and `truth`"
    if isinstance(record.get("dataset"), str) and isinstance(record.get("id"), str):
        return "the records have `id`, `dataset` and `messages` with role and content"
    return None


def _read_uniform(record: Any, fallback_id: str) -> Draft:
    record = as_object(record)
    truth = record.get("truth")
    if truth is not None and not isinstance(truth, dict):
        raise BadRecord(f"`truth` is {kind_of(truth)}, not an object")
    conversation = Conversation(
        record_id(record, ("id",), fallback_id),
        read_messages(record.get("messages"), rendered_calls=True),
        {},
        truth,
        created_at(record),
    )
    return Draft(conversation, _rest(record, "id", "messages", "truth"))


_OPENAI_IDS = ("id", "conversation_id", "custom_id")


def _request(record: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the part of an OpenAI record that holds `messages`, with its name before it."""
    for name in ("body", "request"):
        part = record.get(name)
        if isinstance(part, dict) and "messages" in part:
            return name, part
    return "", record


def _choice(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the first choice of the answer in a batch output or a logged call; None if there is none."""
    response = record.get("response")
    if isinstance(response, dict):
        body = response.get("body")
        record = body if isinstance(body, dict) else response
    choices = record.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return choices[0] if isinstance(choices[0].get("message"), dict) else None
    return None


def _recognise_openai(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    name, request = _request(record)
    if looks_like_messages(request.get("messages")):
        where = f"`{name}` with `messages`" if name else "`messages`"
        return f"the records have {where} with role and content"
    if "messages" not in request and _choice(record) is not None:
        return "the records have `response` with `choices`"
    return None


def _read_openai(record: Any, fallback_id: str) -> Draft:
    record = as_object(record)
    name, request = _request(record)
    choice = _choice(record)
    messages: tuple[Message, ...] = ()
    if "messages" in request or choice is None:
        messages = read_messages(request.get("messages", []))
    fields = _rest(record, *_OPENAI_IDS, "messages", "choices", "response", name)
    if name:
        fields |= _rest(request, "messages")
    if choice is not None:
        messages += read_messages([choice["message"]])
        if isinstance(choice.get("finish_reason"), str):
            fields["finish_reason"] = choice["finish_reason"]
    found = record_id(record, _OPENAI_IDS, fallback_id)
    return Draft(Conversation(found, messages, {}, None, created_at(record)), fields)


def _turns(record: Mapping[str, Any]) -> tuple[str, Any]:
    name = "conversations" if "conversations" in record else "conversation"
    return name, record.get(name)


def _recognise_sharegpt(record: Any) -> str | None:
    if not isinstance(record, dict):
        return None
    name, turns = _turns(record)
    if not looks_like_messages(turns):
        return None
    keys = "from and value" if "from" in turns[0] else "role and content"
    return f"the records have `{name}` with {keys}"


_SHAREGPT_IDS = ("id", "conversation_id", "conversation_hash")


def _read_sharegpt(record: Any, fallback_id: str) -> Draft:
    record = as_object(record)
    name, turns = _turns(record)
    messages = read_messages(turns if turns is not None else [])
    system = record.get("system")
    used = [*_SHAREGPT_IDS, name]
    if isinstance(system, str):
        used.append("system")
        if system:
            messages = (Message("system", system), *messages)
    found = record_id(record, _SHAREGPT_IDS, fallback_id)
    conversation = Conversation(found, messages, {}, None, created_at(record))
    return Draft(conversation, _rest(record, *used))


def _recognise_tau_bench(record: Any) -> str | None:
    if isinstance(record, dict) and "task_id" in record and looks_like_messages(record.get("traj")):
        return "the records have `task_id` and `traj` with role and content"
    return None


def _read_tau_bench(record: Any, fallback_id: str) -> Draft:
    record = as_object(record)
    found = record_id(record, ("task_id",), fallback_id)
    if found != fallback_id and "trial" in record:
        found += "/" + record_id(record, ("trial",), "")
    conversation = Conversation(
        found, read_messages(record.get("traj", [])), created_at=created_at(record)
    )
    return Draft(conversation, _rest(record, "traj"), frozenset({"info"}))


def _recognise_messages(record: Any) -> str | None:
    if not looks_like_messages(record):
        return None
    keys = "role and content" if "role" in record[0] else "from and value"
    return f"the records are bare lists of messages with {keys}"


def _read_messages(record: Any, fallback_id: str) -> Draft:
    return Draft(Conversation(fallback_id, read_messages(record)))


READERS: tuple[Reader, ...] = (
    Reader("uniform", _recognise_uniform, _read_uniform),
    Reader("openai", _recognise_openai, _read_openai),
    Reader("sharegpt", _recognise_sharegpt, _read_sharegpt),
    Reader("tau_bench", _recognise_tau_bench, _read_tau_bench),
    Reader("sharded_logs", sharded_logs.recognise, sharded_logs.read),
    Reader("recllmsim", recllmsim.recognise, recllmsim.read),
    Reader("sgd", sgd.recognise, sgd.read),
    Reader("messages", _recognise_messages, _read_messages),
)
"""All readers in the order of detection: those that require more keys come first."""


def recognised(record: Any) -> bool:
    """Whether a value is a record of any format."""
    return any(reader.recognise(record) for reader in READERS)
