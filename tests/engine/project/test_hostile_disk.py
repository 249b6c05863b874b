"""Folders without write permission, and full disks."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from engine.base.errors import ProjectError, ProjectReadOnly
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project import settings
from engine.project.backups import back_up
from engine.project.project import Project
from engine.project.repair import repair
from tests.engine.project.support import check_whole, content, fill, in_child, talk

T = TypeVar("T")
NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a project, accessible to every user; pytest's own folders are closed to others."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    with Project.open(path / "p.wb", create=True) as project:
        fill(project, [talk("a", "hello")])
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


def without_rights(work: Callable[[], T]) -> T:
    """Runs `work` in a child process without root's rights, so that file permissions apply to it."""

    def dropped() -> T:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return in_child(dropped)


def look(path: Path) -> tuple[str | None, int, str]:
    """(why read-only, conversations found, what a write says)."""
    with Project.open(path) as project:
        found = len(ConversationService(project).ids(ListQuery(parse_filter("hello"))))
        try:
            project.write(lambda conn: settings.put(conn, "x", 1))
        except ProjectReadOnly as error:
            return project.read_only, found, str(error)
        return project.read_only, found, ""


class TestReadOnlyPlaces:
    def test_a_folder_that_cannot_be_written(self, folder: Path) -> None:
        """The project opens read-only and says why, and nothing is left in the folder."""
        (folder / "p.wb").chmod(0o666)
        folder.chmod(0o555)
        why, found, refusal = without_rights(lambda: look(folder / "p.wb"))
        assert why == "the folder cannot be written to"
        assert found == 1
        assert why in refusal
        assert [p.name for p in folder.iterdir()] == ["p.wb"]

    def test_beside_a_writer_of_another_user(self, folder: Path) -> None:
        """A reader without write permission sees what a running writer has just committed."""
        (folder / "p.wb").chmod(0o644)
        with Project.open(folder / "p.wb") as project:
            fill(project, [talk("b", "hello again")], "b.jsonl")
            folder.chmod(0o555)
            why, found, _ = without_rights(lambda: look(folder / "p.wb"))
            folder.chmod(0o755)
        assert why is not None
        assert found == 2


def texts(count: int) -> list[str]:
    """Long texts without repetitions."""
    return [" ".join(f"word{n}x{i}" for i in range(800)) for n in range(count)]


class TestFullDisk:
    def test_a_limit_in_the_system(self, tmp_path: Path) -> None:
        """When the system refuses more bytes, the error says so, and the project is unchanged and usable."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk("a", "hello")])
        before = content(path)
        limit = path.stat().st_size + 300_000

        def run_into_it() -> list[str]:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            outcomes = []
            project = Project.open(path)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            for _ in range(2):
                try:
                    fill(project, [talk(f"n{n}", text) for n, text in enumerate(texts(300))])
                    outcomes.append("written")
                except ProjectError as error:
                    outcomes.append(f"{error.message}|{error.hint}")
            outcomes.append(str(len(ConversationService(project).ids(ListQuery()))))
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            fill(project, [talk("b", "there is room again")])
            project.close()
            return outcomes

        first, second, found = in_child(run_into_it)
        assert first == second
        assert first.startswith("The disk is full")
        assert first.split("|")[1]
        assert found == "1"
        check_whole(path)
        assert len(content(path)["conversation"]) == 2
        assert set(before["conversation"]) <= set(content(path)["conversation"])

    def test_no_room_to_read(self, tmp_path: Path) -> None:
        """A project is read where there is no room for the side files of SQLite, unless a log would be left unread."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk("a", "hello")])

        def read() -> str:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
            try:
                with Project.open(path, read_only=True) as project:
                    return str(len(ConversationService(project).ids(ListQuery())))
            except ProjectError as error:
                return error.message

        assert in_child(read) == "1"
        Path(f"{path}-wal").write_bytes(b"a log")
        assert in_child(read).startswith("The disk is full")

    @pytest.mark.parametrize("copy", [back_up, lambda path: repair(path, f"{path}.backup-2")])
    def test_no_room_for_a_copy(self, tmp_path: Path, copy: Callable[[str], object]) -> None:
        """A backup or repair that has no room is the file that the error names, and nothing of it stays."""
        path = tmp_path / "p.wb"
        with Project.open(path, create=True) as project:
            fill(project, [talk(f"n{n}", text) for n, text in enumerate(texts(30))])

        def attempt() -> str:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size // 2, hard))
            try:
                return str(copy(str(path)))
            except ProjectError as error:
                return error.message

        message = in_child(attempt)
        assert message.startswith("The disk is full")
        assert "p.wb.backup-2" in message
        assert [one.name for one in tmp_path.iterdir() if "wb-" not in one.name] == ["p.wb"]
