"""Messages of LangChain (`dumpd`, `messages_to_dict`, `model_dump`), and states and checkpoints of LangGraph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.json_values import BadRecord, json_text, list_or_empty, object_or_empty
from engine.formats.messages.chat_message import ChatMessage, as_message, langchain_message
from engine.formats.messages.normalise import read_in_turn
from engine.formats.messages.times import created_at
from engine.formats.opening.framing import Frame, joined_frame
from engine.formats.paths import as_word, read_path, without
from engine.formats.records import ParsedRecord, Reader

_MESSAGES = read_path(
    "messages | values.messages | channel_values.messages | checkpoint.channel_values.messages"
    " | kwargs.messages | state.messages | output.messages"
)
"""Where a state or a checkpoint has its messages."""
_THREAD = read_path(
    "config.configurable.thread_id | metadata.thread_id | configurable.thread_id | thread_id"
)
"""Where a state names its thread."""
_STEP = read_path("metadata.step")
"""Where a state has its number within the thread."""
_OTHERS = "other states"
"""Key under which the longest state of a thread has the others."""


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if isinstance(record, dict) and langchain_message(record) and "role" not in record:
        return "the records are messages of LangChain"
    listed = record if isinstance(record, list) else _listed(record)
    first = listed[0] if listed and isinstance(listed[0], dict) else {}
    if langchain_message(first) and "role" not in first:
        return "the records have messages of LangChain"
    return None


def _listed(record: Any) -> list[Any]:
    return list_or_empty(_MESSAGES.first(record)) if isinstance(record, dict) else []


def arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields messages that stand alone as one conversation, and of the states of a thread the longest.

    All records are in memory at once.
    """
    alone: list[Frame] = []
    threads: dict[str, list[Frame]] = {}
    for frame in frames:
        if frame.reason is not None:
            yield frame
        elif isinstance(frame.value, dict) and langchain_message(frame.value):
            alone.append(frame)
        elif thread := as_word(_THREAD.first(frame.value)):
            threads.setdefault(thread, []).append(frame)
        else:
            yield frame
    if alone:
        yield joined_frame(alone, [frame.value for frame in alone])
    for thread, states in threads.items():
        longest = max(states, key=lambda frame: (len(_listed(frame.value)), _step(frame.value)))
        others = [frame.value for frame in states if frame is not longest]
        rest = {_OTHERS: others} if others else {}
        value = {**longest.value, **rest}
        yield joined_frame(states, value, number=longest.number, name=thread)


def _step(state: Any) -> float:
    step = _STEP.first(state)
    return step if isinstance(step, int | float) else 0


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; other states of the same thread are left in the original record.

    Raises:
        BadRecord: It has no messages.
    """
    places = [] if isinstance(record, list) else _MESSAGES.find(record)
    listed = record if isinstance(record, list) else _listed(record)
    items: list[ChatMessage] = []
    left_out = {(id(item), "id") for item in listed if isinstance(item, dict) and "lc" in item}
    for item in listed:
        message = as_message(item)
        if message is None:
            raise BadRecord(
                f"message {len(items) + 1} is none of LangChain: {json_text(item)[:60]}"
            )
        items.append(message)
    messages = read_in_turn(items)
    if isinstance(record, list):
        return ParsedRecord(
            Conversation(fallback_id, tuple(messages)), left_out=frozenset(left_out)
        )
    used = [match.trail for match in places if match.trail] + [(_OTHERS,)]
    rest = without(record, used)
    conversation = Conversation(fallback_id, tuple(messages), created_at=created_at(record))
    return ParsedRecord(
        conversation,
        object_or_empty(rest),
        left_out=frozenset(left_out | {(id(record), _OTHERS)}),
    )


LANGCHAIN = Reader(
    "langchain",
    recognise,
    read,
    arrange=arrange,
    conditions=3,
    title="messages of LangChain, states and checkpoints of LangGraph",
    sample="made/langgraph_state.json",
)
"""Reads messages of LangChain and states of LangGraph."""
