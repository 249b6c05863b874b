"""A file whose pages are sound and whose values are not is called damaged, and not a fault of the program."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from engine.base.errors import ProjectError
from engine.conversations.tables.conversations import messages_of
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.project.sql import id_pages
from tests.engine.project.support import fill, talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project with one conversation."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("a", "hello", "there")])
    return tmp_path / "p.wb"


def change(path: Path, *statements: str) -> None:
    """Changes the file as no version of the program does."""
    with closing(sqlite3.connect(path)) as conn, conn:
        for statement in statements:
            conn.execute(statement)


def test_a_text_that_is_none(path: Path) -> None:
    """Bytes that are not UTF-8 where text must be are called damage of the file."""
    change(path, "UPDATE conversation SET opening = CAST(x'ff68' AS TEXT)")
    with Project.open(path) as project, pytest.raises(ProjectError, match=r"p\.wb is damaged"):
        ConversationService(project).rows([1])


@pytest.mark.parametrize("calls", ["7", "[7]", '[{"a": 1}]', "[" * 100_000, "[" + "9" * 5_000])
def test_calls_that_are_none(path: Path, calls: str) -> None:
    """So is JSON of another form than the calls of a message have, or nested without end, or an endless number."""
    change(path, f"UPDATE message SET tool_calls = '{calls}'")
    with (
        Project.open(path) as project,
        pytest.raises(ProjectError, match=r"p\.wb is damaged"),
        project.reading() as conn,
    ):
        messages_of(conn, 1)


def test_ids_that_are_out_of_order(path: Path) -> None:
    """A table whose last id is below the one before is damaged, and not read for ever."""
    with Project.open(path) as project:
        fill(project, [talk("b", "and then", "this")], "more.jsonl")
    with closing(sqlite3.connect(path)) as conn:
        (root,) = conn.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'conversation'"
        ).fetchone()
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    page = memoryview(data)[(root - 1) * size : root * size]
    assert page[0] == 0x0D  # the one page of the table
    cell = int.from_bytes(page[10:12])  # the second one: a cell is its length, the id, the values
    at = cell + (1 if page[cell] < 0x80 else 2)
    assert page[at] == 2
    page[at] = 0
    path.write_bytes(data)
    with (
        Project.open(path) as project,
        pytest.raises(ProjectError, match="damaged"),
        project.reading() as conn,
    ):
        assert len(list(islice(id_pages(conn), 9))) < 9


def test_a_value_that_is_missing(path: Path) -> None:
    """So is a value that the schema requires and the file has not, whatever error it leads to."""
    change(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'external_id TEXT NOT NULL', 'external_id TEXT')",
    )
    change(path, "UPDATE conversation SET external_id = NULL")
    change(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(sql, 'external_id TEXT', 'external_id TEXT NOT NULL')",
    )
    with Project.open(path) as project, pytest.raises(ProjectError, match=r"damaged .*NULL value"):
        upper_name(project)


def upper_name(project: Project) -> str:
    """Does with a value what code does that knows that it is there."""
    with project.reading() as conn:
        (name,) = conn.execute("SELECT external_id FROM conversation").fetchone()
        return str(name.upper())
