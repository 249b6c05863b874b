"""A project file from a stranger cannot make the program do what its schema says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import ProjectError
from engine.store.file.repair import repair
from engine.store.merging import merge
from engine.store.project import Project
from tests.engine.store.support import fill, talk


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
    """A file with a trigger is neither opened nor merged; repair saves what it holds without the trigger."""
    change(
        path,
        "CREATE TRIGGER t AFTER INSERT ON verdict BEGIN DELETE FROM conversation; END",
    )
    for read_only in (False, True):
        with pytest.raises(ProjectError, match="triggers"):
            Project.open(path, read_only=read_only)
    with pytest.raises(ProjectError, match="triggers"):
        merge([str(path), str(path)], str(tmp_path / "m.wb"))
    assert repair(str(path), str(tmp_path / "new.wb")).rows["conversation"] == 1
    Project.open(tmp_path / "new.wb").close()


@pytest.mark.parametrize(
    "call", ["load_extension('x')", "fts3_tokenizer('simple', x'00')", "writefile('x', 'y')"]
)
def test_views_call_no_function_with_an_effect(path: Path, call: str) -> None:
    """A view of the file that loads code, sets a pointer or writes a file gives an error when it is read."""
    change(path, "DROP VIEW goal_label")
    change(path, f"CREATE VIEW goal_label AS SELECT {call} AS label")
    with Project.open(path) as project, pytest.raises(sqlite3.OperationalError):
        project.reader().execute("SELECT label FROM goal_label").fetchall()


def test_no_native_code_is_loaded(path: Path) -> None:
    """SQLite cannot load an extension on a connection of a project."""
    with Project.open(path) as project, pytest.raises(sqlite3.OperationalError):
        project.reader().execute("SELECT load_extension('x')")
