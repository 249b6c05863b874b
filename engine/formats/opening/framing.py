"""Splits a stream of bytes into records: JSON Lines, consecutive JSON values, or the elements of a JSON list.

Only one record is in memory at a time. A record that cannot be read becomes a frame with a reason, and reading goes
on with the next record.
"""

from __future__ import annotations

import ast
import codecs
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from engine.formats.json_values import MAX_DEPTH, BadRecord, json_text, nested_deeper, storable
from engine.formats.opening.source import CHUNK, Source

MAX_RECORD = 64 << 20
"""Size limit of a record in bytes."""

KEPT_OF_OVERSIZED = 1 << 20
"""Number of bytes that are kept of a record beyond the limit."""

LARGE = 8 << 20
"""Size in characters from which an object is read in slices, if its records lie in a list within it."""

SLICE = 4 << 20
"""Size in characters of a slice of a large object."""

_LARGEST_FIELD = 8 << 20
_LEAST_ENTRIES = 20
"""Number of entries from which a large object of objects is read in slices."""

Framing = Literal["lines", "list", "values", "slices", "table", "text"]
"""How records follow each other: JSON Lines, elements of a JSON list, JSON values, slices of one large JSON object,
rows of a table, turns of a text."""


class Envelope(NamedTuple):
    """The object from which a record was split, without the list of records; `first` is whether the record is the first
    of that object."""

    value: Any
    first: bool


class Frame(NamedTuple):
    """One record: its number (line or value, from 1; None if it is the whole input), its bytes, and its value or why it
    cannot be read. A record that was split from another has its outer object, and its key there as its name. A slice of
    a large object knows how many elements the slices `before` it had; if it has fields that those had not, it counts as
    first again."""

    number: int | None
    raw: bytes
    value: Any
    reason: str | None = None
    outer: Envelope | None = None
    name: str | None = None
    before: int = 0


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=lambda name: None)
"""Reads numbers that JSON cannot write (NaN, infinities) as null."""

_PYTHON_OBJECT = re.compile(r"\s*(?:\[\s*)?\{\s*'")
_BLANK_OR_COMMA = re.compile(r"[ \t\r\n,]*")
_RECORD_START = re.compile(r"""(?<=[,\s])(?:\{(?=\s*(?:"|\Z))|\[(?=\s*(?:[\[{]|\Z)))""")
_MOST_EFFORT = 256 << 20
"""Most characters that are parsed in vain while searching for the record after a broken one."""

_LEAST_EFFORT = 1000
"""Least cost of one failed attempt, in characters."""

_LONGEST_LITERAL = 12
"""Most characters between the end of the text and the error that the decoder reports for a value cut off there."""


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
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        value = _python_value(text)
        if value is None:
            raise BadRecord(_reason(error, unit)) from None
    return _sound(raw, value)


def _python_value(text: str) -> Any:
    """The value of a record that was written as Python shows an object, with single quotes; None if it was not."""
    if not _PYTHON_OBJECT.match(text):
        return None
    try:
        return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _reason(error: Exception, unit: str, start: int = 0) -> str:
    if isinstance(error, RecursionError):
        return "nesting too deep"
    if isinstance(error, json.JSONDecodeError):
        return f"{unit} is not JSON: {error.msg.removesuffix(' at')} at character {error.pos - start + 1}"
    return f"{unit} holds a number with too many digits"


def _sound(raw: bytes, value: Any) -> Any:
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
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, _too_large())
    raw = raw.removesuffix(b"\r")
    if not raw or raw.isspace():
        return None
    try:
        return Frame(number, raw, load(raw, "line"))
    except BadRecord as bad:
        return Frame(number, raw, None, bad.reason)


def _too_large() -> str:
    return f"record is larger than {MAX_RECORD >> 20} MiB"


