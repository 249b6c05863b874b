"""Finds the date at which a conversation began, by the usual names of fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from engine.base.conversation import Conversation
from engine.formats.messages.times import TIMES, as_time, date_of

_START_NAMES = (
    "createdat", "created", "createtime", "createdtime", "createdate", "creationdate", "creationtime",
    "datecreated", "timecreated", "startedat", "started", "starttime", "startdate", "starttimestamp",
)  # fmt: skip
"""Names of fields that can only have the time at which the conversation began, without signs and in small letters."""

_TIME_NAMES = (
    *_START_NAMES, "start", "begin", "conversationdate", "conversationtime", "sessiondate", "sessionstart", "timestamp",
    "ts", "datetime", "date", "time", "sentat", "sent", "receivedat",
)  # fmt: skip
"""Names of a time in metadata, the surest first."""

_HOLDER_NAMES = frozenset(
    ("metadata", "meta", "info", "attributes", "properties", "headers", "header")
)
"""Names of objects that hold facts of the whole conversation. A date elsewhere is that of a flight or of an order."""

_DAY_NUMBER = 20_000
"""Number above which a number may be a day since 1900, and not a position in a recording."""


class _RankedDate(NamedTuple):
    """A date in metadata; the least of several is the surest.

    Attributes:
        rank: How sure the name of its field is; the lower the surer.
        path: Keys that lead to it, as in `metadata.date`.
        date: As `date_of` returns it.
    """

    rank: int
    path: str
    date: str


def created_at(record: Mapping[str, Any]) -> str | None:
    """Returns when the conversation began, by the usual names of the field; None if unknown."""
    for key in ("created_at", "timestamp", "created", "create_time", "started_at"):
        if time := as_time(record.get(key)):
            return time
    return None


def with_date(conversation: Conversation) -> tuple[Conversation, str]:
    """Returns the conversation with the date at which it began, and what should be its date but cannot be read.

    The date is that of the conversation itself, else the surest in its metadata, else that of its first message with
    one; None if there is none. The second value is empty if everything was read.
    """
    own_time = conversation.created_at
    if own_time is not None and (date := date_of(own_time)) is not None:
        return replace(conversation, created_at=date), ""
    surest = min(_dates_in(conversation.meta, ""), default=None)
    if surest is not None:
        return replace(conversation, created_at=surest.date), ""
    candidates = [
        own_time,
        *(value for key, value in conversation.meta.items() if _plain_name(key) in _START_NAMES),
    ]
    unread = next((str(value) for value in candidates if _may_be_time(value)), "")
    return replace(conversation, created_at=_first_message_date(conversation)), unread


def _dates_in(fields: Mapping[str, Any], prefix: str) -> Iterator[_RankedDate]:
    """Yields the dates with a usual name in metadata.

    Args:
        prefix: What the paths begin with: the keys that lead to these fields, each with a dot.
    """
    for key, value in fields.items():
        plain = _plain_name(key)
        path = f"{prefix}{key}"
        if plain in _TIME_NAMES and (date := date_of(value)) is not None:
            yield _RankedDate(_TIME_NAMES.index(plain), path, date)
        elif plain in _HOLDER_NAMES and isinstance(value, dict) and prefix.count(".") < 2:
            yield from _dates_in(value, f"{path}.")


def _first_message_date(conversation: Conversation) -> str | None:
    """Returns the date of the first message that has one; None if none has."""
    for message in conversation.messages:
        facts = json.loads(message.facts or "{}")
        for key in TIMES:
            if (date := date_of(facts.get(key))) is not None:
                return date
    return None


def _may_be_time(value: Any) -> bool:
    """Returns whether a value is a text, or a number such as days since 1900, and no position in a recording."""
    if isinstance(value, str):
        return value != ""
    return isinstance(value, int | float) and not isinstance(value, bool) and value > _DAY_NUMBER


def is_usual_name(path: str) -> bool:
    """Returns whether the last key of a path usually has the time of the conversation."""
    return _plain_name(path.rpartition(".")[2]) in _TIME_NAMES


def _plain_name(key: str) -> str:
    """Returns a name without signs and in small letters."""
    return re.sub(r"[^a-z]", "", key.lower())
