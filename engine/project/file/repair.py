"""Saves what can still be read of a damaged project file in a new one, and says what is lost.

Every table is read row by row; where a page of it cannot be read, only the rows on that page are lost. Rows that refer
to lost ones are left out. The search indexes are made anew. The damaged file is only read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.base.errors import NotAProject, ProjectDamaged, ProjectError
from engine.base.files import atomic_replacement
from engine.project import cjk_index
from engine.project.schema import (
    APPLICATION_ID,
    FIRST,
    SCHEMA,
    SchemaObject,
    is_foreign,
    objects,
    objects_of,
)

MAIN_INDEX = "message_fts"
_LARGEST_ID = 1 << 62
_MOST_EXAMPLES = 20
_PAGE = 2_000

Row = tuple[Any, ...]


@dataclass(slots=True)
class Repair:
    """What was saved, and what was not.

    Attributes:
        rows: Number of rows saved by table, of tables that have any.
        unread: Tables of which some rows could not be read.
        orphans: Number of rows by table that were left out because they refer to lost ones.
        shortened: Number of conversations that lost messages.
        examples: Ids of some of these, as they were imported.
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
    """Saves what can be read of `damaged` in a new file `target`, of the same version, which `Project.open` upgrades.

    Raises:
        ProjectError: `target` is there, or `damaged` is no project or has lost its table of contents.
    """
    if os.path.exists(target):
        raise ProjectError(
            f"{target} is there already.", "Choose another name; nothing was written."
        )
    if not os.path.isfile(damaged):
        raise ProjectError(f"There is no file {damaged}.", "Check the path.")
    report = Repair()
    try:
        with (
            atomic_replacement(Path(target)) as part,
            closing(_opened(damaged)) as source,
            closing(sqlite3.connect(part)) as made,
        ):
            objects = _contents(source, damaged, report)
            _copy(source, made, objects, report)
    except (sqlite3.Error, OSError) as error:
        raise ProjectError(
            f"{damaged} cannot be saved in {target}: {error}.",
            "See `workbench restore FILE` for backups.",
        ) from error
    return report


def _opened(path: str) -> sqlite3.Connection:
    conn = sqlite3.connect(f"file:{path.replace('?', '%3f').replace('#', '%23')}?mode=ro", uri=True)
    conn.text_factory = lambda data: data.decode("utf-8", "replace")
    return conn


def _contents(source: sqlite3.Connection, path: str, report: Repair) -> list[SchemaObject]:
    """Everything that a file of this version has, but the inner tables of the search indexes. What somebody else put
    into this one (a trigger, a view, an index, a table that computes) is left out, and noted if it is a table.

    Raises:
        ProjectError: It is no project, or one of a newer version, or this cannot be read.
    """
    hint = "See `workbench restore FILE` for backups; the program makes one before each upgrade."
    try:
        (application,) = source.execute("PRAGMA application_id").fetchone()
        (schema,) = source.execute("PRAGMA user_version").fetchone()
        found = objects_of(source)
    except sqlite3.DatabaseError as error:
        raise ProjectDamaged(
            f"The table of contents of {path} cannot be read ({error}).", hint
        ) from error
    if application != APPLICATION_ID or not FIRST <= schema <= SCHEMA:
        raise NotAProject(
            f"{path} is not a project of this program, or of a version that this one does not know.",
            hint,
        )
    kept: list[SchemaObject] = []
    for one in found:
        if not is_foreign(one, schema):
            kept.append(one)
        elif one.kind == "table":
            _note_unread(report, one.name)
    there = {one.name for one in kept}
    for name, one in objects(schema).items():
        if name not in there:
            kept.append(one)
            if one.kind == "table":
                _note_unread(report, name)
    indexes = [one.name for one in kept if one.sql.upper().startswith("CREATE VIRTUAL")]
    return [
        one
        for one in kept
        if not any(one.name.startswith(f"{name}_") and one.name not in indexes for name in indexes)
    ]


