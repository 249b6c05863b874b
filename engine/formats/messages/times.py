"""When a conversation took place, and the metadata in which it stands.

Dates are texts that sort within a time zone: each keeps the offset that it was written with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from engine.base.conversation import Conversation

_Item = TypeVar("_Item")
_NUMBER = re.compile(r"\s*-?\d+(?:\.\d+)?\s*$")
"""Matches a number in a text."""
_ISO_MOMENT = re.compile(r"\s*\d{4}-\d\d-\d\d(?:[T ]\d\d:|\s*$)")
"""Matches a date of ISO 8601, perhaps with a time of day."""

_SURE_NAMES = (
    "createdat", "created", "createtime", "createdtime", "createdate", "creationdate", "creationtime",
    "datecreated", "timecreated", "startedat", "started", "starttime", "startdate", "starttimestamp",
)  # fmt: skip
"""Names of fields that can only have the time at which the conversation began, without signs and in small letters."""

_NAMES = (
    *_SURE_NAMES, "start", "begin", "conversationdate", "conversationtime", "sessiondate", "sessionstart", "timestamp",
    "ts", "datetime", "date", "time", "sentat", "sent", "receivedat",
)  # fmt: skip
"""Names of a time in metadata, the surest first."""

_HOLDERS = frozenset(("metadata", "meta", "info", "attributes", "properties", "headers", "header"))
"""Names of objects that hold facts of the whole conversation. A date elsewhere is that of a flight or of an order."""

_ISO = re.compile(r"\d{4}([-/]\d{2}){1,2}([T ]\d{2}:.{0,40})?\Z")
"""Matches a whole text that is a date of ISO 8601."""

_BASIC_ISO = re.compile(r"\d{8}T\d{6}")
"""Matches the basic form of ISO 8601."""

_TIME_OF_DAY = re.compile(
    r"(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*([ap])?\.?(?:m\b|(?=Z\b)|(?!\w))",
    re.IGNORECASE,
)
"""Finds a time of day, with 12 or 24 hours."""

_ZONE = re.compile(
    r" ?(?:(?:UTC|GMT) ?([+-]\d\d:?\d\d)|(\+\d\d:?\d\d|-\d{4}|(?<= )-\d\d:\d\d)|(?:Z|UTC|GMT)\b)"
)
"""Matches the offset from UTC after a time of day; not the end of a span of time, as in `10:00-11:00`."""

_NUMBERED = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?!\d)")
"""Matches a date whose year comes last."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_WRITTEN = re.compile(
    rf"(?:[a-z]+,? )?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.? )?(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?,?"
    r"(?: (?P<day_after>\d{1,2})(?:st|nd|rd|th)?,?)?,? (?P<year>\d{4})(?!\d)",
    re.IGNORECASE,
)
"""Matches a date with the English name of its month."""

_RFC = re.compile(r"([A-Z][a-z]{2},? )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}")
"""Matches a date of RFC 2822."""

_DIGITS = re.compile(r"\d{9,19}(\.\d+)?\Z")
"""Matches a time since 1970 as text."""

_A_TIME = re.compile(r"\d{4}-\d\d|\d{1,4}[./]\d{1,2}[./]\d{1,4}|\b(?:19|20)\d\d\b|^\d{1,2}:\d\d")
"""What a text has in it that is a time."""

TIMES = ("created_at", "timestamp", "createdAt", "create_time", "time")
"""Keys of the time of a message, the surest first."""

_TIME_KEYS = ("$date", "$numberLong", "_seconds", "seconds")
"""Keys of a time that is an object."""

_OF_NET = re.compile(r"/Date\((\d{9,15})(?:[+-]\d{4})?\)/$")
"""Matches milliseconds since 1970 as .NET writes them in JSON."""


