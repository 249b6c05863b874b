"""Rows of tables of text and of Parquet files as records; `databases` reads those of SQLite.

A row is an object; a cell that holds a JSON list or object is that value. A row has no bytes of its own that could be
read again, so its record is kept as JSON.

Parquet is read in bounds of memory: how large a group of rows is when it is unpacked stands in the footer of the file,
so it is known before anything is unpacked. Not covered: a footer that says less than the truth, a dictionary of which
one row names a long text many times, and what Arrow needs for the footer itself, which is not compressed.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from engine.formats.json_values import BadRecord, json_text, storable
from engine.formats.opening.bounds import LEAST_OF_RECORD, RAISED, Reading
from engine.formats.opening.framing import KEPT_OF_OVERSIZED, MAX_RECORD, Frame, load, too_large
from engine.formats.opening.source import Source, missing_library

_DELIMITERS = ",\t;|"
"""Characters that may divide cells."""
_ROWS_COMPARED = 6
"""Number of rows by which the delimiter is told."""
_CHARS_COMPARED = 1 << 20
"""Number of characters by which the delimiter is told."""
_SEPARATOR = re.compile(r"\ufeff?sep=(.)\r?\n")
"""Matches a first line that names the delimiter, as Excel writes it."""
_TEXT_COLUMNS = frozenset(
    ("content", "message", "messagecontent", "messagetext", "msg", "text", "utterance")
)
"""Columns with the text of a message, in small letters and without signs. The text may happen to be JSON, such as the
result of a tool."""

_PARQUET_DAMAGES = (OSError, ValueError, NotImplementedError, TypeError, LookupError, OverflowError)
"""What Arrow raises for a damaged file."""

_MOST_ROWS = 256
"""Most rows that are unpacked together."""

_TOGETHER = 8 << 20
"""Number of bytes of rows that are unpacked together, if all rows of a group are alike."""

_MOST_TIMES = 100
"""How many times the size of the file a group of rows may unpack to, beyond what any file may."""


def delimiter_of(head: bytes) -> str | None:
    """Returns the character that divides the cells of a table with a header; None if the text is no such table.

    Most of the first rows have as many cells as the header. A first line `sep=;`, as Excel writes it, decides.
    """
    text = head[:_CHARS_COMPARED].decode("utf-8", "replace")
    if stated_delimiter := _SEPARATOR.match(text):
        return stated_delimiter[1]
    best: tuple[int, str] | None = None
    for delimiter in _DELIMITERS:
        rows = _some_rows(text, delimiter)
        if len(rows) < 2 or len(rows[0]) < 2 or sum(not cell.strip() for cell in rows[0]) > 1:
            continue
        columns = len(rows[0])
        if 2 * sum(len(row) == columns for row in rows[1:]) >= len(rows[1:]):
            best = max(best or (0, ""), (columns, delimiter))
    return best[1] if best else None


def _some_rows(text: str, delimiter: str) -> list[list[str]]:
    """Returns the first rows, as far as they are complete."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
            if len(rows) == _ROWS_COMPARED:
                break
    except csv.Error:
        pass  # the end of the text lies within a quoted cell, or the quotes are not those of a table
    return rows


def csv_rows(source: Source) -> Iterator[Frame]:
    """Yields the rows of a text table, whose first line is its header; a row of another length has a reason."""
    csv.field_size_limit(MAX_RECORD)
    head = source.peek(_CHARS_COMPARED)
    lines = _TextLines(source)
    reader = csv.reader(lines, delimiter=delimiter_of(head) or ",")
    header: list[str] | None = None
    while True:
        try:
            row = next(reader)
        except StopIteration:
            break
        except _TooLong:  # the reader begins anew with the next line
            yield Frame(lines.number, lines.beginning, None, too_large())
            lines.end_row()
            continue
        except csv.Error as error:
            reason = f"the row cannot be read: {error}"
            if "field limit" in str(error):
                reason = too_large()
            yield Frame(lines.number, b"", None, reason)
            lines.end_row()
            continue
        lines.end_row()
        if not row or (header is None and lines.number == 1 and row[0][:4] == "sep="):
            continue
        if header is None:
            header = column_names(row)
            continue
        yield _csv_row(lines.number, header, row)
    if source.error:
        yield Frame(lines.number + 1, b"", None, source.error)


def _csv_row(number: int, header: list[str], row: list[str]) -> Frame:
    """Returns the frame of a row of CSV."""
    if len(row) != len(header):
        raw = json_text(row).encode("utf-8", "surrogateescape")
        return Frame(number, raw, None, f"the row has {len(row)} cells, the header {len(header)}")
    record = {name: _cell(name, text) for name, text in zip(header, row, strict=True)}
    text = json_text(record)
    try:
        return Frame(number, text.encode(), record)
    except UnicodeEncodeError:
        return Frame(number, text.encode("utf-8", "surrogateescape"), None, "broken UTF-8")


def column_names(cells: list[str]) -> list[str]:
    """Returns the names of columns, each only once and none empty."""
    names: dict[str, None] = {}
    after: dict[str, int] = {}  # by name, the number from which on a free one is looked for
    for number, cell in enumerate(cells, 1):
        name = plain = cell.strip() or f"column {number}"
        free = max(number, after.get(plain, 0))
        while name in names:
            name = f"{plain} {free}"
            free += 1
        after[plain] = free
        names[name] = None
    return list(names)


