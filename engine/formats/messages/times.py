"""When a conversation took place, and the metadata in which it stands.

Dates are texts that sort within a time zone: each keeps the offset that it was written with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from engine.base.conversation import Conversation
from engine.formats.messages.normalise import as_time

_NAMES = (
    *("createdat", "created", "createtime", "createdtime", "createdate", "creationdate", "creationtime"),
    *("datecreated", "timecreated", "startedat", "started", "starttime", "startdate", "start", "begin"),
    *("conversationdate", "conversationtime", "sessiondate", "sessionstart", "timestamp", "ts"),
    *("datetime", "date", "time", "sentat", "sent", "receivedat"),
)  # fmt: skip
"""Names of a time in metadata, without signs and in small letters, the surest first."""
_HOLDERS = frozenset(("metadata", "meta", "info", "attributes", "properties", "headers", "header"))
"""Names of objects that hold facts of the whole conversation. A date elsewhere is that of a flight or of an order."""

_ISO = re.compile(r"\d{4}([-/]\d{2}){1,2}([T ]\d{2}:.{0,40})?\Z")
_RFC = re.compile(r"([A-Z][a-z]{2},? )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}")
_DIGITS = re.compile(r"\d{9,19}(\.\d+)?\Z")
_FIRST, _LAST = "1990", "2100"
"""Years in which logs are written; a number outside is none of seconds or parts of them since 1970."""


def dated(conversation: Conversation) -> tuple[Conversation, str]:
    """The conversation with a time as `date_of` gives it, and the field of the metadata that it was taken from, as
    `metadata.date`; an empty name where the format has the time itself, or nothing has it."""
    known = conversation.created_at
    if known is not None:
        return replace(conversation, created_at=date_of(known) or known), ""
    found = min(_dates(conversation.meta, ""), default=None)
    if found is None:
        return conversation, ""
    _, name, time = found
    return replace(conversation, created_at=time), name


def date_of(value: Any) -> str | None:
    """A date as ISO 8601: such a text unchanged, a text of RFC 2822, or a time since 1970 in seconds, milliseconds,
    microseconds or nanoseconds; None if it is something else, such as a date whose day and month could be either."""
    if isinstance(value, dict):
        value = value.get("$date")  # as MongoDB exports times
    if isinstance(value, str):
        if _ISO.match(value):
            iso = value.replace("/", "-")
            return iso if _is_date(iso[:10]) else None
        if _RFC.match(value):
            try:
                return parsedate_to_datetime(value).isoformat()
            except (ValueError, OverflowError):  # the latter of an offset without end
                return None
        value = float(value) if _DIGITS.match(value) else None
    time = as_time(value) if isinstance(value, int | float) else None
    return time if time is not None and _FIRST < time < _LAST else None


def _is_date(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y-%m-%d" if len(text) > 7 else "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _dates(fields: Mapping[str, Any], inside: str) -> Iterator[tuple[int, str, str]]:
    """(rank of the name, the less the surer; path; date) of the dates with a usual name."""
    for key, value in fields.items():
        plain = re.sub(r"[^a-z]", "", key.lower())
        path = f"{inside}{key}"
        if plain in _NAMES and (found := date_of(value)) is not None:
            yield _NAMES.index(plain), path, found
        elif plain in _HOLDERS and isinstance(value, dict) and inside.count(".") < 2:
            yield from _dates(value, f"{path}.")
