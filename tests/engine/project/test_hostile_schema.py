"""A project file from a stranger cannot make the program do what its schema says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import ProjectError
from engine.project.project import Project
from engine.project.repair import repair
from tests.engine.project.support import fill, talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project with one conversation."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("1", "hello", "good day")])
    return tmp_path / "p.wb"


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as conn:
        conn.execute(statement)
        conn.commit()


def test_triggers_are_refused(path: Path, tmp_path: Path) -> None:
    """A file with a trigger is not opened; repair saves what it holds without the trigger."""
    change(
        path,
        "CREATE TRIGGER t AFTER INSERT ON answer BEGIN DELETE FROM conversation; END",
    )
    for read_only in (False, True):
        with pytest.raises(ProjectError, match="triggers"):
            Project.open(path, read_only=read_only)
    assert repair(str(path), str(tmp_path / "new.wb")).rows["conversation"] == 1
    Project.open(tmp_path / "new.wb").close()


ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP VIEW conversation_table", f"CREATE VIEW conversation_table AS {ENDLESS}"),
        ("DROP VIEW goal_label", "CREATE VIEW goal_label AS SELECT load_extension('x') AS label"),
        ("DROP TABLE message", f"CREATE VIEW message AS {ENDLESS}"),
        (
            "DROP TABLE truth",
            "CREATE TABLE truth (a, b AS (hex(zeroblob(450000000))))",
        ),
        ("CREATE INDEX slow ON answer (hex(zeroblob(450000000)))",),
        (f"CREATE VIEW more AS {ENDLESS}",),
        ("DROP TABLE _sqlite_migrations", f"CREATE VIEW _sqlite_migrations AS {ENDLESS}"),
    ],
    ids=["view", "native code", "table", "column", "index", "further view", "migrations"],
)
def test_sql_of_strangers_is_refused(
    path: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """A file with a view, a computed column or an index that is not the program's is not opened,
    and repair saves the rest without it."""
    for statement in statements:
        change(path, statement)
    for read_only in (False, True):
        with pytest.raises(ProjectError, match="that this version does not make"):
            Project.open(path, read_only=read_only)
    assert repair(str(path), str(tmp_path / "new.wb")).rows["conversation"] == 1
    Project.open(tmp_path / "new.wb").close()


def test_no_native_code_is_loaded(path: Path) -> None:
    """SQLite cannot load an extension on a connection of a project."""
    with (
        Project.open(path) as project,
        project.reading() as conn,
        pytest.raises(sqlite3.OperationalError),
    ):
        conn.execute("SELECT load_extension('x')")
