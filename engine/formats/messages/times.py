"""Reads times of any usual form, finds the date at which a conversation began, and orders messages by times.

A *time* is a text as a log has it (`as_time`), or of ISO 8601 if it was a number. A *date* is a time as the program
shows and compares it (`date_of`): always ISO 8601, with the offset from UTC that it was written with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

from engine.base.conversation import Conversation

# Times as logs have them

TIMES = ("created_at", "timestamp", "createdAt", "create_time", "time")
"""Keys of the time of a message, the surest first."""

_WRAPPER_KEYS = ("$date", "$numberLong", "_seconds", "seconds")
"""Keys of a time that is an object, as in `{"$date": "2026-03-14T09:30:00Z"}`."""

_NET_DATE = re.compile(r"/Date\((\d{9,15})(?:[+-]\d{4})?\)/$")
"""Matches milliseconds since 1970 as .NET writes them in JSON: `/Date(1773480600000)/`."""

_HAS_TIME = re.compile(r"\d{4}-\d\d|\d{1,4}[./]\d{1,2}[./]\d{1,4}|\b(?:19|20)\d\d\b|^\d{1,2}:\d\d")
"""Finds what makes a text a time: `2026-03`, `14.3.26`, the year in `March 2026`, or `9:30` at its beginning."""

_MAX_TIME_CHARACTERS = 64
"""Most characters of a text that is a time."""

_FIRST_SECONDS = 1e8
"""Least number of seconds since 1970 that is taken for a time: in 1973."""

_END_SECONDS = 1e11
"""Number of seconds since 1970 from which a number is no time: in 5138."""


def as_time(value: Any) -> str | None:
    """Returns a text that has a date or a time in it, unchanged; seconds, milliseconds, microseconds or nanoseconds
    since 1970 as ISO 8601 in UTC; None if the value is no time."""
    value = _without_wrapping(value)
    if isinstance(value, str) and len(value) <= _MAX_TIME_CHARACTERS and _HAS_TIME.search(value):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 < value < _END_SECONDS * 1e9:  # a larger number may be no float
            return None
        for unit in (1, 1e3, 1e6, 1e9):
            if _FIRST_SECONDS < value / unit < _END_SECONDS:
                return datetime.fromtimestamp(value / unit, UTC).isoformat()
    return None


def _without_wrapping(value: Any) -> Any:
    """Returns the time within an object of MongoDB or Firestore, or within a text of .NET; another value as it is."""
    while isinstance(value, dict):
        value = next((value[key] for key in _WRAPPER_KEYS if key in value), None)
    if isinstance(value, str) and (match := _NET_DATE.match(value)):
        return int(match[1])
    return value


# Dates

_FIRST_YEAR, _END_YEAR = "1990", "2100"
"""Years in which logs are written; a number outside is no time since 1970."""

_ISO_DATE = re.compile(r"\d{4}([-/]\d{2}){1,2}([T ]\d{2}:.{0,40})?\Z")
"""Matches what may be a date of ISO 8601: `2026-03-14`, `2026/03`, `2026-03-14T09:30:00Z`."""

_RFC_DATE = re.compile(r"([A-Z][a-z]{2},? )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}")
"""Matches a date of RFC 2822: `Sat, 14 Mar 2026 09:30:00 +0100`."""

_UNIX_TIME = re.compile(r"\d{9,19}(\.\d+)?\Z")
"""Matches a time since 1970 as text: `1773480600`, `1773480600.25`."""

_BASIC_ISO_DATE = re.compile(r"\d{8}T\d{6}")
"""Matches the basic form of ISO 8601: `20260314T093000`."""

_YEAR_FIRST_DATE = re.compile(r"(\d{4})[-/](\d{2})[-/](\d{2})(?!\d)")
"""Matches a date whose year comes first, before a time of day in a form that ISO 8601 lacks: `2026-03-14 9:30 PM`."""

_YEAR_LAST_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?!\d)")
"""Matches a date whose year comes last: `14.03.2026`, `3/14/2026`."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
"""Beginnings of the English names of months, in their order."""

_NAMED_MONTH_DATE = re.compile(
    rf"(?:[a-z]+,? )?(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.? )?(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?,?"
    r"(?: (?P<day_after>\d{1,2})(?:st|nd|rd|th)?,?)?,? (?P<year>\d{4})(?!\d)",
    re.IGNORECASE,
)
"""Matches a date with the English name of its month: `14 March 2026`, `Sat, Mar 14th, 2026`."""

_TIME_OF_DAY = re.compile(
    r"\W*(?:(?:T|at|um|à)\W*)?"
    r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*([ap])?\.?(?:m\b|(?=Z\b)|(?!\w))",
    re.IGNORECASE,
)
"""Matches the time of day right after a day, with 12 or 24 hours: `, 9:30 p.m.`, ` at 21:30`, `T21:30:05.25`."""

_ZONE = re.compile(
    r" ?(?:(?:UTC|GMT) ?([+-]\d\d:?\d\d)|(\+\d\d:?\d\d|-\d{4}|(?<= )-\d\d:\d\d)|(?:Z|UTC|GMT)\b)"
)
"""Matches the offset from UTC after a time of day: ` GMT+0100`, `+01:00`, `Z`; not the end of a span of time, as in
`10:00-11:00`."""


