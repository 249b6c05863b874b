"""Opening, writing, reading and closing a project file."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.base.errors import NotAProject, ProjectError, ProjectReadOnly
from engine.base.files import APPLICATION_ID
from engine.project import runs, settings
from engine.project.backups import restore
from engine.project.project import Project
from engine.project.repair import repair
from engine.project.schema import SCHEMA
from tests.engine.project.support import check_whole, fill, in_child, talk


class TestOpening:
    def test_a_new_project_is_ours_strict_and_in_wal_mode(self, tmp_path: Path) -> None:
        """A new file has the program's application id and schema number, and every table is STRICT."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project, project.reading() as conn:
            assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert conn.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            assert conn.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
            loose = [
                row[1]
                for row in conn.execute("PRAGMA table_list")
                if row[2] == "table"
                and not row[5]
                and not row[1].startswith(("sqlite_", "_sqlite"))
            ]
            assert loose == []

    def test_what_was_written_is_there_again(self, tmp_path: Path) -> None:
        """A project keeps its content from one session to the next."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            project.write(lambda conn: settings.put(conn, "x", [1, {"ä": None}]))
        with Project.open(path) as project:
            assert project.read(settings.get, "x") == [1, {"ä": None}]

    @pytest.mark.parametrize(
        "name", ["with space.wb", "100%.wb", "a?mode=memory", "#x.wb", "ü.wb", "plain"]
    )
    def test_any_name_works(self, tmp_path: Path, name: str) -> None:
        """A path with characters of a URI is used literally."""
        Project.open(tmp_path / name, create=True).close()
        assert [p.name for p in tmp_path.iterdir()] == [name]
        Project.open(tmp_path / name).close()

    def test_names_beside_a_project_are_kept_for_it(self, tmp_path: Path) -> None:
        """No project is made, copied, repaired or restored where the log of another one belongs."""
        path = str(tmp_path / "p.wb")
        with Project.open(path, create=True) as project:
            attempts: list[Callable[[str], object]] = [
                lambda name: Project.open(name, create=True),
                project.save_copy,
                lambda name: repair(path, name),
                lambda name: restore(name, path),
            ]
            before = sorted(os.listdir(tmp_path))
            for attempt in attempts:
                with pytest.raises(ProjectError, match="belongs to"):
                    attempt(path + "-journal")
            assert sorted(os.listdir(tmp_path)) == before

    @pytest.mark.parametrize("create", [False, True])
    def test_not_a_database(self, tmp_path: Path, create: bool) -> None:
        """A file of another kind is refused and unchanged."""
        path = tmp_path / "notes.txt"
        path.write_text("dear diary, today I learned about files\n" * 9)
        before = path.read_bytes()
        with pytest.raises(ProjectError, match="not a project"):
            Project.open(path, create=create)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]

    def test_a_pipe(self, tmp_path: Path) -> None:
        """A pipe is refused at once; opening it would wait for who writes into it."""
        os.mkfifo(tmp_path / "pipe.wb")
        with pytest.raises(NotAProject, match="is a pipe"):
            Project.open(tmp_path / "pipe.wb", read_only=True)

    @pytest.mark.parametrize("create", [False, True])
    def test_a_database_of_another_program(self, tmp_path: Path, create: bool) -> None:
        """Another program's database is refused and unchanged."""
        path = tmp_path / "other.db"
        conn = sqlite3.connect(path)
        conn.execute("CREATE TABLE message (id)")
        conn.commit()
        conn.close()
        before = path.read_bytes()
        with pytest.raises(ProjectError, match="another program"):
            Project.open(path, create=create)
        assert path.read_bytes() == before

    def test_newer(self, tmp_path: Path) -> None:
        """A file of a newer schema is refused with both numbers."""
        path = tmp_path / "p.wb"
        Project.open(path, create=True).close()
        conn = sqlite3.connect(path)
        conn.execute(f"PRAGMA user_version = {SCHEMA + 1}")
        conn.close()
        with pytest.raises(ProjectError, match=f"schema {SCHEMA + 1}, this one knows {SCHEMA}"):
            Project.open(path)

    def test_damaged(self, tmp_path: Path) -> None:
        """A damaged file is an error that says so, at the latest when the damaged part is read or written."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk(f"{n}", "hello " * 500) for n in range(50)])
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + b"\x55" * 4096 * 20 + whole[4096 * 21 :])

        def use() -> None:
            with Project.open(path) as project:
                fill(project, [talk(f"more {n}", "hello " * 500) for n in range(50)])

        with pytest.raises(ProjectError, match="damaged"):
            use()

    def test_runs_of_a_dead_process_become_interrupted(self, tmp_path: Path) -> None:
        """A run left running by a process that died is interrupted at the next open for writing."""
        path = tmp_path / "p.wb"

        def start() -> None:
            project = Project.open(path, create=True)
            project.write(_create_run)

        in_child(start)
        with Project.open(path) as project:
            assert [run.state for run in project.read(runs.all_runs)] == ["interrupted"]
            assert [run.id for run in project.read(runs.interrupted)] == [1]
            project.write(_create_run)
            assert project.read(runs.interrupted) == []  # taken up by the second run


class TestWriting:
    def test_all_or_nothing(self, project: Project) -> None:
        """When the function of a write raises, nothing of it is committed and the caller gets the error."""

        def work(conn: sqlite3.Connection) -> None:
            settings.put(conn, "x", 1)
            raise KeyError("boom")

        with pytest.raises(KeyError, match="boom"):
            project.write(work)
        assert project.read(settings.get, "x") is None
        project.write(lambda conn: settings.put(conn, "y", 2))
        assert project.read(settings.get, "y") == 2

    def test_one_thread_writes(self, project: Project) -> None:
        """Writes of many threads happen one after another on one thread, and none is lost."""
        names: set[str] = set()

        def add_one(conn: sqlite3.Connection) -> None:
            names.add(threading.current_thread().name)
            settings.put(conn, "n", settings.get(conn, "n", 0) + 1)

        threads = [
            threading.Thread(target=lambda: [project.write(add_one) for _ in range(25)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert project.read(settings.get, "n") == 200
        assert len(names) == 1

    def test_readers_cannot_write(self, project: Project) -> None:
        """A reader's connection refuses to change anything."""
        with pytest.raises(ProjectReadOnly):
            project.read(settings.put, "x", 1)


