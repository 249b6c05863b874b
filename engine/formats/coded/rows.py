"""Tables in which each row is a message, or a question with its answer, and names its conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engine.base.conversation import Conversation, Message, Role
from engine.formats.coded.columns import (
    TIMES,
    columns_of,
    messages_of_row,
    named_column,
    plain_name,
)
from engine.formats.json_values import BadRecord, as_object
from engine.formats.leaks import states_outcome
from engine.formats.messages.normalise import (
    as_time,
    created_at,
    looks_like_message,
    read_messages,
    record_id,
)
from engine.formats.messages.order import in_order, order_keys
from engine.formats.messages.roles import role_named
from engine.formats.opening.framing import Frame
from engine.formats.reader import ParsedRecord

_ORDERS = (
    "turn",
    "turn_id",
    "turn_index",
    "turn_number",
    "message_index",
    "sequence",
    "seq",
    "position",
    "step",
    *TIMES,
)
_KEPT_AS_ROLES = ("role", "speaker")
"""Columns whose words are only read as roles; others may tell more, such as a name."""

UNREAD = "rows not read"
"""Name under which the metadata of a conversation has those of its rows that are no messages."""

_NUMBER = re.compile(r"\d{1,18}(\.\d+)?\Z")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:|\Z)")


def recognise(record: Any) -> str | None:
    """Returns in words why a record looks like a row of this format; None if it does not."""
    found = columns_of(record)
    if found is None or found.id is None:
        return None
    what = "message" if found.answer is None else "question with its answer"
    return f"each record is one {what}, and `{found.id}` names its conversation"


def arrange(frames: Iterable[Frame], _: bool) -> Iterator[Frame]:
    """Yields a frame for each conversation, in the order of their first rows; frames that are no rows come first.

    All rows are in memory at once, since those of one conversation may lie anywhere.
    """
    rows: dict[str, list[Frame]] = {}
    for frame in frames:
        found = None if frame.reason is not None else columns_of(frame.value)
        if frame.reason is not None:
            yield frame
        elif found is None or found.id is None:
            yield frame._replace(reason="the row is no message of a named conversation")
        else:
            rows.setdefault(str(frame.value[found.id]), []).append(frame)
    for name, group in rows.items():
        raw = b"\n".join(frame.raw for frame in group)
        value = {"id": name, "messages": [frame.value for frame in group]}
        yield Frame(group[0].number, raw, value)


def read(record: Any, fallback_id: str, _: Any = None) -> ParsedRecord:
    """Returns the conversation of a group of rows as a draft; rows of an unknown role are kept as metadata.

    Raises:
        BadRecord: No row is a message.
    """
    record = as_object(record)
    rows = record.get("messages", [])
    if isinstance(rows, list):
        rows = _in_order(rows)
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    found = record_id(record, ("id",), fallback_id)
    if all(map(_plainly_spoken, rows)) and not any(map(_has_outcome, rows)):
        return ParsedRecord(Conversation(found, read_messages(rows), created_at=created_at(first)))
    speakers: dict[str, Role] = {}
    messages: list[Message] = []
    outcomes: dict[str, Any] = {}
    unread: list[Any] = []
    reason = "no messages"
    for row in rows:
        columns = columns_of(row)
        if columns is None:
            raise BadRecord(f"message {len(messages) + 1} is no message")
        time = named_column(row, TIMES, (str, int, float))
        read_keys = (columns.text, columns.answer, columns.id, *_KEPT_AS_ROLES)
        facts = {"time" if key == time else key: row[key] for key in row if key not in read_keys}
        for key in [key for key in facts if states_outcome(key)]:
            outcomes[key] = facts.pop(key) if facts[key] is not None else outcomes.get(key)
            facts.pop(key, None)
        try:
            messages += messages_of_row(row, columns, facts, len(messages) + 1, speakers)
        except BadRecord as bad:  # the others are a conversation without it
            reason = bad.reason
            unread.append(row)
    if not messages:
        raise BadRecord(reason)
    began = as_time(first.get(named_column(first, TIMES, (str, int, float))))
    fields = {**outcomes, UNREAD: unread} if unread else outcomes
    conversation = Conversation(found, tuple(messages), created_at=began)
    return ParsedRecord(conversation, fields, unknown=tuple(map(_unread_row, unread)))


def _plainly_spoken(row: Any) -> bool:
    """Whether a row is a message of one of the usual roles."""
    return looks_like_message(row) and role_named(row.get("role", row.get("from"))) is not None


def _has_outcome(row: dict[str, Any]) -> bool:
    """Whether a column of a row states how the conversation ended."""
    return any(
        states_outcome(key) for key in row if key not in ("role", "from", "content", "value")
    )


def _unread_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row that was not read, as the account names it."""
    word = row.get("role", row.get("from"))
    return {"type": f"row of {word}" if isinstance(word, str) else "row", "row": row}


def _in_order(rows: list[Any]) -> list[Any]:
    """The rows by their turn or time, if each has one that can be compared; else as they are."""
    if not all(isinstance(row, dict) for row in rows):
        return rows
    for name in _ORDERS:
        column = next((key for key in rows[0] if plain_name(key) == name), None) if rows else None
        if column is None:
            continue
        values = [row.get(column) for row in rows]
        if order_keys(values) is not None:
            return in_order(rows, values)
    return rows
