"""A project that is moved, linked, replaced or overwritten while it is open: nothing that was stored is lost."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import NameTaken, ProjectError, ProjectLocked, ProjectMoved, ProjectReadOnly
from engine.project import settings
from engine.project.backups import back_up, restore
from engine.project.project import Project
from tests.engine.project.support import REPOSITORY, check_whole, fill, in_child, names, talk

LOOK = """
import sys
from engine.base.errors import ProjectError
from engine.project.project import Project
try:
    with Project.open(sys.argv[1]) as project, project.reading() as conn:
        names = [name for (name,) in conn.execute("SELECT external_id FROM conversation ORDER BY id")]
        print(project.read_only or "writable", *names)
except ProjectError as error:
    print(error)
"""
HOLD = """
import sys
from engine.project import settings
from engine.project.project import Project
project = Project.open(sys.argv[1])
project.write(lambda conn: settings.put(conn, "from", "the holder"))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project of one conversation, `first`."""
    return made(tmp_path / "p.wb", "first")


@pytest.fixture
def open_project(path: Path) -> Iterator[Project]:
    """That project, open for writing, with `stored` beside it: so far only in the log."""
    with Project.open(path) as project:
        fill(project, [talk("stored", "in the log", "only")], "b.jsonl")
        yield project


def made(path: Path, *names: str) -> Path:
    with Project.open(path, create=True) as project:
        fill(project, [talk(name, f"question {name}", "answer") for name in names])
    return path


def elsewhere(path: Path, code: str = LOOK) -> str:
    """What another process says that opens a project."""
    return subprocess.run(
        [sys.executable, "-c", code, path], cwd=REPOSITORY, capture_output=True, text=True
    ).stdout


def write(project: Project) -> None:
    fill(project, [talk("more", "too", "late")], "c.jsonl")


@pytest.mark.parametrize("give_name", [Path.rename, os.link], ids=["mv", "ln"])
def test_a_second_name_lets_no_second_writer_in(
    path: Path, open_project: Project, give_name: Callable[[Path, Path], object]
) -> None:
    """A file that is open cannot be opened under another name, neither for writing nor for reading without its log."""
    other = path.with_name("u.wb")
    give_name(path, other)
    expected = (
        f"u.wb is open under another name: another workbench (pid {os.getpid()}) is writing it."
    )
    assert elsewhere(other).startswith(expected)
    with pytest.raises(ProjectLocked, match="under another name"):
        Project.open(other)
    with pytest.raises(ProjectLocked, match="under another name"):
        back_up(str(other))
    with pytest.raises(ProjectMoved):
        write(open_project)
    open_project.close()
    assert names(other) == ["first", "stored"]
    check_whole(other)


def test_a_file_that_was_renamed_is_whole_and_no_longer_written(
    path: Path, open_project: Project
) -> None:
    """The first write after a rename fails and names the new path, where at once everything is that was stored."""
    other = path.with_name("u.wb")
    path.rename(other)
    with pytest.raises(ProjectMoved, match=r"^p\.wb was moved to u\.wb while it was open") as info:
        write(open_project)
    assert info.value.where == str(other)
    assert open_project.read_only == "p.wb was moved to u.wb while it was open"
    with pytest.raises(ProjectMoved):
        write(open_project)
    with closing(sqlite3.connect(f"file:{other}?immutable=1", uri=True)) as conn:
        assert conn.execute("SELECT count(*) FROM conversation").fetchone() == (2,)
    open_project.close()
    assert names(other) == ["first", "stored"]
    with Project.open(other) as again:
        write(again)
    check_whole(other)
    assert [p.name for p in path.parent.iterdir()] == ["u.wb"]


@pytest.mark.parametrize("folder", [False, True])
def test_a_moved_file_can_be_read_by_any_thread(
    path: Path, open_project: Project, folder: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After a move that is noticed, a thread that has not read before reads all that was stored."""
    there = tmp_path_factory.mktemp("moves") / "moved"
    if folder:
        path.parent.rename(there)
    else:
        path.rename(there)
    with pytest.raises(ProjectMoved):
        write(open_project)
    counts: list[int] = []

    def read() -> None:
        with open_project.reading() as conn:
            counts.extend(conn.execute("SELECT count(*) FROM conversation").fetchone())

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert counts == [2]
    open_project.close()
    assert names(there / "p.wb" if folder else there) == ["first", "stored"]
    if folder:
        there.rename(path.parent)


