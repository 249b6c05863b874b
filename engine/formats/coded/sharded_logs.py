"""The format of the logs of Laban et al., "LLMs Get Lost In Multi-Turn Conversation" (2025): messages and notes.

A note gives the revealed shard, the category of a reply, or the score of an answer. Notes become truth, each with the
number of messages before it; they do not reach a model.
"""

from __future__ import annotations

from typing import Any

from engine.base.conversation import Conversation
from engine.formats.json_values import BadRecord, as_object, kind_of
from engine.formats.messages.normalise import looks_like_messages, read_messages, record_id
from engine.formats.messages.times import created_at
from engine.formats.records import ParsedRecord, Reader

_META = ("user_model", "system_model", "dataset_fn", "git_version")
NOTE = "log"


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if not isinstance(record, dict) or not isinstance(record.get("conv_type"), str):
        return None
    if not looks_like_messages(record.get("trace")):
        return None
    return "the records have `conv_type` and `trace` with role and content"


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; in the truth, `reward` is the score and `complete` whether it was solved.

    Raises:
        BadRecord: The record does not have this format.
    """
    record = as_object(record)
    trace = record.get("trace")
    if not isinstance(trace, list):
        raise BadRecord(f"`trace` is {kind_of(trace)}, not a list")
    spoken: list[Any] = []
    notes: list[dict[str, Any]] = []
    for item in trace:
        if isinstance(item, dict) and item.get("role") == NOTE:
            about = {key: value for key, value in item.items() if key not in ("role", "content")}
            notes.append({"after": len(spoken), "note": item.get("content"), **about})
        else:
            spoken.append(item)
    meta = {name: record[name] for name in _META if name in record}
    rest = {name: value for name, value in record.items() if name not in ("trace", *_META)}
    truth = {**rest, "condition": record.get("conv_type"), "notes": notes}
    if isinstance(record.get("task"), str):
        truth["goal"] = record["task"]
    if isinstance(record.get("score"), int | float):
        truth["reward"] = record["score"]
        truth["complete"] = record["score"] == 1
    first = spoken[0] if spoken and isinstance(spoken[0], dict) else {}
    found = record_id(record, ("conv_id",), fallback_id)
    return ParsedRecord(Conversation(found, read_messages(spoken), meta, truth, created_at(first)))


SHARDED_LOGS = Reader(
    "sharded_logs",
    recognise,
    read,
    conditions=2,
    title='logs of "LLMs Get Lost In Multi-Turn Conversation" (Laban et al. 2025)',
)
