"""Saves what can still be read of a damaged project file in a new file, and says what is lost.

Every table is read row by row; where a page of it cannot be read, only the rows on that page are lost. Rows that refer
to lost ones (*orphans*) are left out. The search indexes are made anew. The damaged file is only read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlite_utils import Database
from sqlite_utils.db import ForeignKey

from engine.base.errors import NotAProject, ProjectDamaged, ProjectError
from engine.base.files import APPLICATION_ID, atomic_replacement, disk_full_error, is_disk_full
from engine.base.line_files import new_file
from engine.project import cjk_index
from engine.project.connections import file_uri, lacks_space
from engine.project.schema import (
    FIRST_SCHEMA,
    SCHEMA,
    SchemaObject,
    is_foreign,
    objects,
    objects_of,
)
from engine.project.sql import placeholders

MAIN_INDEX = "message_fts"
"""Name of the full-text index over the words of all messages."""

_MAX_STEP = 1 << 62
"""Longest step over ids that cannot be read; no file has larger ids."""

_MAX_EXAMPLES = 20
"""Most conversations that lost messages that a repair names."""

_ROWS_AT_A_TIME = 2_000
"""Rows that are read at a time where nothing is damaged."""

Row = tuple[Any, ...]
"""The values of a row, in the order of the columns."""


@dataclass(slots=True)
class Repair:
    """The result of a repair: what was saved, and what was not.

    Attributes:
        rows: Number of saved rows by table, for tables that have any.
        unread: Tables of which some rows could not be read.
        orphans: Number of rows by table that were left out because they refer to lost ones.
        shortened: Number of conversations that lost messages.
        examples: Ids, as they were imported, of some of these conversations.
    """

    rows: dict[str, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    orphans: dict[str, int] = field(default_factory=dict)
    shortened: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether everything was saved."""
        return not (self.unread or self.orphans or self.shortened)


def repair(damaged: str, target: str) -> Repair:
    """Saves what can be read of the file `damaged` in the new file `target`, and returns what was saved.

    The new file has the schema of the damaged one; `Project.open` migrates it.

    Raises:
        ProjectError: There is a file at `target`, or it is kept for a file beside a project; or `damaged` is no
            project or has lost its table of contents.
    """
    new_file(target)
    if not os.path.isfile(damaged):
        raise ProjectError(f"There is no file {damaged}.", "Check the path.")
    report = Repair()
    try:
        with (
            atomic_replacement(Path(target)) as part,
            closing(_open_damaged(damaged)) as source,
            closing(sqlite3.connect(part)) as target_conn,
        ):
            _copy(source, target_conn, _contents(source, damaged, report), report)
    except (sqlite3.Error, OSError) as error:
        if is_disk_full(error) or (
            isinstance(error, sqlite3.Error) and lacks_space(error, Path(target).parent)
        ):
            raise disk_full_error(target) from error
        raise ProjectError(
            f"{damaged} cannot be saved in {target}: {error}.",
            "See `workbench restore FILE` for backups.",
        ) from error
    return report


def _open_damaged(path: str) -> sqlite3.Connection:
    """Opens a file for reading; bytes that are no text are read as replacement characters."""
    conn = sqlite3.connect(file_uri(path), uri=True)
    conn.text_factory = lambda data: data.decode("utf-8", "replace")
    return conn


