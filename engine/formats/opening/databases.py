"""Rows of the tables and views of an SQLite database.

Views, and columns that are computed, are programs of whoever made the file. They run read-only, in bounds of memory and
of processor time, and stop when a person wants it.

Not covered: what SQLite keeps in temporary files while it sorts.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from engine.base.errors import FormatError, TooMuch
from engine.formats.opening.bounds import (
    IN_ALL,
    LEAST_OF_RECORD,
    RAISED,
    Bounds,
    Expansion,
    Reading,
)
from engine.formats.opening.framing import MAX_RECORD, Frame, too_large
from engine.formats.opening.tables import column_names, row_frame

_DAMAGES = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database raises; the text of an error may be damaged too."""

_STEPS = 1_000
"""Instructions of SQLite between two looks at the clock; one can take tenths of a second."""

_ROW_MEMORY = 4 * MAX_RECORD
"""Number of bytes that all values of a row may have together while SQLite computes them."""


class DatabaseDamaged(Exception):
    """A database cannot be read further."""


class ValueTooLarge(Exception):
    """A value is larger than the limit of the connection."""


class Database:
    """A database that is only read, in bounds; closed at the end.

    Nothing is written beside the database either, unless there is a log of writes that are not in it yet.

    Attributes:
        has_lost_row: Whether the last query had another row before its error: Python looks for the next row before it
            gives one, and loses it then.
    """

    def __init__(self, path: str, expansion: Expansion) -> None:
        """
        Raises:
            DatabaseDamaged: It cannot be opened.
        """
        log = f"{path}-wal"
        unwritten = os.path.exists(log) and os.path.getsize(log) > 0
        mode = "mode=ro" if unwritten else "mode=ro&immutable=1"
        self._expansion = expansion
        self._seconds_to_a_row = expansion.bounds.seconds(os.path.getsize(path))
        self._computes_since = time.thread_time()
        self._exceeded: str | None = None  # the bound, in words
        self.has_lost_row = False
        try:
            self._connection = sqlite3.connect(f"file:{quote(path)}?{mode}", uri=True)
            self._connection.execute("pragma trusted_schema = off")
        except _DAMAGES as error:
            raise DatabaseDamaged(f"the database cannot be read further: {error}") from None
        self._connection.text_factory = lambda data: data.decode("utf-8", "replace")
        self._connection.set_progress_handler(self._must_stop, _STEPS)
        self.limit_values(MAX_RECORD)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def limit_values(self, size: int) -> None:
        """Limits the number of bytes of a value."""
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size)

    def columns(self, query: str) -> list[str]:
        """Returns the names of the columns of a query, as they are.

        Raises:
            DatabaseDamaged: The query cannot be run.
        """
        self._computes_since = time.thread_time()
        try:
            return [name for name, *_ in self._connection.execute(query).description]
        except _DAMAGES as error:
            raise self._ended(error) from None

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query.

        Raises:
            DatabaseDamaged: They cannot be read further.
            ValueTooLarge: The next one has a value that is larger than the limit.
            KeyboardInterrupt: It was pressed while SQLite computed.
            TooMuch: SQLite computes too long to the next one, or for the file in all.
            Cancelled: A person wants to stop.
        """
        try:
            self._computes_since = time.thread_time()
            self.has_lost_row = False
            rows = self._connection.execute(query, values)
            self.has_lost_row = True
            for row in rows:
                self._expansion.computed += time.thread_time() - self._computes_since
                yield row
                self._computes_since = time.thread_time()
            self._expansion.computed += time.thread_time() - self._computes_since
        except _DAMAGES as error:
            self._expansion.computed += time.thread_time() - self._computes_since
            raise self._ended(error) from None

    def _must_stop(self) -> bool:
        """Returns whether SQLite is to stop, because a bound of time is exceeded or a person wants it; SQLite asks."""
        seconds = time.thread_time() - self._computes_since
        in_all = IN_ALL * self._seconds_to_a_row
        if seconds > self._seconds_to_a_row:
            self._exceeded = f"{self._seconds_to_a_row:.0f} s without another row"
        elif self._expansion.computed + seconds > in_all:
            self._exceeded = f"{in_all:.0f} s in all"
        return self._exceeded is not None or self._expansion.bounds.is_cancelled()

    def _ended(self, error: Exception) -> BaseException:
        """Returns what to raise for an error of SQLite."""
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_TOOBIG:
            return ValueTooLarge()
        if code == sqlite3.SQLITE_INTERRUPT:
            self._expansion.bounds.stop_if_cancelled()
            if self._exceeded is not None:
                exceeded, self._exceeded = self._exceeded, None
                return TooMuch(f"it computes for more than {exceeded} {RAISED}")
            return KeyboardInterrupt()  # ctrl+c, which SQLite swallows where it calls Python
        return DatabaseDamaged(f"the database cannot be read further: {error}")


def sqlite_tables(path: str, label: str, bounds: Bounds) -> list[str]:
    """Returns the names of the tables of an SQLite database that have rows, and of its views.

    Raises:
        FormatError: The database cannot be read.
    """
    query = (
        "select name, type from sqlite_master where type in ('table', 'view')"
        " and name not like 'sqlite\\_%' escape '\\' order by name"
    )
    try:
        with Database(path, Expansion(None, bounds)) as database:
            listed = list(database.rows(query))
            return [name for name, kind in listed if kind == "view" or _has_rows(database, name)]
    except (DatabaseDamaged, ValueTooLarge, TooMuch) as error:
        raise FormatError(
            f"The SQLite database {label} cannot be read: {error}.", "Check the file."
        ) from None


def _has_rows(database: Database, table: str) -> bool:
    """Returns whether a table has a row."""
    try:
        return any(database.rows(f"select 1 from {quote_name(table)} limit 1"))
    except (DatabaseDamaged, ValueTooLarge):  # a virtual table whose module is not there
        return False


def sqlite_rows(path: str, table: str, count: Reading) -> Iterator[Frame]:
    """Yields the rows of a table or view of an SQLite database."""
    number = 0
    columns: list[str] = []
    try:
        with Database(path, count.expansion) as database:
            columns = column_names(database.columns(f"select * from {quote_name(table)} limit 0"))
            for row in _read_rows(database, table, len(columns)):
                number += 1
                yield _frame_of_row(number, columns, row)
                size = sum(len(cell) for cell in row or () if isinstance(cell, str | bytes))
                if not count.add(max(size, LEAST_OF_RECORD)):
                    yield Frame(None, b"", None, count.bounds.too_much)
                    return
    except (DatabaseDamaged, TooMuch) as error:
        yield Frame(number + 1, b"", None, str(error))
    except ValueTooLarge:
        yield Frame(
            number + 1, b"", None, f"{row_too_large(len(columns))}; what follows is not read"
        )


def row_too_large(columns: int) -> str:
    """Returns why a row of so many columns is not read."""
    most = most_of_value(columns)
    value = f", or has a value of more than {most >> 20} MiB" if most < MAX_RECORD else ""
    return f"{too_large()}{value}"


def most_of_value(columns: int) -> int:
    """Returns the number of bytes that a value may have while SQLite computes so many of them together."""
    return min(MAX_RECORD, _ROW_MEMORY // max(1, columns))


def _frame_of_row(number: int, columns: list[str], row: tuple[Any, ...] | None) -> Frame:
    """Returns the frame of a row; with a reason if it is too large, and None stands for one that was not read."""
    if row is None or sum(len(cell) for cell in row if isinstance(cell, str | bytes)) > MAX_RECORD:
        return Frame(number, b"", None, too_large())
    return row_frame(number, dict(zip(columns, row, strict=True)))


def _read_rows(database: Database, table: str, columns: int) -> Iterator[tuple[Any, ...] | None]:
    """Yields the rows of a table; None for one that is larger than a record may be.

    A row with a large value is read value by value, so that only they are in memory together that are allowed. That
    needs the key of the row; of what has none, such as a view, nothing is read after such a row.

    Raises:
        ValueTooLarge: There is such a row.
    """
    name = quote_name(table)
    database.limit_values(most_of_value(columns))
    key = key_of(database, table)
    if key is None:
        number = 0
        try:
            for row in database.rows(f"select * from {name}"):
                number += 1
                yield row
        except (ValueTooLarge, TooMuch):
            if database.has_lost_row:
                yield from database.rows(f"select * from {name} limit 1 offset {number}")
            raise
        return
    after = ""
    while True:
        try:
            for row_key, *values in database.rows(
                f"select {key}, * from {name}{after} order by {key}"
            ):
                after = f" where {key} > {row_key}"
                yield tuple(values)
            return
        except ValueTooLarge:
            ((row_key,),) = database.rows(f"select {key} from {name}{after} order by {key} limit 1")
            yield _value_by_value(database, name, f"{key} = {row_key}")
            after = f" where {key} > {row_key}"


def key_of(database: Database, table: str) -> str | None:
    """Returns the name of the number that SQLite gives each row of a table; None if it gives none, or columns hide
    it."""
    query = "select sql from sqlite_master where type = 'table' and name = ?"
    text = next((sql for (sql,) in database.rows(query, (table,))), "")
    if not text or text.split(None, 2)[1].upper() == "VIRTUAL":
        return None
    hidden = {
        name for (name,) in database.rows("select lower(name) from pragma_table_xinfo(?)", (table,))
    }
    for key in ("rowid", "_rowid_", "oid"):
        if key not in hidden:
            try:
                database.columns(f"select {key} from {quote_name(table)} limit 0")
            except DatabaseDamaged:  # without rowid
                return None
            return key
    return None


def _value_by_value(database: Database, name: str, where: str) -> tuple[Any, ...] | None:
    """Returns a row that was read one value at a time; None if it is larger than a record may be."""
    database.limit_values(MAX_RECORD)
    columns = database.columns(f"select * from {name} limit 0")
    row: list[Any] = []
    size = 0
    try:
        for column in columns:
            ((value,),) = database.rows(f"select {quote_name(column)} from {name} where {where}")
            size += len(value) if isinstance(value, str | bytes) else 0
            if size > MAX_RECORD:
                return None
            row.append(value)
    except ValueTooLarge:
        return None
    finally:
        database.limit_values(most_of_value(len(columns)))
    return tuple(row)


def quote_name(name: str) -> str:
    """Returns the name of a table or column in a query."""
    return '"' + name.replace('"', '""') + '"'
