"""Rows of tables of text, Parquet files and the sheets of workbooks (`.xlsx`, `.xlsb`, `.xls`, `.ods`) as records;
`databases` reads those of SQLite.

A row is an object; a cell that holds a JSON list or object is that value. A row has no bytes of its own that could be
read again, so its record is kept as JSON.

Parquet is read in bounds of memory: how large a group of rows is when it is unpacked stands in the footer of the file,
so it is known before anything is unpacked. Not covered: a footer that says less than the truth, a dictionary of which
one row names a long text many times, and what Arrow needs for the footer itself, which is not compressed. The library
for workbooks reads a sheet as a whole, so a workbook unpacks in memory: it may be as large as `MOST_UNPACKED`.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from engine.base.errors import FormatError, TooMuch
from engine.formats.json_values import BadRecord, json_text, storable
from engine.formats.opening.framing import (
    KEPT_OF_OVERSIZED,
    MAX_RECORD,
    Frame,
    bounded_frames,
    load,
    too_large,
)
from engine.formats.opening.source import CHUNK, RAISED, Bounds, Reading, Source, missing_library

# Text tables

_DELIMITERS = ",\t;|"
"""Characters that may divide cells."""

_DETECTION_ROWS = 6
"""Number of rows by which the delimiter is detected."""

_DETECTION_BYTES = 1 << 20
"""Number of bytes by which the delimiter is detected."""

_DELIMITER_LINE = re.compile(r"\ufeff?sep=(.)\r?\n")
"""Matches a first line that names the delimiter, such as `sep=;`, as Excel writes it."""


def delimiter_of(head: bytes) -> str | None:
    """Returns the character that divides the cells of a table with a header; None if the text is no such table.

    At least half of the first rows have as many cells as the header, of which at most one is empty. A first line
    `sep=;`, as Excel writes it, decides.
    """
    if len(head) >= _DETECTION_BYTES:  # it may end within a row, which has too few cells then
        head = head[: head.rfind(b"\n", 0, _DETECTION_BYTES) + 1]
    text = head.decode("utf-8", "replace")
    if stated_delimiter := _DELIMITER_LINE.match(text):
        return stated_delimiter[1]
    best: tuple[int, str] | None = None
    for delimiter in _DELIMITERS:
        header, *rows = _first_rows(text, delimiter) or [[]]
        columns = len(header)
        empty_count = sum(not cell.strip() for cell in header)
        is_header = columns >= 2 and empty_count <= 1
        if is_header and rows and 2 * sum(len(row) == columns for row in rows) >= len(rows):
            best = max(best or (0, ""), (columns, delimiter))
    return best[1] if best else None


def _first_rows(text: str, delimiter: str) -> list[list[str]]:
    """Returns the first rows of a text, at most `_DETECTION_ROWS`, without one that the end of the text cuts off
    within quotation marks."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
            if len(rows) == _DETECTION_ROWS:
                break
    except csv.Error:
        pass  # the end of the text lies within a quoted cell, or the quotes are not those of a table
    return rows


def csv_rows(source: Source) -> Iterator[Frame]:
    """Yields the rows of a text table, whose first line is its header; a row of another length has a reason."""
    csv.field_size_limit(MAX_RECORD)
    head = source.peek(_DETECTION_BYTES)
    lines = _TextLines(source)
    reader = csv.reader(lines, delimiter=delimiter_of(head) or ",")
    header: list[str] | None = None
    while True:
        try:
            row = next(reader)
        except StopIteration:
            break
        except _RowTooLarge:  # the reader begins anew with the next line
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
    next_suffixes: dict[str, int] = {}  # by name, the first number that may be free
    for number, cell in enumerate(cells, 1):
        name = base = cell.strip() or f"column {number}"
        suffix = max(number, next_suffixes.get(base, 0))
        while name in names:
            name = f"{base} {suffix}"
            suffix += 1
        next_suffixes[base] = suffix
        names[name] = None
    return list(names)


class _RowTooLarge(Exception):
    """The lines of a row are larger than a record may be."""


