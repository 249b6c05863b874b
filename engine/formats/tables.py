"""Rows of tables as records: CSV and TSV, Parquet, SQLite. A row is an object; a cell that holds a JSON list or object
is that value."""

from __future__ import annotations

import base64
import csv
import io
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from engine.errors import FormatError
from engine.formats.framing import MAX_RECORD, Frame
from engine.formats.json_values import as_json, storable
from engine.formats.paths import decoded
from engine.formats.source import Source, missing_library

_DELIMITERS = ",\t;|"
_ROWS_COMPARED = 5
_BATCH_ROWS = 256


def delimiter_of(head: bytes) -> str | None:
    """The character that divides the cells of a table with a header; None if the text is no such table."""
    text = head[: 1 << 16].decode("utf-8", "replace")
    best: tuple[int, str] | None = None
    for delimiter in _DELIMITERS:
        rows = _some_rows(text, delimiter)
        if len(rows) < 2 or len(rows[0]) < 2 or not all(cell.strip() for cell in rows[0]):
            continue
        columns = len(rows[0])
        if len(set(rows[0])) == columns and all(len(row) == columns for row in rows[1:-1] or rows):
            best = max(best or (0, ""), (columns, delimiter))
    return best[1] if best else None


def _some_rows(text: str, delimiter: str) -> list[list[str]]:
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        found: list[list[str]] = []
        for row in rows:
            if row:
                found.append(row)
            if len(found) > _ROWS_COMPARED:
                break
    except csv.Error:
        return []
    return found


def csv_rows(source: Source) -> Iterator[Frame]:
    """Yields the rows of a text table, whose first line is its header; a row of another length has a reason."""
    csv.field_size_limit(MAX_RECORD)
    head = b""
    source.keep()
    while len(head) < 1 << 16 and (chunk := source.read()):
        head += chunk
    source.rewind()
    reader = csv.reader(_text_lines(source), delimiter=delimiter_of(head) or ",")
    header: list[str] | None = None
    try:
        for row in reader:
            if not row:
                continue
            if header is None:
                header = [name.strip() for name in row]
                continue
            record = dict(zip(header, map(_cell, row), strict=False))
            raw = as_json(record).encode("utf-8", "surrogateescape")
            reason = None
            if len(row) != len(header):
                reason = f"the row has {len(row)} cells, the header {len(header)}"
                raw = as_json(row).encode("utf-8", "surrogateescape")
            yield Frame(reader.line_num, raw, record, reason)
    except csv.Error as error:
        yield Frame(reader.line_num, b"", None, f"the table cannot be read further: {error}")
    if source.error:
        yield Frame(reader.line_num + 1, b"", None, source.error)


def _text_lines(source: Source) -> Iterator[str]:
    rest = b""
    while chunk := source.read():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace") + "\n"
    if rest:
        yield rest.decode("utf-8", "replace")


def _cell(text: str) -> Any:
    return None if text == "" else decoded(text)


def parquet_rows(path: str) -> Iterator[Frame]:
    """Yields the rows of a Parquet file.

    Raises:
        FormatError: The library is not installed.
    """
    parquet = _parquet()
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield _row(number, row)
    except (OSError, ValueError) as error:  # the errors of Arrow are these
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
        with _connected(path) as database:
            names = [name for (name,) in database.execute(query)]
            return [name for name in names if _has_rows(database, name)]
    except sqlite3.Error as error:
        raise FormatError(
            f"The SQLite database {label} cannot be read: {error}.", "Check the file."
        ) from None


def _has_rows(database: sqlite3.Connection, table: str) -> bool:
    try:
        return database.execute(f"select 1 from {_name(table)} limit 1").fetchone() is not None
    except sqlite3.Error:  # a virtual table whose module is not there
        return False


def sqlite_rows(path: str, table: str) -> Iterator[Frame]:
    """Yields the rows of a table of an SQLite database."""
    number = 0
    try:
        with _connected(path) as database:
            rows = database.execute(f"select * from {_name(table)}")
            columns = [column[0] for column in rows.description]
            for row in rows:
                number += 1
                yield _row(number, dict(zip(columns, row, strict=True)))
    except sqlite3.Error as error:
        yield Frame(number + 1, b"", None, f"the database cannot be read further: {error}")


class _connected:
    """A connection to a database that is only read; closed at the end."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)

    def __enter__(self) -> sqlite3.Connection:
        return self._database

    def __exit__(self, *_: object) -> None:
        self._database.close()


def _name(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


def _row(number: int, row: dict[str, Any]) -> Frame:
    record = storable(_plain(row))
    return Frame(number, as_json(record).encode(), record)


def _plain(value: Any) -> Any:
    """A cell as JSON has it: times as ISO 8601, bytes in base64."""
    if isinstance(value, str):
        return decoded(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Iterable):
        return [_plain(entry) for entry in value]
    return str(value)
