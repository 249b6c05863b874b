"""The schema of a project file, and how it grows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import ProjectError, ProjectTooOld
from engine.base.files import APPLICATION_ID
from engine.opener.conversations import ConversationService
from engine.project import project as project_module
from engine.project import schema
from engine.project.project import Project
from engine.project.schema import (
    FIRST_SCHEMA,
    LAST_COMMIT_FOR_EARLIER_SCHEMAS,
    SCHEMA,
    foreign_object,
)
from engine.project.write_lock import WriteLock
from tests.engine.project.support import check_whole, content, fill, talk


def schema_of(path: Path) -> list[tuple[str, str, str]]:
    """Every table, index and view with the statement that made it."""
    conn = sqlite3.connect(path)
    rows = conn.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"
    ).fetchall()
    conn.close()
    return [(kind, name, " ".join(sql.split())) for kind, name, sql in rows]


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_before_the_first_schema_is_refused(tmp_path: Path, read_only: bool) -> None:
    """A file of a version before 1.0 is left as it is, and the error names the commit that can open it."""
    path = tmp_path / "old.wb"
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("CREATE TABLE run (id INTEGER PRIMARY KEY)")
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute(f"PRAGMA user_version = {FIRST_SCHEMA - 1}")
    before = path.read_bytes()
    with pytest.raises(ProjectTooOld, match=f"schema {FIRST_SCHEMA - 1}") as caught:
        Project.open(path, read_only=read_only)
    assert LAST_COMMIT_FOR_EARLIER_SCHEMAS in caught.value.hint
    assert path.read_bytes() == before


def test_nothing_in_a_new_file_is_foreign(tmp_path: Path) -> None:
    """A new file has nothing that the program would refuse, and all that the schema names."""
    Project.open(tmp_path / "p.wb", create=True).close()
    with closing(sqlite3.connect(tmp_path / "p.wb")) as conn:
        assert foreign_object(conn, SCHEMA) is None
        there = {row[0] for row in conn.execute("SELECT name FROM sqlite_master")}
    assert set(schema.objects(SCHEMA)) <= there


def _widen(conn: sqlite3.Connection) -> None:
    conn.execute("ALTER TABLE run ADD COLUMN host TEXT")


def _break(conn: sqlite3.Connection) -> None:
    conn.execute("ALTER TABLE run ADD COLUMN host TEXT")
    conn.execute("ALTER TABLE nothing ADD COLUMN x TEXT")


@pytest.fixture
def with_next(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[sqlite3.Connection], None]], None]:
    """Adds a migration after the present schema."""

    def add(migration: Callable[[sqlite3.Connection], None]) -> None:
        monkeypatch.setitem(schema.MIGRATIONS, SCHEMA + 1, migration)
        monkeypatch.setattr(schema, "SCHEMA", SCHEMA + 1)
        monkeypatch.setattr(project_module, "SCHEMA", SCHEMA + 1)

    return add


AddMigration = Callable[[Callable[[sqlite3.Connection], None]], None]


class TestMigrating:
    def test_a_copy_is_kept(self, tmp_path: Path, with_next: AddMigration) -> None:
        """Before a migration the file is copied beside itself, unchanged."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk("a", "hello")])
        before = content(path)
        with_next(_widen)
        with Project.open(path) as project, project.reading() as conn:
            assert conn.execute("SELECT host FROM run").fetchall() == []
        copy = tmp_path / f"p.wb.backup-{SCHEMA}"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["p.wb", copy.name]
        assert content(copy) == before == content(path)
        check_whole(copy)
        Project.open(path).close()
        assert len(list(tmp_path.iterdir())) == 2  # no second copy without a second migration

    def test_a_migration_that_fails_changes_nothing(
        self, tmp_path: Path, with_next: AddMigration, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After a failed migration the file is unchanged, the error is a WorkbenchError, and the earlier version still
        opens it.
        """
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk("a", "hello")])
        schema = schema_of(path)
        with_next(_break)
        with pytest.raises(ProjectError):
            Project.open(path)
        assert schema_of(path) == schema
        monkeypatch.undo()
        with Project.open(path) as project:
            assert project.read_only is None
            assert ConversationService(project).counts().conversations == 1

    def test_an_older_file_that_cannot_be_written(
        self, tmp_path: Path, with_next: AddMigration
    ) -> None:
        """An older file that cannot be written cannot be opened; the error says what to do."""
        path = tmp_path / "p.wb"
        Project.open(path, create=True).close()
        with_next(_widen)
        with pytest.raises(ProjectError, match="older version") as caught:
            Project.open(path, read_only=True)
        assert caught.value.hint

    def test_an_older_file_to_be_read(self, tmp_path: Path, with_next: AddMigration) -> None:
        """On request an older file is migrated and then opened for reading only; while another process writes it, the
        error names that.
        """
        path = tmp_path / "p.wb"
        Project.open(path, create=True).close()
        with_next(_widen)
        lock = WriteLock(str(path))
        lock.acquire()
        with pytest.raises(ProjectError, match=r"older version.* is writing it"):
            Project.open(path, read_only=True, upgrade=True)
        lock.release()
        with Project.open(path, read_only=True, upgrade=True) as project:
            assert project.read_only == "opened for reading only"
        assert (tmp_path / f"p.wb.backup-{SCHEMA}").exists()
        Project.open(path, read_only=True).close()