class _TextLines:
    """Iterates over the lines of a source as text; the lines of one row together have at most `MAX_RECORD` bytes.

    A row may go over several lines, within quotation marks; the reader of CSV asks for them one by one, and `end_row`
    says that it has a row. The quotation marks of the row are counted, so that the rest of one that is too large can be
    skipped.

    Attributes:
        number: Number of the last line, from 1.
        beginning: The first bytes of the row that was too large.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._whole_lines: list[bytes] = []  # lines that were read, the next one last
        self._line_start = b""  # what was read of the line after these
        self._row_size = 0  # bytes of the row so far
        self._row_quotes = 0  # quotes in the row so far
        self.number = 0
        self.beginning = b""

    def __iter__(self) -> _TextLines:
        return self

    def __next__(self) -> str:
        """Returns the next line.

        Raises:
            _RowTooLarge: The row becomes too large with the next line. The rest of it, by its quotes, is skipped.
        """
        line = self._next_line()
        if not line:
            raise StopIteration
        if self._row_size > MAX_RECORD:
            self.beginning = line[:KEPT_OF_OVERSIZED]
            while line and self._row_quotes % 2:
                line = self._next_line()
            raise _RowTooLarge
        return line.decode("utf-8", "surrogateescape")

    def end_row(self) -> None:
        """Ends a row, so that the next line begins another."""
        self._row_size = self._row_quotes = 0

    def _next_line(self) -> bytes:
        """Returns the next line with its end, and counts it; empty at the end of the source."""
        if self._whole_lines:
            line = self._whole_lines.pop() + b"\n"
            self._row_quotes += line.count(b'"')
        else:
            line = self._read_line()
        if line:
            self.number += 1
        self._row_size += len(line)
        return line

    def _read_line(self) -> bytes:
        """Returns the next line with its end, empty at the end of the source; a line longer than a record is cut,
        little above that."""
        pending = [self._line_start]
        size = len(self._line_start)
        self._row_quotes += self._line_start.count(b'"')
        self._line_start = b""
        while chunk := self._source.read():
            first, *ended = chunk.split(b"\n")
            self._row_quotes += first.count(b'"')
            if size <= MAX_RECORD:
                pending.append(first)
                size += len(first)
            if ended:
                self._line_start = ended.pop()
                self._whole_lines = ended[::-1]
                return b"".join((*pending, b"\n"))
        return b"".join(pending)


# Cells and rows of any table

_MESSAGE_COLUMNS = frozenset(
    ("content", "message", "messagecontent", "messagetext", "msg", "text", "utterance")
)
"""Columns with the text of a message, in small letters and without signs. The text may happen to be JSON, such as the
result of a tool."""


def row_frame(number: int, row: dict[str, Any]) -> Frame:
    """Returns the frame of a row with values of any kind."""
    record = storable(
        {
            column: _cell(column, cell) if isinstance(cell, str) else _as_json_value(cell)
            for column, cell in row.items()
        }
    )
    raw = json_text(record).encode()
    if len(raw) > MAX_RECORD:
        return Frame(number, raw[:KEPT_OF_OVERSIZED], None, too_large())
    return Frame(number, raw, record)


def _cell(column: str, text: str) -> Any:
    """Returns what a cell holds: the list or the object of its JSON, null if it is empty, else its text."""
    if text[:1] not in ("{", "["):
        return text or None
    try:
        value = load(text.encode("utf-8", "surrogatepass"), "cell")
    except BadRecord:
        return text
    is_text = re.sub(r"[^a-z]", "", column.lower()) in _MESSAGE_COLUMNS
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


def _as_json_value(value: Any) -> Any:
    """Returns a value as JSON has it: times as ISO 8601, bytes in base64, NaN and infinities as null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _as_json_value(entry) for key, entry in value.items()}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else None
    if isinstance(value, Iterable):
        return [_as_json_value(entry) for entry in value]
    return str(value)


# Parquet

_PARQUET_ERRORS = (OSError, ValueError, NotImplementedError, TypeError, LookupError, OverflowError)
"""What Arrow raises for a damaged file."""

_MAX_BATCH_ROWS = 256
"""Most rows that are unpacked together."""

_BATCH_BYTES = 8 << 20
"""Number of bytes of rows that are unpacked together, if all rows of a group have the same size."""

_MAX_EXPANSION = 100
"""How many times as large as its file a group of rows may be when it is unpacked, where that is more than any file
may unpack to."""


def parquet_rows(path: str, reading: Reading) -> Iterator[Frame]:
    """Returns the rows of a Parquet file; a row that is larger than a record may be has a reason.

    Args:
        reading: Counts what is unpacked, and bounds it.

    Raises:
        FormatError: When the first row is read: the library is not installed.
    """
    return bounded_frames(_parquet_frames(path, reading.bounds), reading)