def order_keys(values: Sequence[Any]) -> list[float] | None:
    """Returns numbers in the order of the values, if all of them are numbers, or all are dates and times of ISO 8601;
    else None. Numbers and times may be texts; a time without an offset is in UTC, unless only some have one."""
    if not values:
        return None
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)  # as they are: an integer may be too large for a float
    if not all(isinstance(value, str) for value in values):
        return None
    if all(_NUMBER.match(value) for value in values):
        return [float(value) for value in values]
    if not all(_ISO_MOMENT.match(value) for value in values):
        dates = list(filter(None, map(_written_date, values)))
        if len(dates) < len(values):
            return None
        values = dates
    try:
        times = [datetime.fromisoformat(value.strip()) for value in values]
    except ValueError:
        return None
    if len({time.tzinfo is None for time in times}) > 1:
        return None
    return [(time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() for time in times]


def in_order(items: list[_Item], values: Sequence[Any]) -> list[_Item]:
    """Returns the items in the order of their values, if these can be compared; else as they are. Where values only
    fall, the items are turned round, so that those of one value are too."""
    keys = order_keys(values)
    if keys is None:
        return items
    if newest_first(keys):
        items, keys = items[::-1], keys[::-1]
    return [items[position] for position in sorted(range(len(items)), key=keys.__getitem__)]


def newest_first(keys: Sequence[float]) -> bool:
    """Returns whether the keys only fall, as some interfaces list the newest first."""
    return len(keys) > 1 and keys[0] > keys[-1] and list(keys) == sorted(keys, reverse=True)


_FIRST, _LAST = "1990", "2100"
"""Years in which logs are written; a number outside is none of seconds or parts of them since 1970."""


def with_date(conversation: Conversation) -> tuple[Conversation, str]:
    """Returns the conversation with a time as `date_of` gives it, None if it has none, and a value that should be the
    time and that `date_of` does not understand; empty for none."""
    own_time = conversation.created_at
    if own_time is not None and (date := date_of(own_time)) is not None:
        return replace(conversation, created_at=date), ""
    earliest = min(_dates_in(conversation.meta, ""), default=None)
    if earliest is not None:
        _, _, time = earliest
        return replace(conversation, created_at=time), ""
    candidates = [
        own_time,
        *(value for key, value in conversation.meta.items() if _plain_name(key) in _SURE_NAMES),
    ]
    unread = next((str(value) for value in candidates if _may_be_time(value)), "")
    return replace(conversation, created_at=_first_message_date(conversation)), unread


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
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 20_000


def _plain_name(key: str) -> str:
    """Returns a name without signs and in small letters."""
    return re.sub(r"[^a-z]", "", key.lower())


def is_usual_name(path: str) -> bool:
    """Returns whether the last key of a path usually has the time of the conversation."""
    return _plain_name(path.rpartition(".")[2]) in _NAMES


def is_ambiguous(text: str) -> bool:
    """Returns whether a text is a date whose day and month could be either."""
    return date_of(text) is None and date_of(text, day_first=True) is not None


def day_comes_first(text: str) -> bool | None:
    """Returns whether the day comes before the month in a date of numbers; None if either may, or it is none."""
    match = _NUMBERED.match(text)
    if match is None or int(match[3]) > 12:
        return None if match is None else False
    return True if match[2] == "." or int(match[1]) > 12 else None


def date_of(value: Any, day_first: bool | None = None) -> str | None:
    """Returns a date as ISO 8601: such a text unchanged, a text of RFC 2822, a date with the name of its month or with
    its day before the month, or a time since 1970 in seconds, milliseconds, microseconds or nanoseconds; None if it is
    something else, such as a date whose day and month could be either.

    Args:
        day_first: Whether the day comes before the month where both are numbers of at most 12; None if that is unknown.
    """
    value = _bare(value)
    if isinstance(value, str):
        if _ISO.match(value):
            iso = re.sub(r" ?(?:UTC|GMT)\Z", "+00:00", value.replace("/", "-"))
            return iso if _is_date(iso[:10]) else None
        if _RFC.match(value):
            try:
                return parsedate_to_datetime(value).isoformat()
            except (ValueError, OverflowError):  # the latter of an offset without end
                return None
        if not _DIGITS.match(value):
            return _written_date(value, day_first)
        value = float(value)
    time = as_time(value) if isinstance(value, int | float) else None
    return time if time is not None and _FIRST < time < _LAST else None


def _written_date(text: str, day_first: bool | None = None) -> str | None:
    """Returns a date as people write it, perhaps with a time of day, as ISO 8601; None if it cannot be told."""
    try:
        if _BASIC_ISO.match(text):
            return datetime.fromisoformat(text).isoformat()
        if match := _NUMBERED.match(text):
            first, sign, second, year = int(match[1]), match[2], int(match[3]), int(match[4])
            is_month_first = second > 12 or (day_first is False and sign != "." and first <= 12)
            day, month = (second, first) if is_month_first else (first, second)
            if day_first is None and sign != "." and day <= 12 and day != month:
                return None
        elif (match := _WRITTEN.match(text)) and (match["day"] or match["day_after"]):
            day, year = int(match["day"] or match["day_after"]), int(match["year"])
            month = _MONTHS.index(match["month"].lower()) + 1
        else:
            return None
        date = datetime(year, month, day, tzinfo=UTC)
        time = _TIME_OF_DAY.search(text, match.end())
        if time is None:
            return date.date().isoformat() if text[match.end() :].strip(" ,") == "" else None
        hour = int(time[1]) % 12 + 12 * (time[4] in "pP") if time[4] else int(time[1])
        zone = _ZONE.match(text, time.end())
        offset = datetime.strptime(zone[1] or zone[2] or "+0000", "%z").tzinfo if zone else None
        minute, second = int(time[2]), int(time[3] or 0)
        return date.replace(hour=hour, minute=minute, second=second, tzinfo=offset).isoformat()
    except ValueError:
        return None


def _is_date(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y-%m-%d" if len(text) > 7 else "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _dates_in(fields: Mapping[str, Any], inside: str) -> Iterator[tuple[int, str, str]]:
    """Yields (rank of the name, the less the surer; path; date) of the dates with a usual name."""
    for key, value in fields.items():
        plain = _plain_name(key)
        path = f"{inside}{key}"
        if plain in _NAMES and (date := date_of(value)) is not None:
            yield _NAMES.index(plain), path, date
        elif plain in _HOLDERS and isinstance(value, dict) and inside.count(".") < 2:
            yield from _dates_in(value, f"{path}.")


def in_time_order(items: list[_Item], times: list[Any]) -> list[_Item]:
    """Returns the items in reverse if each has a time and these only fall, as some interfaces list the newest first;
    else as they are."""
    keys = order_keys(times)
    return items if keys is None or not newest_first(keys) else items[::-1]


def created_at(record: Mapping[str, Any]) -> str | None:
    """Returns when the conversation began, by the usual names of the field; None if unknown."""
    for key in ("created_at", "timestamp", "created", "create_time", "started_at"):
        if time := as_time(record.get(key)):
            return time
    return None


def _bare(value: Any) -> Any:
    """Returns what a time is in the objects of MongoDB and Firestore, and in a text of .NET; another value as it is."""
    while isinstance(value, dict):
        value = next((value[key] for key in _TIME_KEYS if key in value), None)
    if isinstance(value, str) and (match := _OF_NET.match(value)):
        return int(match[1])
    return value


def as_time(value: Any) -> str | None:
    """Returns a text that has a date or a time in it, unchanged; seconds, milliseconds, microseconds or nanoseconds
    since 1970 as ISO 8601 in UTC; None if the value is no time."""
    value = _bare(value)
    if isinstance(value, str) and len(value) <= 64 and _A_TIME.search(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e20:
        for unit in (1, 1e3, 1e6, 1e9):
            if 1e8 < value / unit < 1e11:
                return datetime.fromtimestamp(value / unit, UTC).isoformat()
    return None
