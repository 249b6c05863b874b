"""Splits JSON text into records: consecutive JSON values, or the elements of a JSON list. After a broken value it goes
on with the next one that looks like a record."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from engine.formats.json_values import BadRecord, is_nested_too_deep, json_text, storable
from engine.formats.opening.framing import (
    DECODER,
    KEPT_OF_OVERSIZED,
    MAX_RECORD,
    Envelope,
    Frame,
    checked,
    reason_of,
    too_large,
)
from engine.formats.opening.source import CHUNK, Source

_RECORD_START = re.compile(r"""(?<=[,\s])(?:\{(?=\s*(?:"|\Z))|\[(?=\s*(?:[\[{]|\Z)))""")
"""Finds where a record may begin after a broken one: `{"` or `[{` after a comma or a blank."""

_MAX_EFFORT = 256 << 20
"""Most characters that are parsed in vain while the next record after a broken one is searched for."""

_MIN_EFFORT = 1000
"""Least cost of one failed attempt to parse a record, in characters."""

LARGE = 8 << 20
"""Size in characters from which an object is read in slices, if its records lie in a list within it."""

SLICE = 4 << 20
"""Size in characters of a slice of a large object."""

_MAX_FIELD = 8 << 20
"""Size in characters of a field of a large object up to which it is read as a whole."""

_MIN_ENTRIES = 20
"""Number of entries from which a large object of objects is read in slices."""

_BLANK_OR_COMMA = re.compile("[ \t\r\n,\ufeff]*")
"""Matches what stands between two values; a byte order mark too, where files were put one after the other."""

_MAX_READ_BYTES = 16 << 20
"""Most bytes that are read at once after a record that goes on."""

_MAX_LITERAL_CHARACTERS = 12
"""Most characters between the end of the text and the error that the decoder reports for a value cut off there."""


class _TooLarge(Exception):
    """A value is larger than it may be."""


class _JsonCursor:
    """The part of a text that is in memory, and the position in it from which the next value is read.

    Attributes:
        text: The part in memory. It begins anywhere at or before the position.
        position: An index of `text`.
        is_at_end: Whether the source has no more text than `text`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text = ""
        self.position = 0
        self.is_at_end = False

    @property
    def error(self) -> str | None:
        """Why the source ended early; None if it did not."""
        return self._source.error

    def skip_blanks(self) -> bool:
        """Moves the position past blanks and commas; returns False at the end of the input."""
        while True:
            match = _BLANK_OR_COMMA.match(self.text, self.position)
            self.position = match.end() if match else self.position
            if self.position < len(self.text):
                return True
            if not self.read_more():
                return False

    def read_more(self) -> bool:
        """Drops the text before the position and reads more after it; returns False if the end was reached before.

        It reads as much as the rest, up to `_MAX_READ_BYTES`, so that a long record is decoded few times.
        """
        if self.is_at_end:
            return False
        unread = self.text[self.position :]
        pieces = [unread]
        bytes_wanted = min(max(CHUNK, len(unread)), _MAX_READ_BYTES)
        self.position = 0
        while bytes_wanted > 0:
            chunk = self._source.read()
            pieces.append(self._decoder.decode(chunk, final=not chunk))
            bytes_wanted -= len(chunk)
            if not chunk:
                self.is_at_end = True
                break
        self.text = "".join(pieces)
        return True

    def is_unfinished(self, error: Exception) -> bool:
        """Returns whether a value with this error may be complete when more of the input is read."""
        return not self.is_at_end and self.is_cut_off(error)

    def is_cut_off(self, error: Exception) -> bool:
        """Returns whether the error of a value is at the end of the text in memory."""
        if not isinstance(error, json.JSONDecodeError):
            return False
        at_end = error.pos >= len(self.text) - _MAX_LITERAL_CHARACTERS
        return at_end or error.msg.startswith("Unterminated string")

    def next_value(self, most: int) -> tuple[Any, str]:
        """Returns the value that begins at the position, with its text, and moves the position behind it.

        Raises:
            _TooLarge: It is larger than `most` characters; the position stays.
            ValueError: It is not JSON, or is cut off.
            RecursionError: It is nested too deep.
        """
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.position)
            except (ValueError, RecursionError) as error:
                if not self.is_unfinished(error):
                    raise
                if len(self.text) - self.position > most:
                    raise _TooLarge from None
                self.read_more()
                continue
            # a number at the end of the text in memory may have more digits
            if end < len(self.text) or not self.read_more():
                text = self.text[self.position : end]
                self.position = end
                return value, text


class Values:
    """Iterates over the frames of consecutive JSON values or of the elements of a JSON list.

    Args:
        in_list: Whether the input is one list, whose elements are the records.
        is_record: Whether a value is a record; used to find the next record after a broken one.
    """

    def __init__(self, source: Source, in_list: bool, is_record: Callable[[Any], bool]) -> None:
        self._cursor = _JsonCursor(source)
        self._in_list = in_list
        self._is_record = is_record

    def __iter__(self) -> Iterator[Frame]:
        cursor = self._cursor
        number = 0
        list_open = self._in_list and cursor.skip_blanks()
        if list_open:
            cursor.position += 1
        while cursor.skip_blanks():
            number += 1
            if list_open and cursor.text[cursor.position] == "]":
                list_open = False
                cursor.position += 1
                if cursor.skip_blanks():
                    yield _rest_frame(cursor, number, "there is something else after the list")
                    return
                break
            frame = self._next(number)
            if frame.reason and cursor.is_at_end and cursor.position == len(cursor.text):
                yield frame._replace(reason=cursor.error or frame.reason)
                return
            if number == 1 and not self._in_list and not cursor.skip_blanks():
                frame = frame._replace(number=None)
            yield frame
        if cursor.error:
            yield Frame(number + 1, b"", None, cursor.error)
        elif list_open:
            yield Frame(number + 1, b"", None, "the list is not closed: the file was cut off")

    def _next(self, number: int) -> Frame:
        """Returns the frame of the next value."""
        cursor = self._cursor
        try:
            value, text = cursor.next_value(MAX_RECORD)
        except _TooLarge:
            return self._broken(number, too_large())
        except (ValueError, RecursionError) as error:
            return self._broken(number, reason_of(error, "element", cursor.position))
        return _value_frame(number, text, value)

    def _broken(self, number: int, reason: str) -> Frame:
        """Skips to the next record and returns the skipped text as a frame with a reason."""
        cursor = self._cursor
        skipped = _SkippedText()
        cursor.text, cursor.position = cursor.text[cursor.position :], 0
        search = 1
        effort = _MAX_EFFORT
        while effort > 0:
            # The decoder counts the lines before each error, so the text before the place of search is dropped.
            if search > max(CHUNK, len(cursor.text) // 16):
                skipped.add(cursor.text[: search - 1])
                cursor.text, search = cursor.text[search - 1 :], 1
            match = _RECORD_START.search(cursor.text, search)
            if match is None:
                search = max(1, len(cursor.text))
                if not cursor.read_more():
                    break
                continue
            search = match.start()
            try:
                value, end = DECODER.raw_decode(cursor.text, search)
            except (ValueError, RecursionError) as error:
                if cursor.is_unfinished(error) and len(cursor.text) - search <= MAX_RECORD:
                    cursor.read_more()
                    continue
                effort -= getattr(error, "pos", search) - search + search // 8 + _MIN_EFFORT
            else:
                if self._is_record(value):
                    skipped.add(cursor.text[:search])
                    cursor.position = search
                    return Frame(number, skipped.raw(), None, reason)
                effort -= end - search + _MIN_EFFORT // 2
            search += 1
        return _rest_frame(cursor, number, reason, skipped)


def _rest_frame(
    cursor: _JsonCursor, number: int, reason: str, skipped: _SkippedText | None = None
) -> Frame:
    """Reads to the end of the input and returns the rest, after what was `skipped`, as one frame with a reason."""
    skipped = skipped or _SkippedText()
    while True:
        skipped.add(cursor.text[cursor.position :])
        cursor.position = len(cursor.text)
        if not cursor.read_more():
            return Frame(number, skipped.raw(), None, reason)


class _SkippedText:
    """Collects text that belongs to no record; of more than `MAX_RECORD` characters only the first
    `KEPT_OF_OVERSIZED`."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        """Adds a piece, unless too much was skipped already."""
        if self._size <= MAX_RECORD:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > MAX_RECORD:
                self._pieces = ["".join(self._pieces)[:KEPT_OF_OVERSIZED]]

    def raw(self) -> bytes:
        """Returns the bytes that were skipped, without blanks and commas at their end; at most `MAX_RECORD` of them."""
        return _encode("".join(self._pieces).rstrip(", \t\r\n"))[:MAX_RECORD]


def _encode(text: str) -> bytes:
    """Returns the bytes from which a text was decoded, broken ones included."""
    return text.encode("utf-8", "surrogateescape")


def _value_frame(number: int, text: str, value: Any) -> Frame:
    """Returns the frame of a value, with a reason if it is too large or damaged."""
    raw = _encode(text)
    if len(raw) > MAX_RECORD:
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, too_large())
    try:
        raw.decode("utf-8")
        return Frame(number, raw, checked(raw, value))
    except UnicodeDecodeError as error:
        return Frame(number, raw, None, f"broken UTF-8 at byte {error.start}")
    except BadRecord as bad:
        return Frame(number, raw, None, bad.reason)


class Slices:
    """Iterates over the slices of one JSON object that is too large to be read at once.

    A slice is an object with some of the elements of a long list and the fields before that list; the last one has the
    fields after it too. Of an object of objects, a slice has some of the entries.
    """

    def __init__(self, source: Source) -> None:
        self._cursor = _JsonCursor(source)
        self._fields_after_list: dict[str, Any] = {}

    def is_needed(self) -> bool:
        """Returns whether the source begins with a large object."""
        cursor = self._cursor
        if not cursor.skip_blanks() or cursor.text[cursor.position] != "{":
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
        cursor.position += 1
        # held back until the next one comes, because the last one gets the fields after the list
        last_slice: tuple[dict[str, Any], int] | None = None
        reason: str | None = None
        try:
            for value, before in self._slices():
                if last_slice is not None:
                    yield _slice_frame(*last_slice)
                last_slice = value, before
            if cursor.skip_blanks():
                reason = "there is something else after the object"
        except _TooLarge:
            reason = too_large()
        except BadRecord as bad:
            reason = bad.reason
        if last_slice is not None:
            value, before = last_slice
            last = _slice_frame({**value, **self._fields_after_list}, before)
            yield last._replace(outer=Envelope(None, True)) if self._fields_after_list else last
        if reason is not None:
            yield _rest_frame(cursor, 1, reason)._replace(number=None)

    def _slices(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yields the slices, each with the number of elements before it; raises as `_value` does."""
        cursor = self._cursor
        fields: dict[str, Any] = {}
        size = before = 0
        in_list = False
        while self._next_character() != "}":
            key = self._key()
            try:
                fields[key], length = self._value(_MAX_FIELD)
            except _TooLarge:
                if cursor.text[cursor.position] != "[":
                    raise
                for elements in self._elements():
                    yield {**fields, key: elements}, before
                    before += len(elements)
                in_list = True
                continue
            size += length
            if in_list:
                self._fields_after_list[key] = fields[key]
            elif size > SLICE and len(fields) >= _MIN_ENTRIES and _all_objects(fields):
                yield fields, before
                before += len(fields)
                fields, size = {}, 0
            if size > MAX_RECORD:
                raise _TooLarge
        cursor.position += 1
        if fields and not in_list:
            yield fields, before

    def _elements(self) -> Iterator[list[Any]]:
        """Yields the elements of the list that begins at the position, many at a time; raises as `_value` does."""
        cursor = self._cursor
        cursor.position += 1
        elements: list[Any] = []
        size = 0
        try:
            while self._next_character() != "]":
                value, length = self._value(MAX_RECORD)
                elements.append(value)
                size += length
                if size > SLICE:
                    yield elements
                    elements, size = [], 0
            cursor.position += 1
        except (BadRecord, _TooLarge):
            if elements:
                yield elements
            raise
        if elements:
            yield elements

    def _key(self) -> str:
        """Returns the key that begins at the position, and moves the position to its value; raises as `_value` does."""
        cursor = self._cursor
        key, _ = self._value(_MAX_FIELD)
        if not isinstance(key, str) or self._next_character() != ":":
            raise BadRecord("the object is not JSON: a key with a colon is expected")
        cursor.position += 1
        self._next_character()
        return key

    def _next_character(self) -> str:
        """Moves the position to the next character that is neither blank nor a comma, and returns it.

        Raises:
            BadRecord: There is none.
        """
        cursor = self._cursor
        if not cursor.skip_blanks():
            raise BadRecord(cursor.error or "the file was cut off")
        return cursor.text[cursor.position]

    def _value(self, most: int) -> tuple[Any, int]:
        """Returns the value that begins at the position, and its size in characters, and moves the position behind it.

        Raises:
            _TooLarge: It is larger than `most` characters; the position stays.
            BadRecord: It is not JSON, or cut off.
        """
        cursor = self._cursor
        try:
            value, text = cursor.next_value(most)
        except (ValueError, RecursionError) as error:
            reason = reason_of(error, "element", cursor.position)
            if cursor.is_cut_off(error):
                reason = cursor.error or "the file was cut off"
            raise BadRecord(reason) from None
        return value, len(text)


def _all_objects(fields: dict[str, Any]) -> bool:
    """Returns whether each field holds an object."""
    return all(isinstance(value, dict) for value in fields.values())


def _slice_frame(value: dict[str, Any], before: int) -> Frame:
    """Returns the frame of a slice."""
    try:
        raw = json_text(value).encode()
    except UnicodeEncodeError:
        value = storable(value)
        raw = json_text(value).encode()
    except RecursionError:
        return Frame(None, b"", None, "nesting too deep", before=before)
    reason = "nesting too deep" if is_nested_too_deep(value) else None
    return Frame(None, raw, value, reason, before=before)
