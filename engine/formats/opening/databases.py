"""Rows of the tables of an SQLite database, which is only read. Views are not: what they show is in the tables.

A value is at most as large as a record may be, and a person can stop a query (`Bounds.is_cancelled`).

Not covered: what SQLite keeps in temporary files while it sorts, and how long a computed column computes.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from engine.base.errors import FormatError
from engine.formats.opening.framing import MAX_RECORD, Frame, too_large
from engine.formats.opening.source import LEAST_OF_RECORD, Bounds, Reading
from engine.formats.opening.tables import column_names, row_frame

_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises; the text of an error may be damaged too."""

_INSTRUCTIONS_BETWEEN_LOOKS = 1_000
"""Instructions of SQLite between two looks at whether a person wants to stop."""


class DatabaseDamaged(Exception):
    """A database cannot be read further."""


class QueryRefused(DatabaseDamaged):
    """SQLite cannot run a query, as on a virtual table whose module is not there; the rest can be read."""


class ValueTooLarge(Exception):
    """A value is larger than a record may be."""


class Database:
    """A database that is only read; closed at the end.

    Nothing is written beside the database either, unless there is a log of writes that are not in it yet.
    """

    def __init__(self, path: str, bounds: Bounds) -> None:
        """Opens the database.

        Raises:
            DatabaseDamaged: It cannot be opened.
        """
        log = f"{path}-wal"
        has_unwritten = os.path.exists(log) and os.path.getsize(log) > 0
        mode = "mode=ro" if has_unwritten else "mode=ro&immutable=1"
        self._bounds = bounds
        try:
            self._connection = sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True)
            self._connection.execute("pragma trusted_schema = off")
        except _SQLITE_ERRORS as error:
            raise self._translated(error) from None
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._connection.set_progress_handler(bounds.is_cancelled, _INSTRUCTIONS_BETWEEN_LOOKS)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RECORD)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def columns(self, query: str) -> list[str]:
        """Returns the names of the columns of a query, as they are.

        Raises:
            DatabaseDamaged, ValueTooLarge, KeyboardInterrupt, Cancelled: As `rows` does.
        """
        try:
            return [name for name, *_ in self._connection.execute(query).description]
        except _SQLITE_ERRORS as error:
            raise self._translated(error) from None

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query.

        Raises:
            DatabaseDamaged: They cannot be read further.
            ValueTooLarge: The next one has a value that is larger than a record may be.
            KeyboardInterrupt: It was pressed while SQLite computed.
            Cancelled: A person wants to stop.
        """
        try:
            yield from self._connection.execute(query, values)
        except _SQLITE_ERRORS as error:
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> BaseException:
        """Returns what to raise in place of an error of SQLite."""
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_TOOBIG:
            return ValueTooLarge()
        if code == sqlite3.SQLITE_INTERRUPT:
            self._bounds.stop_if_cancelled()
            return KeyboardInterrupt()  # ctrl+c, which SQLite swallows where it calls Python
        kind = QueryRefused if code == sqlite3.SQLITE_ERROR else DatabaseDamaged
        return kind(f"the database cannot be read further: {error}")


def sqlite_tables(path: str, label: str, bounds: Bounds) -> list[str]:
    """Returns the names of the tables of an SQLite database that have rows, or are damaged.

    Raises:
        FormatError: The database cannot be read.
    """
    query = (
        "select name from sqlite_master where type = 'table'"
        " and name not like 'sqlite\\_%' escape '\\' order by name"
    )
    try:
        with Database(path, bounds) as database:
            return [name for (name,) in list(database.rows(query)) if _has_rows(database, name)]
    except (DatabaseDamaged, ValueTooLarge) as error:
        raise FormatError(
            f"The SQLite database {label} cannot be read: {error}.", "Check the file."
        ) from None


def _has_rows(database: Database, table: str) -> bool:
    """Returns whether a table has a row. One that cannot be queried has none; a damaged one counts as if it had, so
    that who reads its rows is told."""
    try:
        return any(database.rows(f"select 1 from {_quote_name(table)} limit 1"))
    except (DatabaseDamaged, ValueTooLarge) as error:
        return not isinstance(error, QueryRefused)


def sqlite_rows(path: str, table: str, reading: Reading) -> Iterator[Frame]:
    """Yields the rows of a table of an SQLite database; a row that is too large is a frame without content, with the
    reason.

    Args:
        reading: Counts what was read, and bounds it.
    """
    number = 0
    try:
        with Database(path, reading.bounds) as database:
            columns = column_names(database.columns(f"select * from {_quote_name(table)} limit 0"))
            for number, row in enumerate(_read_rows(database, table), 1):
                sizes = [len(cell) for cell in row or () if isinstance(cell, str | bytes)]
                # a row that could not be fetched counts as the largest record
                size = MAX_RECORD if row is None else max(sum(sizes), LEAST_OF_RECORD)
                if row is None or size > MAX_RECORD:
                    yield Frame(number, b"", None, too_large())
                else:
                    yield row_frame(number, dict(zip(columns, row, strict=True)))
                if not reading.add(size):
                    yield Frame(None, b"", None, reading.bounds.too_much)
                    return
    except DatabaseDamaged as error:
        yield Frame(number + 1, b"", None, str(error))


def _read_rows(database: Database, table: str) -> Iterator[tuple[Any, ...] | None]:
    """Yields the rows of a table; None for one with a value that is too large."""
    query = f"select * from {_quote_name(table)}"
    position = 0
    while True:
        try:
            for row in database.rows(f"{query} limit -1 offset ?", (position,)):
                position += 1
                yield row
            return
        except ValueTooLarge:
            try:  # the row before the error: Python fetches the next one before it gives it
                yield next(database.rows(f"{query} limit 1 offset ?", (position,)), None)
            except ValueTooLarge:
                yield None
            position += 1


def _quote_name(name: str) -> str:
    """Returns the name of a table or column in a query."""
    return '"' + name.replace('"', '""') + '"'