def _copy(
    source: sqlite3.Connection,
    made: sqlite3.Connection,
    objects: list[SchemaObject],
    report: Repair,
) -> None:
    tables = [(name, sql) for kind, name, sql in objects if kind == "table"]
    for _, sql in tables:
        made.execute(sql)
    for name, sql in tables:
        if name in (MAIN_INDEX, cjk_index.INDEX) or name in report.unread:
            continue
        columns = [row[1] for row in made.execute(f'PRAGMA table_info("{name}")')]
        insert = f'INSERT OR IGNORE INTO "{name}" ({", ".join(columns)}) VALUES ({", ".join("?" * len(columns))})'
        by_id = "WITHOUT ROWID" not in sql.upper()
        count = 0
        for row in _rows(source, name, columns, by_id, report):
            try:
                count += made.execute(insert, row).rowcount
            except sqlite3.Error:  # a value that the schema does not allow
                _note_unread(report, name)
        if count:
            report.rows[name] = count
    _leave_orphans_out(made, report)
    for kind, _, sql in objects:
        if kind != "table":
            made.execute(sql)
    made.execute(f"INSERT INTO {MAIN_INDEX} ({MAIN_INDEX}) VALUES ('rebuild')")
    if any(name == cjk_index.INDEX for name, _ in tables):
        cjk_index.fill(made)
    _note_shortened(made, report)
    (schema,) = source.execute("PRAGMA user_version").fetchone()
    made.execute(f"PRAGMA user_version = {schema}")
    made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    made.commit()


def _rows(
    source: sqlite3.Connection, name: str, columns: list[str], by_id: bool, report: Repair
) -> Iterator[Row]:
    """The rows of a table that can be read."""
    chosen = ", ".join(f'"{column}"' for column in columns)
    if by_id:
        yield from _by_id(source, f'SELECT rowid, {chosen} FROM "{name}" NOT INDEXED', name, report)
        return
    # a table by its key: from both ends up to the damage
    keys = ", ".join(row[1] for row in source.execute(f'PRAGMA table_info("{name}")') if row[5])
    for order in ("", " DESC"):
        try:
            ordered = ", ".join(f"{key}{order}" for key in keys.split(", "))
            yield from source.execute(f'SELECT {chosen} FROM "{name}" ORDER BY {ordered}')
        except sqlite3.DatabaseError:
            _note_unread(report, name)
        else:
            return


def _by_id(source: sqlite3.Connection, select: str, name: str, report: Repair) -> Iterator[Row]:
    """The rows by their ids, without those on pages that cannot be read."""

    def read(first: int, count: int) -> list[Row] | None:
        """The first rows from an id on; None where they cannot be read."""
        try:
            return source.execute(
                f"{select} WHERE rowid >= ? ORDER BY rowid LIMIT ?", (first, count)
            ).fetchall()
        except sqlite3.DatabaseError:
            return None

    first, count = 0, _PAGE
    while True:
        rows = read(first, count)
        if rows is None:
            _note_unread(report, name)
            if count > 1:
                count //= 2
                continue
            after = _readable_from(first, lambda key: read(key, 1) is not None)
            if after is None:
                return
            first, count = after, _PAGE
            continue
        if not rows:
            return
        yield from (row[1:] for row in rows)
        first = rows[-1][0] + 1


def _readable_from(first: int, is_readable: Callable[[int], bool]) -> int | None:
    """The least id after `first` from which on rows can be read again; None if there is none.

    What a lost page held is one range of ids, so that steps that double and then halve find its end.
    """
    step = 1
    while not is_readable(first + step):
        step *= 2
        if step > _LARGEST_ID:
            return None
    low, high = first + step // 2, first + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_readable(middle) else (middle, high)
    return high


def _note_unread(report: Repair, name: str) -> None:
    if name not in report.unread:
        report.unread.append(name)


def _leave_orphans_out(made: sqlite3.Connection, report: Repair) -> None:
    """Deletes rows that refer to others that are lost, until every reference is met."""
    while found := {(row[0], row[3]) for row in made.execute("PRAGMA foreign_key_check")}:
        for table, number in found:
            columns = [
                (row[2], row[3], row[4])
                for row in made.execute(f'PRAGMA foreign_key_list("{table}")')
                if row[0] == number
            ]
            given = " AND ".join(f'"{table}"."{mine}" IS NOT NULL' for _, mine, _ in columns)
            met = " AND ".join(f'p."{theirs}" = "{table}"."{mine}"' for _, mine, theirs in columns)
            deleted = made.execute(
                f'DELETE FROM "{table}" WHERE {given}'
                f' AND NOT EXISTS (SELECT 1 FROM "{columns[0][0]}" AS p WHERE {met})'
            ).rowcount
            if not deleted:
                raise sqlite3.DatabaseError(f"what the table {table} refers to is lost")
            report.orphans[table] = report.orphans.get(table, 0) + deleted


def _note_shortened(made: sqlite3.Connection, report: Repair) -> None:
    """Counts conversations that have fewer messages than they had."""
    short = made.execute(
        "SELECT c.external_id FROM conversation AS c WHERE c.messages <>"
        " (SELECT count(*) FROM message AS m WHERE m.conversation_id = c.id) ORDER BY c.id"
    ).fetchall()
    report.shortened = len(short)
    report.examples = [name for (name,) in short[:_MOST_EXAMPLES]]