class TestClosing:
    def test_a_closed_project_says_so(self, tmp_path: Path) -> None:
        """Reading or writing after the close raises a WorkbenchError; closing twice is allowed."""
        project = Project.open(tmp_path / "p.wb", create=True)
        project.close()
        project.close()
        with pytest.raises(ProjectError, match="closed"):
            project.read(settings.get, "x")
        with pytest.raises(ProjectError, match="closed"):
            project.write(lambda conn: None)

    def test_a_write_that_does_not_end_is_cut_off_and_undone(self, tmp_path: Path) -> None:
        """A write that is still running after the timeout is interrupted and rolled back."""
        path = tmp_path / "p.wb"
        project = Project.open(path, create=True)
        begun = threading.Event()

        def endless(conn: sqlite3.Connection) -> None:
            settings.put(conn, "x", 1)
            begun.set()
            conn.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                " SELECT count(*) FROM n"
            ).fetchone()

        failed: list[ProjectError] = []

        def write() -> None:
            try:
                project.write(endless)
            except ProjectError as error:
                failed.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        begun.wait()
        project.close(timeout=0.05)
        thread.join()
        assert len(failed) == 1
        check_whole(path)
        with Project.open(path) as again:
            assert again.read_only is None
            assert again.read(settings.get, "x") is None

    def test_closing_while_others_read(self, tmp_path: Path) -> None:
        """Closing while others read ends their queries with an error and damages nothing."""
        path = tmp_path / "p.wb"
        project = Project.open(path, create=True)
        fill(project, [talk(f"{n}", "hello there") for n in range(200)])
        started = threading.Barrier(5)
        closed = threading.Event()
        ends: list[str] = []

        def query(conn: sqlite3.Connection) -> None:
            started.wait()
            while not closed.is_set():
                conn.execute("SELECT count(*) FROM message a, message b").fetchall()

        def read() -> None:
            try:
                project.read(query)
            except ProjectError as error:
                ends.append(str(error))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        started.wait()
        project.close()
        closed.set()
        for thread in threads:
            thread.join()
        assert len(ends) == 4
        check_whole(path)


def _create_run(conn: sqlite3.Connection) -> int:
    return runs.create(
        conn,
        stage="import",
        config_hash="h",
        params={"a": 1},
        fingerprints={"b": [2]},
    )