def _contents(source: sqlite3.Connection, path: str, report: Repair) -> list[SchemaObject]:
    """Returns the objects of the schema to make in the new file, without the inner tables of the search indexes.

    These are all objects that a file of this schema has, whether the damaged file still has them or not. Foreign
    objects (see `engine.project.schema`) are left out, and noted if they are tables.

    Raises:
        ProjectError: The file is no project, or one of a newer version, or its table of contents cannot be read.
    """
    hint = "See `workbench restore FILE` for backups; the program makes one before each upgrade."
    try:
        (application,) = source.execute("PRAGMA application_id").fetchone()
        (schema,) = source.execute("PRAGMA user_version").fetchone()
        stored = objects_of(source)
    except sqlite3.DatabaseError as error:
        if lacks_space(error, Path(path).parent):
            raise disk_full_error(f"the index beside {path}") from error
        raise ProjectDamaged(
            f"The table of contents of {path} cannot be read ({error}).", hint
        ) from error
    if application != APPLICATION_ID or not FIRST_SCHEMA <= schema <= SCHEMA:
        raise NotAProject(
            f"{path} is not a project of this program, or of a version that this one does not know.",
            hint,
        )
    contents: list[SchemaObject] = []
    for item in stored:
        if not is_foreign(item, schema):
            contents.append(item)
        elif item.kind == "table":
            _note_unread(report, item.name)
    names = {item.name for item in contents}
    for name, item in objects(schema).items():
        if name not in names:
            contents.append(item)
            if item.kind == "table":
                _note_unread(report, name)
    indexes = [item.name for item in contents if item.sql.upper().startswith("CREATE VIRTUAL")]
    return [
        item
        for item in contents
        if item.name in indexes or not item.name.startswith(tuple(f"{name}_" for name in indexes))
    ]


def _copy(
    source: sqlite3.Connection,
    target_conn: sqlite3.Connection,
    contents: list[SchemaObject],
    report: Repair,
) -> None:
    """Makes the objects of the schema in an empty database, and copies the rows that can be read into it."""
    saved = Database(target_conn, recursive_triggers=False, execute_plugins=False)
    tables = [item for item in contents if item.kind == "table"]
    for table in tables:
        target_conn.execute(table.sql)
    for table in tables:
        is_search_index = table.name in (MAIN_INDEX, cjk_index.INDEX)
        if not is_search_index and table.name not in report.unread:
            _copy_rows(source, saved, table, report)
    _delete_orphans(saved, report)
    # views, indexes and triggers come after the rows, of which they would only slow the writing
    for item in contents:
        if item.kind != "table":
            target_conn.execute(item.sql)
    target_conn.execute(f"INSERT INTO {MAIN_INDEX} ({MAIN_INDEX}) VALUES ('rebuild')")
    if any(table.name == cjk_index.INDEX for table in tables):
        cjk_index.fill(target_conn)
    _note_shortened(target_conn, report)
    (schema,) = source.execute("PRAGMA user_version").fetchone()
    target_conn.execute(f"PRAGMA user_version = {schema}")
    target_conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    target_conn.commit()


def _copy_rows(
    source: sqlite3.Connection, saved: Database, table: SchemaObject, report: Repair
) -> None:
    """Copies those rows of a table that can be read and that the schema allows."""
    columns = [f'"{column.name}"' for column in saved.table(table.name).columns]
    insert = f'INSERT OR IGNORE INTO "{table.name}" ({", ".join(columns)}) VALUES ({placeholders(columns)})'
    key = saved.table(table.name).pks if "WITHOUT ROWID" in table.sql.upper() else None
    count = 0
    for row in _readable_rows(source, table.name, columns, key, report):
        try:
            count += saved.conn.execute(insert, row).rowcount
        except sqlite3.Error:  # a value that the schema does not allow
            _note_unread(report, table.name)
    if count:
        report.rows[table.name] = count


def _readable_rows(
    source: sqlite3.Connection,
    name: str,
    columns: list[str],
    key: list[str] | None,
    report: Repair,
) -> Iterator[Row]:
    """Yields the rows of a table that can be read.

    Args:
        columns: Quoted names of its columns.
        key: Names of its key columns where it has no row ids; None where it has.
    """
    select = f'{", ".join(columns)} FROM "{name}"'
    if key is None:
        yield from _rows_by_id(source, f"SELECT rowid, {select} NOT INDEXED", name, report)
        return
    # a table without row ids is stored by its key: it is read from both ends up to the damage
    for order in ("ASC", "DESC"):
        try:
            ordered = ", ".join(f'"{column}" {order}' for column in key)
            yield from source.execute(f"SELECT {select} ORDER BY {ordered}")
        except sqlite3.DatabaseError:
            _note_unread(report, name)
        else:
            return


