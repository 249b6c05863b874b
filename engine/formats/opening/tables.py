"""Rows of tables as records: CSV and TSV, Parquet, SQLite. A row is an object; a cell that holds a JSON list or object
is that value.

A row has no bytes of its own that could be read again, so its record is kept as JSON.
"""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from engine.errors import FormatError
from engine.formats.json_values import BadRecord, json_text, storable
from engine.formats.opening.framing import MAX_RECORD, Frame, load
from engine.formats.opening.source import Source, missing_library

_DELIMITERS = ",\t;|"
_ROWS_COMPARED = 6
_CHARS_COMPARED = 1 << 20
_BATCH_ROWS = 256
_SEPARATOR = re.compile(r"\ufeff?sep=(.)\r?\n")
_SAID = ("content", "text")
"""Columns with what was said, which may happen to be JSON."""


DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises; the text of an error may be damaged too."""


def delimiter_of(head: bytes) -> str | None:
    """The character that divides the cells of a table with a header; None if the text is no such table.

    Most of the first rows have as many cells as the header. A first line `sep=;`, as Excel writes it, decides.
    """
    text = head[:_CHARS_COMPARED].decode("utf-8", "replace")
    if said := _SEPARATOR.match(text):
        return said[1]
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
    """The first rows, as far as they are complete."""
    found: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            if row:
                found.append(row)
            if len(found) == _ROWS_COMPARED:
                break
    except csv.Error:
        pass  # the end of the text lies within a quoted cell, or the quotes are not those of a table
    return found


def csv_rows(source: Source) -> Iterator[Frame]:
    """Yields the rows of a text table, whose first line is its header; a row of another length has a reason."""
    csv.field_size_limit(MAX_RECORD)
    head = source.peek(_CHARS_COMPARED)
    reader = csv.reader(_text_lines(source), delimiter=delimiter_of(head) or ",")
    header: list[str] | None = None
    try:
        for row in reader:
            if not row or (header is None and reader.line_num == 1 and row[0][:4] == "sep="):
                continue
            if header is None:
                header = _names(row)
                continue
            yield _csv_row(reader.line_num, header, row)
    except csv.Error as error:
        yield Frame(reader.line_num, b"", None, f"the table cannot be read further: {error}")
    if source.error:
        yield Frame(reader.line_num + 1, b"", None, source.error)


def _csv_row(number: int, header: list[str], row: list[str]) -> Frame:
    if len(row) != len(header):
        raw = json_text(row).encode("utf-8", "surrogateescape")
        return Frame(number, raw, None, f"the row has {len(row)} cells, the header {len(header)}")
    record = {name: _cell(name, text) for name, text in zip(header, row, strict=True)}
    text = json_text(record)
    try:
        return Frame(number, text.encode(), record)
    except UnicodeEncodeError:
        return Frame(number, text.encode("utf-8", "surrogateescape"), None, "broken UTF-8")


def _names(cells: list[str]) -> list[str]:
    """The names of columns, each only once and none empty."""
    names: list[str] = []
    for number, cell in enumerate(cells, 1):
        name = wanted = cell.strip() or f"column {number}"
        while name in names:
            name = f"{wanted} {number}"
            number += 1
        names.append(name)
    return names


def _text_lines(source: Source) -> Iterator[str]:
    pending: list[bytes] = []
    size = 0
    while chunk := source.read():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*pending, line, b"\n")).decode("utf-8", "surrogateescape")
            pending, size = [], 0
        pending.append(rest)
        size += len(rest)
        if size > MAX_RECORD:
            raise csv.Error(f"a line is longer than {MAX_RECORD >> 20} MiB")
    if rest := b"".join(pending):
        yield rest.decode("utf-8", "surrogateescape")


def _cell(column: str, text: str) -> Any:
    """What a cell holds: the list or the object of its JSON, null if it is empty, else its text."""
    if text[:1] not in ("{", "["):
        return text or None
    try:
        value = load(text.encode("utf-8", "surrogatepass"), "cell")
    except BadRecord:
        return text
    if column in _SAID and not _are_parts(value):
        return text
    return value


def _are_parts(value: Any) -> bool:
    """Whether a value is the content of a message in parts, each with its type."""
    return isinstance(value, list) and all(
        isinstance(part, dict) and "type" in part for part in value
    )


def parquet_rows(path: str) -> Iterator[Frame]:
    """Yields the rows of a Parquet file.

    Raises:
        FormatError: The library is not installed.
    """
    parquet = _parquet()
    number = 0
    try:
        with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield _row(number, row)
    except (
        OSError,
        ValueError,
        NotImplementedError,
        TypeError,
    ) as error:  # the errors of Arrow are these
        yield Frame(number + 1, b"", None, f"the Parquet data are damaged: {error}")


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise missing_library("Parquet", "pyarrow") from None
    return parquet


def sqlite_tables(path: str, label: str) -> list[str]:
    """The names of the tables and views of an SQLite database that have rows.

    Raises:
        FormatError: The database cannot be read.
    """
    query = (
        "select name from sqlite_master where type in ('table', 'view')"
        " and name not like 'sqlite\\_%' escape '\\' order by name"
    )
    try:
        with connected(path) as database:
            names = [name for (name,) in database.execute(query)]
            return [name for name in names if _has_rows(database, name)]
    except DATABASE_ERRORS as error:
        raise FormatError(
            f"The SQLite database {label} cannot be read: {error}.", "Check the file."
        ) from None


def _has_rows(database: sqlite3.Connection, table: str) -> bool:
    try:
        return database.execute(f"select 1 from {_name(table)} limit 1").fetchone() is not None
    except DATABASE_ERRORS:  # a virtual table whose module is not there
        return False


def sqlite_rows(path: str, table: str) -> Iterator[Frame]:
    """Yields the rows of a table of an SQLite database."""
    number = 0
    try:
        with connected(path) as database:
            rows = database.execute(f"select * from {_name(table)}")
            columns = _names([column[0] for column in rows.description])
            for row in rows:
                number += 1
                yield _row(number, dict(zip(columns, row, strict=True)))
    except DATABASE_ERRORS as error:
        yield Frame(number + 1, b"", None, f"the database cannot be read further: {error}")


class connected:
    """A connection to a database that is only read; closed at the end.

    Nothing is written beside the database either, unless there is a log of writes that are not in it yet.
    """

    def __init__(self, path: str) -> None:
        log = f"{path}-wal"
        unwritten = os.path.exists(log) and os.path.getsize(log) > 0
        mode = "mode=ro" if unwritten else "mode=ro&immutable=1"
        self._database = sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True)
        self._database.text_factory = lambda data: data.decode("utf-8", "replace")

    def __enter__(self) -> sqlite3.Connection:
        return self._database

    def __exit__(self, *_: object) -> None:
        self._database.close()


def _name(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


def _row(number: int, row: dict[str, Any]) -> Frame:
    record = storable(
        {
            column: _cell(column, cell) if isinstance(cell, str) else _plain(cell)
            for column, cell in row.items()
        }
    )
    return Frame(number, json_text(record).encode(), record)


def _plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO 8601, bytes in base64, numbers that are none as null."""
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
