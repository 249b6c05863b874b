"""One record of an input as a frame: its bytes and its value, or why it cannot be read; and the records of JSON Lines.

Only one record is in memory at a time. A record that cannot be read becomes a frame with a reason, and reading goes
on with the next record. `values` reads other JSON, `slices` objects that are too large for one record, `tables` rows,
`text_turns` text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from engine.formats.json_values import MAX_DEPTH, BadRecord, nested_deeper, storable
from engine.formats.opening.json_cursor import DECODER, reason_of
from engine.formats.opening.source import Source

MAX_RECORD = 64 << 20
"""Size limit of a record in bytes."""

KEPT_OF_OVERSIZED = 1 << 20
"""Number of bytes that are kept of a record beyond the limit."""

Framing = Literal["lines", "list", "values", "slices", "table", "text"]
"""How records follow each other: JSON Lines, elements of a JSON list, JSON values, slices of one large JSON object,
rows of a table, turns of a text."""


class Envelope(NamedTuple):
    """The object from which a record was split, without the list of records.

    Attributes:
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
    """

    number: int | None
    raw: bytes
    value: Any
    reason: str | None = None
    outer: Envelope | None = None
    name: str | None = None
    before: int = 0


_PYTHON_OBJECT = re.compile(r"\s*(?:\[\s*)?\{\s*'")


def load(raw: bytes, unit: str) -> Any:
    """Returns the JSON value of one record.

    Args:
        unit: Name of the record in the reason of an error, such as `line`.

    Raises:
        BadRecord: It is not JSON in UTF-8, or nested too deep.
    """
    try:
        text = raw.decode("utf-8")
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
    """The value of a record that was written as Python shows an object, with single quotes; None if it was not."""
    if not _PYTHON_OBJECT.match(text):
        return None
    try:
        return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def checked(raw: bytes, value: Any) -> Any:
    """A value that was decoded from these bytes, without lone surrogates, which cannot be stored.

    Raises:
        BadRecord: It is nested too deep.
    """
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and nested_deeper(value, MAX_DEPTH):
        raise BadRecord("nesting too deep")
    if b"\\ud" in raw or b"\\uD" in raw:
        return storable(value)
    return value


def lines(source: Source) -> Iterator[Frame]:
    """Yields the frames of JSON Lines. Blank lines are counted but give no frame."""
    number = 0
    pending: list[bytes] = []
    size = 0
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
    last = _line(number + 1, raw, size)
    if last and source.error and last.reason:
        last = last._replace(reason=source.error)
    elif source.error:
        yield from [last] if last else []
        last = Frame(number + 1 if last is None else number + 2, b"", None, source.error)
    if last:
        yield last


def _line(number: int, raw: bytes, size: int) -> Frame | None:
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
    """The reason of a record that is larger than `MAX_RECORD`."""
    return f"record is larger than {MAX_RECORD >> 20} MiB"