def _rows_by_id(
    source: sqlite3.Connection, select: str, name: str, report: Repair
) -> Iterator[Row]:
    """Yields the rows in the order of their ids, without those on pages that cannot be read.

    Where a page of rows cannot be read, half as many are read, down to a single row; where that one cannot be read
    either, reading goes on behind the damage.

    Args:
        select: A query whose first column is the row id, which is not yielded.
        name: Name of the table.
    """

    def read(first: int, count: int) -> list[Row] | None:
        """Returns the first rows from an id on; None where they cannot be read."""
        try:
            return source.execute(
                f"{select} WHERE rowid >= ? ORDER BY rowid LIMIT ?", (first, count)
            ).fetchall()
        except sqlite3.DatabaseError:
            return None

    first: int | None = 0
    count = _ROWS_AT_A_TIME
    while first is not None:
        rows = read(first, count)
        if rows:
            for row_id, *values in rows:
                yield tuple(values)
                first = row_id + 1
        elif rows is not None:
            return
        else:
            _note_unread(report, name)
            if count > 1:
                count //= 2
            else:
                first = _first_readable(first, lambda key: read(key, 1) is not None)
                count = _ROWS_AT_A_TIME


def _first_readable(first: int, is_readable: Callable[[int], bool]) -> int | None:
    """Returns the least id after `first` from which on rows can be read again; None if there is none.

    A lost page held one range of ids. Its end is found by steps that double until a row can be read, and then by
    halving the last step.
    """
    step = 1
    while not is_readable(first + step):
        step *= 2
        if step > _MAX_STEP:
            return None
    low, high = first + step // 2, first + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_readable(middle) else (middle, high)
    return high


def _note_unread(report: Repair, name: str) -> None:
    """Notes that some rows of a table could not be read."""
    if name not in report.unread:
        report.unread.append(name)


def _delete_orphans(saved: Database, report: Repair) -> None:
    """Deletes rows that refer to lost ones, until every reference is met.

    Raises:
        sqlite3.DatabaseError: A reference cannot be met by deleting rows.
    """
    while violating := {table for table, *_ in saved.execute("PRAGMA foreign_key_check")}:
        for name in sorted(violating):
            references = saved.table(name).foreign_keys
            deleted = sum(_delete_orphans_of(saved, reference) for reference in references)
            if not deleted:
                raise sqlite3.DatabaseError(f"what the table {name} refers to is lost")
            report.orphans[name] = report.orphans.get(name, 0) + deleted


def _delete_orphans_of(saved: Database, reference: ForeignKey) -> int:
    """Deletes the rows whose values of one foreign key are in no row of the other table; returns how many."""
    table, other_table = reference.table, reference.other_table
    columns = list(zip(reference.columns, reference.other_columns, strict=True))
    has_values = " AND ".join(f'"{table}"."{column}" IS NOT NULL' for column, _ in columns)
    is_met = " AND ".join(f'o."{other}" = "{table}"."{column}"' for column, other in columns)
    return saved.execute(
        f'DELETE FROM "{table}" WHERE {has_values}'
        f' AND NOT EXISTS (SELECT 1 FROM "{other_table}" AS o WHERE {is_met})'
    ).rowcount


def _note_shortened(target_conn: sqlite3.Connection, report: Repair) -> None:
    """Counts the conversations that have fewer messages than their row says."""
    short = target_conn.execute(
        "SELECT c.external_id FROM conversation AS c WHERE c.messages <>"
        " (SELECT count(*) FROM message AS m WHERE m.conversation_id = c.id) ORDER BY c.id"
    ).fetchall()
    report.shortened = len(short)
    report.examples = [name for (name,) in short[:_MAX_EXAMPLES]]
