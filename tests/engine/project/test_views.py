"""The views that other programs read, as the reference describes them."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from engine.project.project import Project

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "project-file.md"
TEXT = PAGE.read_text(encoding="utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    """A new project, read as another program reads it."""
    path = tmp_path_factory.mktemp("views") / "p.wb"
    with Project.open(path, create=True):
        pass
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


@pytest.mark.parametrize("view", ["conversation_table", "conversation_goal"])
def test_every_column_is_described(view: str, conn: sqlite3.Connection) -> None:
    """The page has the columns of each view, in their order and no others."""
    section = TEXT.split(f"## `{view}`")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
    described = re.findall(r"`(\w+)`", " ".join(cells))
    assert described == [row[1] for row in conn.execute(f"PRAGMA table_info({view})")]


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_every_query_runs(query: str, conn: sqlite3.Connection) -> None:
    """Each query of the page is understood by the present schema."""
    assert conn.execute(query).fetchall() == []
