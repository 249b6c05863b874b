"""One record of an input as a frame: its bytes and its value, or why it cannot be read; and the records of JSON Lines.

Only one record is in memory at a time. A record that cannot be read becomes a frame with a reason, and reading goes
on with the next record. `json_records` reads other JSON, `tables` rows, `text_turns` text.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from engine.formats.json_values import MAX_DEPTH, BadRecord, is_nested_too_deep, storable
from engine.formats.opening.source import LEAST_OF_RECORD, Reading, Source

MAX_RECORD = 64 << 20
"""Size limit of a record in bytes."""

KEPT_OF_OVERSIZED = 1 << 20
"""Number of bytes that are kept of a record beyond the limit."""

_PYTHON_OBJECT = re.compile(r"\s*(?:\[\s*)?\{\s*'")
"""Matches the beginning of an object as Python shows it."""

_EVENT_LINE = re.compile(rb"(?:event|id|retry|data)?:")
"""Matches the beginning of a line of a server-sent event."""


def _finite_number(digits: str) -> float | None:
    """Returns a number; None for one beyond the largest float, as in `1e999`."""
    number = float(digits)
    return number if math.isfinite(number) else None


DECODER = json.JSONDecoder(parse_float=_finite_number, parse_constant=lambda name: None)
"""Reads numbers that JSON cannot write (NaN, infinities) as null."""


def reason_of(error: Exception, unit: str, start: int = 0) -> str:
    """Returns why a value cannot be decoded, in words.

    Args:
        unit: What the value is, such as `line`.
        start: Where it begins in the text that was decoded.
    """
    if isinstance(error, RecursionError):
        return "nesting too deep"
    if isinstance(error, json.JSONDecodeError):
        return f"{unit} is not JSON: {error.msg.removesuffix(' at')} at character {error.pos - start + 1}"
    return f"{unit} holds a number with too many digits"


Framing = Literal["lines", "events", "list", "values", "slices", "table", "text"]
"""How records follow each other: JSON Lines, server-sent events, elements of a JSON list, JSON values, slices of one
large JSON object, rows of a table, turns of a text."""


class Envelope(NamedTuple):
    """The object from which a record was split, without the list of records.

    Attributes:
        value: The object, without that list.
        first: Whether the record is the first of that object, or of a slice that has fields which those before had not.
    """

    value: Any
    first: bool


class Frame(NamedTuple):
    """One record as it lies in the input.

    Attributes:
        number: Of its line, value or row, from 1; None if it is the whole input.
        raw: Its bytes.
        value: The JSON value; None if it cannot be read.
        reason: Why it cannot be read; None if it can.
        outer: The object from which it was split; None for a record of its own.
        name: Its key in that object, or the id of the group that it was made from.
        before: Of a slice of a large object, the number of elements in the slices before it.
        beside: What lies beside the records of an object that no format knows, with the first record of it.
    """

    number: int | None
    raw: bytes
    value: Any
    reason: str | None = None
    outer: Envelope | None = None
    name: str | None = None
    before: int = 0
    beside: Any = None


def joined_frame(
    frames: Sequence[Frame], value: Any, *, number: int | None = None, name: str | None = None
) -> Frame:
    """Returns one frame of several, whose bytes are theirs, a line each."""
    return Frame(number, b"\n".join(frame.raw for frame in frames), value, name=name)


def group_frames(groups: Mapping[str, Sequence[Frame]], key: str) -> Iterator[Frame]:
    """Yields one frame for each group: an object with the name of the group as `id`, and the values of its frames under
    a key."""
    for name, members in groups.items():
        value = {"id": name, key: [member.value for member in members]}
        yield joined_frame(members, value, number=members[0].number, name=name or None)


def bounded_frames(frames: Iterable[Frame], count: Reading) -> Iterator[Frame]:
    """Yields frames until their bytes are too much, and then one with that reason; a frame without bytes is not
    counted."""
    for frame in frames:
        yield frame
        if frame.raw and not count.add(max(len(frame.raw), LEAST_OF_RECORD)):
            yield Frame(None, b"", None, count.bounds.too_much)
            return


def load(raw: bytes, unit: str) -> Any:
    """Returns the JSON value of one record.

    Args:
        unit: Name of the record in the reason of an error, such as `line`.

    Raises:
        BadRecord: It is not JSON in UTF-8, or nested too deep.
    """
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")  # of a file that was put after another
    except UnicodeDecodeError as error:
        raise BadRecord(f"broken UTF-8 at byte {error.start}") from None
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        value = _python_value(text)
        if value is None:
            raise BadRecord(reason_of(error, unit)) from None
    return checked(raw, value)


def _python_value(text: str) -> Any:
    """Returns the value of a record that was written as Python shows an object, with single quotes; None if it was
    not."""
    if not _PYTHON_OBJECT.match(text):
        return None
    try:
        return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def checked(raw: bytes, value: Any) -> Any:
    """Returns a value that was decoded from these bytes, without lone surrogates, which cannot be stored.

    Raises:
        BadRecord: It is nested too deep.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and is_nested_too_deep(value):
        raise BadRecord("nesting too deep")
    if b"\\ud" in raw or b"\\uD" in raw:
        return storable(value)
    return value


def server_events(source: Source) -> Iterator[Frame]:
    """Yields the data of server-sent events as frames; their names, comments and the end are none."""
    for frame in lines(source):
        data = frame.raw.removeprefix(b"data:").strip()
        if frame.raw.startswith(b"data:") and data != b"[DONE]":
            yield _line(frame.number or 0, data, len(data)) or frame
        elif frame.reason is None or not _EVENT_LINE.match(frame.raw):
            yield frame


def lines(source: Source) -> Iterator[Frame]:
    """Yields the frames of JSON Lines. Blank lines are counted but give no frame."""
    number = 0
    pending: list[bytes] = []  # the line so far, or the beginning of one that is too large
    size = 0  # bytes of that line, also those that are not kept
    while chunk := source.read():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            number += 1
            raw = b"".join([*pending, part]) if pending else part
            if frame := _line(number, raw, size + len(part)):
                yield frame
            pending.clear()
            size = 0
        size += len(rest)
        if rest and size - len(rest) <= MAX_RECORD:
            pending.append(rest)
        elif size > MAX_RECORD:
            pending[:] = [b"".join(pending)[:KEPT_OF_OVERSIZED]]
    raw = b"".join(pending)
    if last := _line(number + 1, raw, size):
        number += 1
        if source.error and last.reason:  # it was cut off
            yield last._replace(reason=source.error)
            return
        yield last
    if source.error:
        yield Frame(number + 1, b"", None, source.error)


def _line(number: int, raw: bytes, size: int) -> Frame | None:
    """Returns the frame of a line; None for a blank one."""
    if size > MAX_RECORD:
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, too_large())
    raw = raw.removesuffix(b"\r")
    if not raw or raw.isspace():
        return None
    try:
        return Frame(number, raw, load(raw, "line"))
    except BadRecord as bad:
        return Frame(number, raw, None, bad.reason)


def too_large() -> str:
    """Returns the reason of a record that is larger than `MAX_RECORD`."""
    return f"record is larger than {MAX_RECORD >> 20} MiB"