class _TooLong(Exception):
    """The lines of a row are larger than a record may be."""


class _TextLines:
    """Iterates over the lines of a source as text. Lines that follow each other in one row are bounded.

    Attributes:
        number: Of the last line, from 1.
        beginning: The first bytes of a line that was too long.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ended: list[bytes] = []  # whole lines, the next one last
        self._rest = b""
        self._size = 0
        self._quotes = 0
        self.number = 0
        self.beginning = b""

    def __iter__(self) -> _TextLines:
        return self

    def __next__(self) -> str:
        """
        Raises:
            _TooLong: The row becomes too large with the next line. It is passed over, as far as its quotes tell.
        """
        line = self._next()
        if not line:
            raise StopIteration
        if self._size > MAX_RECORD:
            self.beginning = line[:KEPT_OF_OVERSIZED]
            while line and self._quotes % 2:
                line = self._next()
            raise _TooLong
        return line.decode("utf-8", "surrogateescape")

    def end_row(self) -> None:
        """Begins a row."""
        self._size = self._quotes = 0

    def _next(self) -> bytes:
        """Returns the next line."""
        if self._ended:
            line = self._ended.pop() + b"\n"
            self._quotes += line.count(b'"')
        else:
            line = self._read()
        self.number += bool(line)
        self._size += len(line)
        return line

    def _read(self) -> bytes:
        """Returns the next line with its end, empty at the end; of a longer one little more than a record may have."""
        pending = [self._rest]
        size = len(self._rest)
        self._quotes += self._rest.count(b'"')
        self._rest = b""
        while chunk := self._source.read():
            first, *ended = chunk.split(b"\n")
            self._quotes += first.count(b'"')
            if size <= MAX_RECORD:
                pending.append(first)
                size += len(first)
            if ended:
                self._rest = ended.pop()
                self._ended = ended[::-1]
                return b"".join((*pending, b"\n"))
        return b"".join(pending)


def _cell(column: str, text: str) -> Any:
    """Returns what a cell holds: the list or the object of its JSON, null if it is empty, else its text."""
    if text[:1] not in ("{", "["):
        return text or None
    try:
        value = load(text.encode("utf-8", "surrogatepass"), "cell")
    except BadRecord:
        return text
    is_text = re.sub(r"[^a-z]", "", column.lower()) in _TEXT_COLUMNS
    return text if is_text and not (_are_parts(value) or _has_role(value)) else value


def _are_parts(value: Any) -> bool:
    """Returns whether a value is the content of a message in parts, each with its type."""
    return isinstance(value, list) and all(
        isinstance(part, dict) and "type" in part for part in value
    )


def _has_role(value: Any) -> bool:
    """Returns whether a value is a message, or a list that begins with one."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and isinstance(first.get("role", first.get("from")), str)


def row_frame(number: int, row: dict[str, Any]) -> Frame:
    """Returns the frame of a row with values of any kind."""
    record = storable(
        {
            column: _cell(column, cell) if isinstance(cell, str) else _plain(cell)
            for column, cell in row.items()
        }
    )
    raw = json_text(record).encode()
    if len(raw) > MAX_RECORD:
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, too_large())
    return Frame(number, raw, record)


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it: times as ISO 8601, bytes in base64, numbers that are none as null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else None
    if isinstance(value, Iterable):
        return [_plain(entry) for entry in value]
    return str(value)


def parquet_rows(path: str, count: Reading) -> Iterator[Frame]:
    """Yields the rows of a Parquet file; a row that is larger than a record may be has a reason.

    Raises:
        FormatError: The library is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_library("Parquet", "pyarrow") from None
    most = max(count.bounds.unpacked, _MOST_TIMES * os.path.getsize(path))
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for group in range(file.metadata.num_row_groups):
                about = file.metadata.row_group(group)
                if about.total_byte_size > most:
                    yield Frame(number + 1, b"", None, _reason_not_unpacked(about))
                    number += about.num_rows
                    continue
                for row in _group_rows(file, group, about):
                    count.bounds.stop_if_cancelled()
                    number += 1
                    frame = row_frame(number, row)
                    yield frame
                    if not count.add(max(len(frame.raw), LEAST_OF_RECORD)):
                        yield Frame(None, b"", None, count.bounds.too_much)
                        return
    except _PARQUET_DAMAGES as error:
        yield Frame(number + 1, b"", None, f"the Parquet data are damaged: {error}")


def _group_rows(file: Any, group: int, about: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of a group, the fewer at a time the larger they are; `about` is what the footer says of it."""
    alike = _TOGETHER * about.num_rows // max(1, about.total_byte_size)
    size = max(1, min(_MOST_ROWS, alike))
    for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
        yield from batch.to_pylist()


def _reason_not_unpacked(about: Any) -> str:
    """Returns why the rows of a group are not read."""
    if about.num_rows == 1:
        return too_large()
    size = f"{about.total_byte_size >> 20:,} MiB"
    return f"{too_large()}, or {about.num_rows:,} rows from here on unpack to {size}; these are not read {RAISED}"
