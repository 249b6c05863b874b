"""Tables in which each row is a conversation: a column holds messages, a transcript, or questions with answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from engine.base.conversation import Conversation, Message, Role
from engine.formats.coded.columns import IDS, RowColumns, columns_of, messages_of_row, named_column
from engine.formats.json_values import BadRecord, as_object
from engine.formats.messages.normalise import (
    created_at,
    looks_like_message,
    looks_like_messages,
    read_messages,
)
from engine.formats.messages.roles import role_of_speaker
from engine.formats.opening.framing import Frame
from engine.formats.opening.text_turns import turns_of
from engine.formats.reader import ParsedRecord

_SYSTEMS = ("system", "system_prompt", "system_message")
_TRANSCRIPTS = (
    "transcript",
    "conversation",
    "dialogue",
    "dialog",
    "chat",
    "chat_log",
    "messages",
    "log",
    "text",
    "content",
)
_EXCHANGES = (
    "conversation",
    "conversations",
    "dialogue",
    "dialog",
    "chat",
    "chat_log",
    "history",
    "chat_history",
    "turns",
    "exchanges",
)
_LISTS = (
    "transcript",
    "dialogue",
    "dialog",
    "chat",
    "chat_log",
    "chat_history",
    "message_history",
    "conversation_history",
    "conversation_log",
    "messages_json",
    "turns",
)
"""Names of columns with a list of messages, beside those of the chat logs."""


class _Whole(NamedTuple):
    """The columns of a record with its conversation: of a list of messages, of a transcript, or of a list of questions
    with their answers and of the question with its answer that follows them."""

    messages: str = ""
    transcript: str = ""
    exchanges: str = ""
    pair: RowColumns | None = None


def _whole(record: Any) -> _Whole | None:
    if not isinstance(record, dict) or looks_like_message(record):
        return None
    listed = named_column(record, _LISTS, list)
    if listed and looks_like_messages(record[listed]):
        return _Whole(messages=listed)
    columns = columns_of(record)
    exchanges = next((key for name in _EXCHANGES if (key := _exchanges(record, name))), "")
    if columns is not None and columns.answer is not None:
        return _Whole(exchanges=exchanges, pair=columns)
    if exchanges:
        return _Whole(exchanges=exchanges)
    for name in _TRANSCRIPTS:
        key = named_column(record, (name,), (str, list))
        said = record[key] if key else None
        if turns_of(said) is not None if isinstance(said, str) else _are_turns(said):
            return _Whole(transcript=key)
    return None


def _exchanges(record: dict[str, Any], name: str) -> str:
    """The column of this name if it lists questions with their answers: objects, or lists of two texts; else empty."""
    key = named_column(record, (name,), list)
    listed = record[key] if key else []
    if not listed or not all(map(_is_exchange, listed)):
        return ""
    firsts = [item[0] for item in listed if isinstance(item, list)]
    # of ["Ann", "Hello"] the first text is who speaks
    speakers = len(firsts) > 2 * len(set(firsts)) or any(map(role_of_speaker, firsts))
    return "" if speakers else key


def _is_exchange(item: Any) -> bool:
    if isinstance(item, list):
        return len(item) == 2 and all(isinstance(text, str) for text in item)
    columns = columns_of(item)
    return columns is not None and columns.answer is not None


def _asked_and_answered(item: Any, number: int) -> list[Message]:
    """The messages of a question with its answer."""
    if isinstance(item, list):
        return [Message("user", item[0]), Message("assistant", item[1])]
    columns = columns_of(item)
    assert columns is not None
    rest = {key: item[key] for key in item if key not in (columns.text, columns.answer)}
    return messages_of_row(item, columns, rest, number, {})


def _are_turns(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(turn, dict) and {"speaker", "content"} <= turn.keys() for turn in value)
    )


def recognise(record: Any) -> str | None:
    found = _whole(record)
    if found is None:
        return None
    if found.pair is not None:
        return f"the records have `{found.pair.text}` and `{found.pair.answer}`"
    if found.exchanges:
        return (
            f"each record is a conversation, whose questions and answers are in `{found.exchanges}`"
        )
    where = found.messages or found.transcript
    return f"each record is a conversation, which is in `{where}`"


def arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields the records with the turns of a transcript in place of its text."""
    for frame in frames:
        found = None if frame.reason is not None else _whole(frame.value)
        if found is not None and found.transcript:
            said = frame.value[found.transcript]
            divided = turns_of(said) if isinstance(said, str) else None
            if divided is not None:
                turns = {found.transcript: divided["messages"]}
                before = {"preamble": divided["preamble"]} if "preamble" in divided else {}
                frame = frame._replace(value={**frame.value, **turns, **before})
        yield frame


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation that is in a column of a record as a draft.

    Raises:
        BadRecord: It has none.
    """
    record = as_object(record)
    found = _whole(record)
    if found is None:
        raise BadRecord("the row has no conversation")
    used: set[str] = set()
    messages: list[Message] = []
    if found.pair is not None or found.exchanges:
        if system := named_column(record, _SYSTEMS, str):
            used.add(system)
            messages.append(Message("system", record[system]))
        if found.exchanges:
            used.add(found.exchanges)
            for item in record[found.exchanges]:
                messages += _asked_and_answered(item, len(messages) + 1)
        if found.pair is not None:
            used |= {found.pair.text, found.pair.answer or ""}
            messages += messages_of_row(record, found.pair, {}, len(messages) + 1, {})
    elif found.messages:
        used.add(found.messages)
        messages += read_messages(record[found.messages])
    else:
        used.add(found.transcript)
        speakers: dict[str, Role] = {}
        for turn in record[found.transcript]:
            number = len(messages) + 1
            columns = RowColumns(None, "speaker", "content", None)
            rest = {key: turn[key] for key in turn if key not in ("speaker", "content")}
            messages += messages_of_row(turn, columns, rest, number, speakers)
    id_key = named_column(record, ("id", *IDS), (str, int))
    used.add(id_key)
    external_id = str(record[id_key]) if id_key else fallback_id
    rest = {key: value for key, value in record.items() if key not in used}
    conversation = Conversation(external_id, tuple(messages), created_at=created_at(record))
    return ParsedRecord(conversation, rest)
