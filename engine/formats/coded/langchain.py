"""Messages of LangChain (`dumpd`, `messages_to_dict`, `model_dump`), and states and checkpoints of LangGraph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.json_values import BadRecord, json_text, list_or_empty, object_or_empty
from engine.formats.messages.chat_message import ChatMessage, as_message, langchain_message
from engine.formats.messages.normalize import read_in_turn
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
_OTHER_STATES = "other states"
"""Key under which the longest state of a thread has the others."""


def _recognize(record: Any) -> str | None:
    """Returns in words why a record looks like this format; None if it does not."""
    if isinstance(record, dict) and langchain_message(record) and "role" not in record:
        return "the records are messages of LangChain"
    messages = _messages_in(record)
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    if langchain_message(first) and "role" not in first:
        return "the records have messages of LangChain"
    return None


def _messages_in(record: Any) -> list[Any]:
    """Returns the messages of a state, or of a record that is a list of messages; empty for any other value."""
    if isinstance(record, list):
        return record
    return list_or_empty(_MESSAGES.first(record)) if isinstance(record, dict) else []


def _arrange(frames: Iterable[Frame]) -> Iterator[Frame]:
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
        longest = max(
            states, key=lambda frame: (len(_messages_in(frame.value)), _step_number(frame.value))
        )
        value = longest.value
        if others := [frame.value for frame in states if frame is not longest]:
            value = {**value, _OTHER_STATES: others}
        yield joined_frame(states, value, number=longest.number, name=thread)


def _step_number(state: Any) -> float:
    """Returns the number of a state within its thread; 0 where it has none."""
    step = _STEP.first(state)
    return step if isinstance(step, int | float) else 0


def _read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation as a draft; other states of the same thread are left in the original record.

    Raises:
        BadRecord: It has no messages.
    """
    items = _messages_in(record)
    chat_messages: list[ChatMessage] = []
    for number, item in enumerate(items, 1):
        message = as_message(item)
        if message is None:
            raise BadRecord(f"message {number} is none of LangChain: {json_text(item)[:60]}")
        chat_messages.append(message)
    messages = tuple(read_in_turn(chat_messages))
    # The `id` of a serialized message is the name of its class.
    left_out = {(id(item), "id") for item in items if isinstance(item, dict) and "lc" in item}
    if isinstance(record, list):
        return ParsedRecord(Conversation(fallback_id, messages), left_out=frozenset(left_out))
    trails = [match.trail for match in _MESSAGES.find(record) if match.trail]
    return ParsedRecord(
        Conversation(fallback_id, messages, created_at=created_at(record)),
        object_or_empty(without(record, [*trails, (_OTHER_STATES,)])),
        left_out=frozenset(left_out | {(id(record), _OTHER_STATES)}),
    )


LANGCHAIN = Reader(
    "langchain",
    _recognize,
    _read,
    arrange=_arrange,
    conditions=3,
    title="messages of LangChain, states and checkpoints of LangGraph",
    sample="made/langgraph_state.json",
)
"""Reads messages of LangChain and states of LangGraph."""
