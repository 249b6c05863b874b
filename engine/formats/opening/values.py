"""Splits JSON text into records: consecutive JSON values, or the elements of a JSON list. After a broken value it goes
on with the next one that looks like a record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from engine.formats.json_values import BadRecord
from engine.formats.opening.framing import KEPT_OF_OVERSIZED, MAX_RECORD, Frame, checked, too_large
from engine.formats.opening.json_cursor import DECODER, JsonCursor, reason_of
from engine.formats.opening.source import CHUNK, Source

_RECORD_START = re.compile(r"""(?<=[,\s])(?:\{(?=\s*(?:"|\Z))|\[(?=\s*(?:[\[{]|\Z)))""")
_MOST_EFFORT = 256 << 20
"""Most characters that are parsed in vain while searching for the record after a broken one."""

_LEAST_EFFORT = 1000
"""Least cost of one failed attempt, in characters."""


class Values:
    """Iterates over the frames of consecutive JSON values or of the elements of a JSON list.

    Args:
        in_list: Whether the input is one list, whose elements are the records.
        is_record: Whether a value is a record; used to find the next record after a broken one.
    """

    def __init__(self, source: Source, in_list: bool, is_record: Callable[[Any], bool]) -> None:
        self._cursor = JsonCursor(source)
        self._in_list = in_list
        self._is_record = is_record

    def __iter__(self) -> Iterator[Frame]:
        cursor = self._cursor
        number = 0
        list_open = self._in_list and cursor.skip_blanks()
        if list_open:
            cursor.at += 1
        while cursor.skip_blanks():
            number += 1
            if list_open and cursor.text[cursor.at] == "]":
                list_open = False
                cursor.at += 1
                if cursor.skip_blanks():
                    yield rest_of(cursor, number, "there is something else after the list")
                    return
                break
            frame = self._next(number)
            if frame.reason and cursor.ended and cursor.at == len(cursor.text):
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
        cursor = self._cursor
        while True:
            try:
                value, end = DECODER.raw_decode(cursor.text, cursor.at)
            except (ValueError, RecursionError) as error:
                if not cursor.unfinished(error):
                    return self._broken(number, reason_of(error, "element", cursor.at))
                if len(cursor.text) - cursor.at > MAX_RECORD:
                    return self._broken(number, too_large())
                cursor.more()
                continue
            # A number at the end of the text in memory may have more digits.
            if end < len(cursor.text) or not cursor.more():
                break
        text = cursor.text[cursor.at : end]
        cursor.at = end
        return _frame(number, text, value)

    def _broken(self, number: int, reason: str) -> Frame:
        """Skips to the next record and returns the skipped text as a frame with a reason."""
        cursor = self._cursor
        skipped = _Skipped()
        cursor.text, cursor.at = cursor.text[cursor.at :], 0
        search = 1
        effort = _MOST_EFFORT
        while effort > 0:
            # The decoder counts the lines before each error, so the text before the place of search is dropped.
            if search > max(CHUNK, len(cursor.text) // 16):
                skipped.add(cursor.text[: search - 1])
                cursor.text, search = cursor.text[search - 1 :], 1
            match = _RECORD_START.search(cursor.text, search)
            if match is None:
                search = max(1, len(cursor.text))
                if not cursor.more():
                    break
                continue
            search = match.start()
            try:
                value, end = DECODER.raw_decode(cursor.text, search)
            except (ValueError, RecursionError) as error:
                if cursor.unfinished(error) and len(cursor.text) - search <= MAX_RECORD:
                    cursor.more()
                    continue
                effort -= getattr(error, "pos", search) - search + search // 8 + _LEAST_EFFORT
            else:
                if self._is_record(value):
                    skipped.add(cursor.text[:search])
                    cursor.at = search
                    return Frame(number, skipped.raw(), None, reason)
                effort -= end - search + _LEAST_EFFORT // 2
            search += 1
        return rest_of(cursor, number, reason, skipped)


def rest_of(cursor: JsonCursor, number: int, reason: str, skipped: _Skipped | None = None) -> Frame:
    """Reads to the end of the input and returns the rest, after what was `skipped`, as one frame with a reason."""
    skipped = skipped or _Skipped()
    while True:
        skipped.add(cursor.text[cursor.at :])
        cursor.at = len(cursor.text)
        if not cursor.more():
            return Frame(number, skipped.raw(), None, reason)


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
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, too_large())
    try:
        raw.decode("utf-8")
        return Frame(number, raw, checked(raw, value))
    except UnicodeDecodeError as error:
        return Frame(number, raw, None, f"broken UTF-8 at byte {error.start}")
    except BadRecord as bad:
        return Frame(number, raw, None, bad.reason)