def date_of(value: Any, day_first: bool | None = None) -> str | None:
    """Returns a date as ISO 8601; None if the value is no date, or one whose day and month could be either.

    A text of ISO 8601 stays as it is, but for `/`, `UTC` and `GMT`: `2026/03/14` becomes `2026-03-14`. Read are also
    texts of RFC 2822, dates as people write them (`14 March 2026, 9:30 pm`), and seconds, milliseconds, microseconds or
    nanoseconds since 1970.

    Args:
        day_first: Whether the day comes before the month where both are numbers of at most 12; None if that is unknown.
    """
    value = _without_wrapping(value)
    if isinstance(value, str):
        if _ISO_DATE.match(value):
            iso = re.sub(r" ?(?:UTC|GMT)\Z", "+00:00", value.replace("/", "-"))
            if _is_iso_date(iso):
                return iso
        if _RFC_DATE.match(value):
            try:
                return parsedate_to_datetime(value).isoformat()
            except (ValueError, OverflowError):  # the latter of an offset without end
                return None
        if not _UNIX_TIME.match(value):
            return _written_date(value, day_first)
        value = float(value)
    time = as_time(value) if isinstance(value, int | float) else None
    return time if time is not None and _FIRST_YEAR < time < _END_YEAR else None


def _is_iso_date(text: str) -> bool:
    """Returns whether a text is a month that there is, `2026-12`, or a date that `datetime` reads as ISO 8601."""
    try:
        datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-12") else text)
    except ValueError:
        return False
    return True


def _written_date(text: str, day_first: bool | None = None) -> str | None:
    """Returns a date as people write it, perhaps with a time of day, as ISO 8601; None if the text is no such date.

    Args:
        day_first: Whether the day stands before the month in dates of numbers without dots; None if that is unknown,
            and a date that could be either is not read.
    """
    try:
        if _BASIC_ISO_DATE.match(text):
            return datetime.fromisoformat(text).isoformat()
        if match := _YEAR_FIRST_DATE.match(text):
            year, month, day = map(int, match.groups())
        elif match := _YEAR_LAST_DATE.match(text):
            first, sign, second, year = int(match[1]), match[2], int(match[3]), int(match[4])
            is_month_first = second > 12 or (day_first is False and sign != "." and first <= 12)
            day, month = (second, first) if is_month_first else (first, second)
            if day_first is None and sign != "." and day <= 12 and day != month:
                return None
        elif (match := _NAMED_MONTH_DATE.match(text)) and (match["day"] or match["day_after"]):
            day, year = int(match["day"] or match["day_after"]), int(match["year"])
            month = _MONTHS.index(match["month"].lower()) + 1
        else:
            return None
        return _with_time_of_day(datetime(year, month, day, tzinfo=UTC), text, match.end())
    except ValueError:
        return None


def _with_time_of_day(day: datetime, text: str, start: int) -> str | None:
    """Returns a day with the time of day that follows it in a text, as ISO 8601; None if anything else follows it.

    What stands after the time of day and its offset, such as the name of a zone or the end of a span, is not read.

    Args:
        start: Where the text goes on after the day.

    Raises:
        ValueError: There is no such time of day.
    """
    time = _TIME_OF_DAY.match(text, start)
    if time is None:
        return day.date().isoformat() if text[start:].strip(" ,") == "" else None
    hour, minute, second = int(time[1]), int(time[2]), int(time[3] or 0)
    if time[4]:  # a clock of 12 hours, where 12 am is midnight
        hour = hour % 12 + (12 if time[4] in "pP" else 0)
    zone = _ZONE.match(text, time.end())
    offset = datetime.strptime(zone[1] or zone[2] or "+0000", "%z").tzinfo if zone else None
    return day.replace(hour=hour, minute=minute, second=second, tzinfo=offset).isoformat()


def day_comes_first(text: str) -> bool | None:
    """Returns whether the day comes before the month in a date of numbers; None if either may, or if the text is no
    such date."""
    match = _YEAR_LAST_DATE.match(text)
    if match is None or int(match[3]) > 12:
        return None if match is None else False
    return True if match[2] == "." or int(match[1]) > 12 else None


def is_ambiguous(text: str) -> bool:
    """Returns whether a text is a date whose day and month could be either."""
    return date_of(text) is None and date_of(text, day_first=True) is not None


# The date at which a conversation began, by the usual names of fields

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


# The order of messages

_Item = TypeVar("_Item")

_NUMBER = re.compile(r"\s*-?\d+(?:\.\d+)?\s*$")
"""Matches a text that is a number: `12`, ` -0.5 `."""

_ISO_MOMENT = re.compile(r"\s*\d{4}-\d\d-\d\d(?:[T ]\d\d:|\s*$)")
"""Matches a day of ISO 8601, alone or with the beginning of a time of day: `2026-03-14`, `2026-03-14T09:30`."""


def order_keys(values: Sequence[Any]) -> list[float] | None:
    """Returns a number for each value by which they can be sorted; None unless all are numbers or all are dates, and
    if there are no values.

    Numbers and dates may be texts. A time without an offset is in UTC; if only some have an offset, the answer is None.
    """
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


def sort_by(items: list[_Item], values: Sequence[Any]) -> list[_Item]:
    """Returns the items sorted by their values if these can be compared (`order_keys`), else as they are.

    Where the values only fall, the items were listed newest first. Then items of equal value change places too: of
    the values 3, 2, 2 the last item becomes the first.
    """
    keys = order_keys(values)
    if keys is None:
        return items
    if _is_newest_first(keys):
        items, keys = items[::-1], keys[::-1]
    return [items[position] for position in sorted(range(len(items)), key=keys.__getitem__)]


def oldest_first(items: list[_Item], times: list[Any]) -> list[_Item]:
    """Returns the items in reverse if each has a time and these only fall, as some programs list the newest first;
    else as they are."""
    keys = order_keys(times)
    return items if keys is None or not _is_newest_first(keys) else items[::-1]


def _is_newest_first(keys: Sequence[float]) -> bool:
    """Returns whether the keys only fall."""
    return len(keys) > 1 and keys[0] > keys[-1] and list(keys) == sorted(keys, reverse=True)