class Values:
    """Iterates over the frames of consecutive JSON values or of the elements of a JSON list.

    Args:
        in_list: Whether the input is one list, whose elements are the records.
        is_record: Whether a value is a record; used to find the next record after a broken one.
    """

    def __init__(self, source: Source, in_list: bool, is_record: Callable[[Any], bool]) -> None:
        self._source = source
        self._in_list = in_list
        self._is_record = is_record
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._text = ""
        self._at = 0
        self._ended = False

    def __iter__(self) -> Iterator[Frame]:
        number = 0
        list_open = self._in_list and self._something_left()
        if list_open:
            self._at += 1
        while self._something_left():
            number += 1
            if list_open and self._text[self._at] == "]":
                list_open = False
                self._at += 1
                if self._something_left():
                    yield self._tail(number, "there is something else after the list")
                    return
                break
            frame = self._next(number)
            if frame.reason and self._ended and self._at == len(self._text):
                yield frame._replace(reason=self._source.error or frame.reason)
                return
            if number == 1 and not self._in_list and not self._something_left():
                frame = frame._replace(number=None)
            yield frame
        if self._source.error:
            yield Frame(number + 1, b"", None, self._source.error)
        elif list_open:
            yield Frame(number + 1, b"", None, "the list is not closed: the file was cut off")

    def _something_left(self) -> bool:
        """Skips blanks and commas; False at the end of the input."""
        while True:
            match = _BLANK_OR_COMMA.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return True
            if not self._more():
                return False

    def _more(self) -> bool:
        """Doubles the text in memory, so that a long record is parsed few times; False at the end of the input."""
        if self._ended:
            return False
        pieces = [self._text[self._at :]]
        wanted = max(CHUNK, len(pieces[0]))
        self._at = 0
        while wanted > 0:
            chunk = self._source.read()
            pieces.append(self._decoder.decode(chunk, final=not chunk))
            wanted -= len(chunk)
            if not chunk:
                self._ended = True
                break
        self._text = "".join(pieces)
        return True

    def _next(self, number: int) -> Frame:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if not self._unfinished(error):
                    return self._broken(number, _reason(error, "element", self._at))
                if len(self._text) - self._at > MAX_RECORD:
                    return self._broken(number, _too_large())
                self._more()
                continue
            # A number at the end of the text in memory may have more digits.
            if end < len(self._text) or not self._more():
                break
        text = self._text[self._at : end]
        self._at = end
        return _frame(number, text, value)

    def _unfinished(self, error: Exception) -> bool:
        """Whether the value may be complete once more of the input is read."""
        return not self._ended and self._cut_off(error)

    def _cut_off(self, error: Exception) -> bool:
        """Whether it is the end of the text in memory at which the value goes wrong."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        at_end = error.pos >= len(self._text) - _LONGEST_LITERAL
        return at_end or error.msg.startswith("Unterminated string")

    def _broken(self, number: int, reason: str) -> Frame:
        """Skips to the next record and returns the skipped text as a frame with a reason."""
        skipped = _Skipped()
        self._text, self._at = self._text[self._at :], 0
        search = 1
        effort = _MOST_EFFORT
        while effort > 0:
            # The decoder counts the lines before each error, so the text before the place of search is dropped.
            if search > max(CHUNK, len(self._text) // 16):
                skipped.add(self._text[: search - 1])
                self._text, search = self._text[search - 1 :], 1
            match = _RECORD_START.search(self._text, search)
            if match is None:
                search = max(1, len(self._text))
                if not self._more():
                    break
                continue
            search = match.start()
            try:
                value, end = _DECODER.raw_decode(self._text, search)
            except (ValueError, RecursionError) as error:
                if self._unfinished(error) and len(self._text) - search <= MAX_RECORD:
                    self._more()
                    continue
                effort -= getattr(error, "pos", search) - search + search // 8 + _LEAST_EFFORT
            else:
                if self._is_record(value):
                    skipped.add(self._text[:search])
                    self._at = search
                    return Frame(number, skipped.raw(), None, reason)
                effort -= end - search + _LEAST_EFFORT // 2
            search += 1
        return self._tail(number, reason, skipped)

    def _tail(self, number: int, reason: str, skipped: _Skipped | None = None) -> Frame:
        """Returns the rest of the input as one frame with a reason."""
        skipped = skipped or _Skipped()
        while True:
            skipped.add(self._text[self._at :])
            self._at = len(self._text)
            if not self._more():
                return Frame(number, skipped.raw(), None, reason)


class _TooLarge(Exception):
    """A value is larger than it may be."""


class Slices(Values):
    """Iterates over the slices of one JSON object that is too large to be read at once.

    A slice is an object with some of the elements of a long list and the fields before that list; the last one has the
    fields after it too. Of an object of objects, a slice has some of the entries.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source, False, lambda value: False)
        self._late: dict[str, Any] = {}

    def needed(self) -> bool:
        """Whether the source begins with a large object."""
        if not self._something_left() or self._text[self._at] != "{":
            return False
        try:
            self._value(LARGE)
        except _TooLarge:
            return True
        except BadRecord:
            return False
        return False

    def __iter__(self) -> Iterator[Frame]:
        self._something_left()
        self._at += 1
        held: tuple[dict[str, Any], int] | None = None
        reason: str | None = None
        try:
            for value, before in self._slices():
                if held is not None:
                    yield _slice(*held)
                held = value, before
            if self._something_left():
                reason = "there is something else after the object"
        except _TooLarge:
            reason = _too_large()
        except BadRecord as bad:
            reason = bad.reason
        if held is not None:
            last = _slice({**held[0], **self._late}, held[1])
            yield last._replace(outer=Envelope(None, True)) if self._late else last
        if reason is not None:
            yield self._tail(1, reason)._replace(number=None)

    def _slices(self) -> Iterator[tuple[dict[str, Any], int]]:
        fields: dict[str, Any] = {}
        size = before = 0
        in_list = False
        while self._left() != "}":
            key = self._key()
            try:
                fields[key], length = self._value(_LARGEST_FIELD)
            except _TooLarge:
                if self._text[self._at] != "[":
                    raise
                for elements in self._elements():
                    yield {**fields, key: elements}, before
                    before += len(elements)
                in_list = True
                continue
            size += length
            if in_list:
                self._late[key] = fields[key]
            elif size > SLICE and len(fields) >= _LEAST_ENTRIES and _all_objects(fields):
                yield fields, before
                before += len(fields)
                fields, size = {}, 0
            if size > MAX_RECORD:
                raise _TooLarge
        self._at += 1
        if fields and not in_list:
            yield fields, before

    def _elements(self) -> Iterator[list[Any]]:
        """Yields the elements of a list, many at a time."""
        self._at += 1
        elements: list[Any] = []
        size = 0
        try:
            while self._left() != "]":
                value, length = self._value(MAX_RECORD)
                elements.append(value)
                size += length
                if size > SLICE:
                    yield elements
                    elements, size = [], 0
            self._at += 1
        except (BadRecord, _TooLarge):
            if elements:
                yield elements
            raise
        if elements:
            yield elements

    def _key(self) -> str:
        key, _ = self._value(_LARGEST_FIELD)
        if not isinstance(key, str) or self._left() != ":":
            raise BadRecord("the object is not JSON: a key with a colon is expected")
        self._at += 1
        self._left()
        return key

    def _left(self) -> str:
        """The next character that is neither blank nor a comma."""
        if not self._something_left():
            raise BadRecord(self._source.error or "the file was cut off")
        return self._text[self._at]

    def _value(self, most: int) -> tuple[Any, int]:
        """The value that begins here, and its size; if it is larger than `most`, its beginning is still the place."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if not self._unfinished(error):
                    reason = _reason(error, "element", self._at)
                    if self._cut_off(error):
                        reason = self._source.error or "the file was cut off"
                    raise BadRecord(reason) from None
                if len(self._text) - self._at > most:
                    raise _TooLarge from None
                self._more()
                continue
            if end < len(self._text) or not self._more():
                length = end - self._at
                self._at = end
                return value, length


def _all_objects(fields: dict[str, Any]) -> bool:
    return all(isinstance(value, dict) for value in fields.values())


def _slice(value: dict[str, Any], before: int) -> Frame:
    try:
        raw = json_text(value).encode()
    except UnicodeEncodeError:
        value = storable(value)
        raw = json_text(value).encode()
    except RecursionError:
        return Frame(None, b"", None, "nesting too deep", before=before)
    reason = "nesting too deep" if nested_deeper(value, MAX_DEPTH) else None
    return Frame(None, raw, value, reason, before=before)


class _Skipped:
    """Collects text that belongs to no record, up to `KEPT_OF_OVERSIZED` bytes."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        if self._size <= MAX_RECORD:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > MAX_RECORD:
                self._pieces = ["".join(self._pieces)[:KEPT_OF_OVERSIZED]]

    def raw(self) -> bytes:
        return _bytes("".join(self._pieces).rstrip(", \t\r\n"))[:MAX_RECORD]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _frame(number: int, text: str, value: Any) -> Frame:
    raw = _bytes(text)
    if len(raw) > MAX_RECORD:
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, _too_large())
    try:
        raw.decode("utf-8")
        return Frame(number, raw, _sound(raw, value))
    except UnicodeDecodeError as error:
        return Frame(number, raw, None, f"broken UTF-8 at byte {error.start}")
    except BadRecord as bad:
        return Frame(number, raw, None, bad.reason)