def _parquet_frames(path: str, bounds: Bounds) -> Iterator[Frame]:
    """Yields the rows of a Parquet file; see `parquet_rows`."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_library("Parquet", "pyarrow") from None
    max_group_bytes = max(bounds.unpacked, _MAX_EXPANSION * os.path.getsize(path))
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for group in range(file.metadata.num_row_groups):
                footer = file.metadata.row_group(group)
                if footer.total_byte_size > max_group_bytes:
                    yield Frame(number + 1, b"", None, _reason_not_unpacked(footer))
                    number += footer.num_rows
                    continue
                for row in _group_rows(file, group, footer):
                    bounds.stop_if_cancelled()
                    number += 1
                    yield row_frame(number, row)
    except _PARQUET_ERRORS as error:
        yield Frame(number + 1, b"", None, f"the Parquet data are damaged: {error}")


def _group_rows(file: Any, group: int, footer: Any) -> Iterator[dict[str, Any]]:
    """Yields the rows of a group; the larger they are by the footer, the fewer are unpacked at a time."""
    rows_in_batch = _BATCH_BYTES * footer.num_rows // max(1, footer.total_byte_size)
    size = max(1, min(_MAX_BATCH_ROWS, rows_in_batch))
    for batch in file.iter_batches(batch_size=size, row_groups=[group], use_threads=False):
        try:
            yield from batch.to_pylist()
        except _PARQUET_ERRORS:
            columns = [[_as_python(value) for value in column] for column in batch.columns]
            for row in zip(*columns, strict=True):
                yield dict(zip(batch.schema.names, row, strict=True))


def _as_python(value: Any) -> Any:
    """Returns what a value of Arrow holds. A value within it for which Python has none, such as a time in nanoseconds,
    becomes a text."""
    try:
        return value.as_py()
    except _PARQUET_ERRORS:
        kind = str(value.type)
    if kind.startswith("struct"):
        return {name: _as_python(entry) for name, entry in value.items()}
    if kind.startswith("map"):
        return [[_as_python(pair[0]), _as_python(pair[1])] for pair in value.values]
    if "list" in kind.partition("<")[0]:
        return [_as_python(entry) for entry in value]
    if kind in ("string", "large_string"):
        return value.cast("binary").as_py().decode("utf-8", "replace")
    if kind.startswith("timestamp"):
        unit, zone, _ = kind.rstrip("]").partition(", tz=")
        text = str(value.cast(f"{unit}]").cast("string"))
        return text[:10] + text[10:].replace(" ", "T", 1) + ("Z" if zone else "")
    return str(value.cast("string"))


def _reason_not_unpacked(footer: Any) -> str:
    """Returns why the rows of a group are not read."""
    if footer.num_rows == 1:  # no limit lets it be read
        return too_large()
    size = f"{footer.total_byte_size >> 20:,} MiB"
    return f"{too_large()}, or {footer.num_rows:,} rows from here on unpack to {size}; these are not read {RAISED}"


# Workbooks

MOST_UNPACKED = 256 << 20
"""Most bytes of a workbook, unpacked."""

OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of a workbook of old Excel."""

_EXCEL_MEMBERS = frozenset(("xl/workbook.xml", "xl/workbook.bin"))
"""Members that only a workbook of Excel has."""

_SAVE_AS_CSV = "Save its sheet as CSV, and import that."
"""Hint for a workbook that is not read."""


def is_workbook(archive: zipfile.ZipFile) -> bool:
    """Returns whether a zip archive is a workbook."""
    names = archive.namelist()
    return not _EXCEL_MEMBERS.isdisjoint(names) or (
        names[:1] == ["mimetype"] and "content.xml" in names
    )


def sheet_names(path: str, label: str) -> list[str]:
    """Returns the names of the sheets of a workbook that are shown.

    Raises:
        FormatError: It cannot be read, or the library for it is not installed.
        TooMuch: It is too large.
    """
    _check_size(path, label)
    return [
        sheet.name
        for sheet in _open_workbook(path, label).sheets_metadata
        if "Visible" in str(sheet.visible)
    ]


def sheet_rows(path: str, label: str, name: str, reading: Reading) -> Iterator[Frame]:
    """Returns the rows of a sheet below its first that is not empty, which has the names of the columns."""
    return bounded_frames(_sheet_frames(path, label, name), reading)


def _sheet_frames(path: str, label: str, name: str) -> Iterator[Frame]:
    """Yields the rows of a sheet; see `sheet_rows`."""
    try:
        with _damage_as_format_error(label):
            rows = _open_workbook(path, label).get_sheet_by_name(name).to_python()
    except FormatError as error:  # the other sheets may be read
        yield Frame(1, b"", None, error.message)
        return
    names: list[str] = []
    for number, row in enumerate(rows, 1):
        if not names:
            names = column_names([str(cell) for cell in row]) if any(row) else []
            continue
        cells = {
            column: _sheet_cell(cell)
            for column, cell in zip(names, row, strict=False)
            if cell != ""
        }
        if cells:
            yield row_frame(number, cells)


def _sheet_cell(value: Any) -> Any:
    """Returns a cell with a whole number as such: a workbook has floats only."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_size(path: str, label: str) -> None:
    """Checks that a workbook unpacks to at most `MOST_UNPACKED`, whatever its members say.

    Raises:
        TooMuch: It unpacks to more.
        FormatError: Its archive is damaged.
    """
    if not zipfile.is_zipfile(path):
        return
    size = 0
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                with archive.open(entry) as member:
                    while size <= MOST_UNPACKED and (data := member.read(CHUNK)):
                        size += len(data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise FormatError(f"The workbook {label} is damaged: {error}.", _SAVE_AS_CSV) from None
    if size > MOST_UNPACKED:
        raise TooMuch(f"The workbook {label} unpacks to more than {MOST_UNPACKED >> 20} MiB.")


def _open_workbook(path: str, label: str) -> Any:
    """Returns a workbook as the library has it."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError:
        raise missing_library("workbooks", "python-calamine", _SAVE_AS_CSV) from None
    with _damage_as_format_error(label):
        return CalamineWorkbook.from_path(path)


@contextmanager
def _damage_as_format_error(label: str) -> Iterator[None]:
    """Raises FormatError for what the library raises of a damaged workbook; its panics are no Exception."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise FormatError(f"The workbook {label} cannot be read: {error}.", _SAVE_AS_CSV) from None