def test_a_hard_link(path: Path) -> None:
    """A file with two names opens read-only, says what to do, and can be written when the other name is gone."""
    path.with_name("u.wb").hardlink_to(path)
    with Project.open(path) as project:
        assert project.read_only is not None
        assert project.read_only.startswith("p.wb has a second name (a hard link)")
        with pytest.raises(ProjectReadOnly, match="Remove the other name"):
            write(project)
    with pytest.raises(ProjectError, match="second name"):
        restore(str(path), str(path))
    assert names(path) == names(path.with_name("u.wb")) == ["first"]
    path.with_name("u.wb").unlink()
    with Project.open(path) as project:
        write(project)


def test_a_file_that_is_deleted(path: Path, open_project: Project) -> None:
    """All that was stored in a file that was deleted, and nothing else, can be saved as long as it is open."""
    path.unlink()
    with pytest.raises(ProjectMoved, match="was moved or deleted"):
        write(open_project)
    saved = path.with_name("saved.wb")
    with pytest.raises(NameTaken):
        open_project.save_copy(str(path.parent))
    open_project.save_copy(str(saved))
    open_project.close()
    assert names(saved) == ["first", "stored"]
    check_whole(saved)
    assert names(made(path, "new")) == ["new"]


def test_another_project_is_moved_over_it(path: Path, open_project: Project) -> None:
    """A project that is moved to the name of one that is open stays as it is, and cannot be opened meanwhile."""
    made(path.with_name("other.wb"), "other")
    path.with_name("other.wb").rename(path)
    assert "p.wb was put in the place of a project that another workbench" in elsewhere(path)
    with pytest.raises(ProjectMoved, match="replaced by another file"):
        write(open_project)
    open_project.save_copy(str(path.with_name("saved.wb")))
    open_project.close()
    assert names(path) == ["other"]
    assert names(path.with_name("saved.wb")) == ["first", "stored"]
    check_whole(path)


@pytest.mark.parametrize("notices", [True, False])
def test_another_project_is_copied_over_it(
    path: Path, open_project: Project, notices: bool
) -> None:
    """A project that is copied over one that is open is not mixed with it, whether or not a write comes after."""
    other = made(path.with_name("other.wb"), *(f"other {n}" for n in range(50)))
    expected = names(other)
    shutil.copyfile(other, path)
    if notices:
        with pytest.raises(ProjectMoved, match="overwritten by another program"):
            write(open_project)
        with pytest.raises(ProjectMoved):
            open_project.save_copy(str(path.with_name("saved.wb")))
    open_project.close()
    assert names(path) == expected
    check_whole(path)
    assert path.with_name("p.wb.overwritten-wal").exists()


def holding(path: Path) -> subprocess.Popen[bytes]:
    """Another process that has a project open, with something that is only in its log."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


@pytest.mark.parametrize("lives", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_copy_of_the_folder_has_what_is_in_the_log(
    path: Path, tmp_path_factory: pytest.TempPathFactory, lives: bool, read_only: bool
) -> None:
    """File, log and lock that are copied together open with all that was stored, whether or not the writer lives."""
    holder = holding(path)
    try:
        if not lives:
            holder.kill()
            holder.wait()
        copy = shutil.copytree(path.parent, tmp_path_factory.mktemp("copies") / "copy")
        with Project.open(copy / "p.wb", read_only=read_only) as project:
            assert (project.read_only is None) != read_only
            assert project.read(settings.get, "from", "none") == "the holder"
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("follows", ["another project", "nothing"])
def test_the_log_of_a_file_that_was_moved_is_not_used_for_another(path: Path, follows: str) -> None:
    """After a kill the log of a moved file is neither applied to what has come in its place nor deleted."""
    holder = holding(path)
    other = path.with_name("u.wb")
    path.rename(other)
    holder.kill()
    holder.communicate()
    if follows == "another project":
        made(path.with_name("other.wb"), "other").rename(path)
        for read_only in (True, False):
            with pytest.raises(ProjectError, match="-wal has changes of another file"):
                Project.open(path, read_only=read_only)
        path.unlink()
    else:
        with pytest.raises(ProjectError, match="-wal has changes of another file"):
            Project.open(path, create=True)
    other.rename(path)
    with Project.open(path) as project:
        assert project.read(settings.get, "from", "none") == "the holder"
    assert sorted(p.name for p in path.parent.iterdir()) == ["p.wb"]


def test_a_project_is_of_no_use_in_a_fork(path: Path, open_project: Project) -> None:
    """A fork that uses the project of its parent gets an error at once; before, its first write waited for ever."""

    def attempt() -> list[str]:
        found = []
        for use in (lambda: write(open_project), lambda: open_project.read(settings.get, "x")):
            try:
                use()
            except ProjectError as error:
                found.append(error.message)
        return found

    assert len([said for said in in_child(attempt) if "is a fork" in said]) == 2
    write(open_project)
