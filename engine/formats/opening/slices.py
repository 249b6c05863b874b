"""Reads one JSON object that is too large for memory in slices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.formats.json_values import MAX_DEPTH, BadRecord, json_text, nested_deeper, storable
from engine.formats.opening.framing import MAX_RECORD, Envelope, Frame, too_large
from engine.formats.opening.json_cursor import DECODER, JsonCursor, reason_of
from engine.formats.opening.source import Source
from engine.formats.opening.values import rest_of

LARGE = 8 << 20
"""Size in characters from which an object is read in slices, if its records lie in a list within it."""

SLICE = 4 << 20
"""Size in characters of a slice of a large object."""

_LARGEST_FIELD = 8 << 20
_LEAST_ENTRIES = 20
"""Number of entries from which a large object of objects is read in slices."""


class _TooLarge(Exception):
    """A value is larger than it may be."""


class Slices:
    """Iterates over the slices of one JSON object that is too large to be read at once.

    A slice is an object with some of the elements of a long list and the fields before that list; the last one has the
    fields after it too. Of an object of objects, a slice has some of the entries.
    """

    def __init__(self, source: Source) -> None:
        self._cursor = JsonCursor(source)
        self._late: dict[str, Any] = {}

    def needed(self) -> bool:
        """Whether the source begins with a large object."""
        cursor = self._cursor
        if not cursor.skip_blanks() or cursor.text[cursor.at] != "{":
            return False
        try:
            self._value(LARGE)
        except _TooLarge:
            return True
        except BadRecord:
            return False
        return False

    def __iter__(self) -> Iterator[Frame]:
        cursor = self._cursor
        cursor.skip_blanks()
        cursor.at += 1
        held: tuple[dict[str, Any], int] | None = None
        reason: str | None = None
        try:
            for value, before in self._slices():
                if held is not None:
                    yield _slice(*held)
                held = value, before
            if cursor.skip_blanks():
                reason = "there is something else after the object"
        except _TooLarge:
            reason = too_large()
        except BadRecord as bad:
            reason = bad.reason
        if held is not None:
            last = _slice({**held[0], **self._late}, held[1])
            yield last._replace(outer=Envelope(None, True)) if self._late else last
        if reason is not None:
            yield rest_of(cursor, 1, reason)._replace(number=None)

    def _slices(self) -> Iterator[tuple[dict[str, Any], int]]:
        cursor = self._cursor
        fields: dict[str, Any] = {}
        size = before = 0
        in_list = False
        while self._left() != "}":
            key = self._key()
            try:
                fields[key], length = self._value(_LARGEST_FIELD)
            except _TooLarge:
                if cursor.text[cursor.at] != "[":
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
        cursor.at += 1
        if fields and not in_list:
            yield fields, before

    def _elements(self) -> Iterator[list[Any]]:
        """Yields the elements of a list, many at a time."""
        cursor = self._cursor
        cursor.at += 1
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
            cursor.at += 1
        except (BadRecord, _TooLarge):
            if elements:
                yield elements
            raise
        if elements:
            yield elements

    def _key(self) -> str:
        cursor = self._cursor
        key, _ = self._value(_LARGEST_FIELD)
        if not isinstance(key, str) or self._left() != ":":
            raise BadRecord("the object is not JSON: a key with a colon is expected")
        cursor.at += 1
        self._left()
        return key

    def _left(self) -> str:
        """The next character that is neither blank nor a comma."""
        cursor = self._cursor
        if not cursor.skip_blanks():
            raise BadRecord(cursor.error or "the file was cut off")
        return cursor.text[cursor.at]

    def _value(self, most: int) -> tuple[Any, int]:
        """The value that begins here, and its size; if it is larger than `most`, its beginning is still the place."""
        cursor = self._cursor
        while True:
            try:
                value, end = DECODER.raw_decode(cursor.text, cursor.at)
            except (ValueError, RecursionError) as error:
                if not cursor.unfinished(error):
                    reason = reason_of(error, "element", cursor.at)
                    if cursor.cut_off(error):
                        reason = cursor.error or "the file was cut off"
                    raise BadRecord(reason) from None
                if len(cursor.text) - cursor.at > most:
                    raise _TooLarge from None
                cursor.more()
                continue
            if end < len(cursor.text) or not cursor.more():
                length = end - cursor.at
                cursor.at = end
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
