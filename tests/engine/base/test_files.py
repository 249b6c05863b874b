"""Files appear whole or not at all, for their owner only, and what nobody writes any more goes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import ProjectError
from engine.base.files import (
    APPLICATION_ID,
    atomic_replacement,
    create_private_folder,
    temporary_private_folder,
    write_atomically,
)
from engine.base.line_files import write_beside

ADDING = """
import sys
from pathlib import Path
from engine.base.files import write_atomically
path = Path(sys.argv[1]) / "link"
path.symlink_to(f"/proc/self/fd/{sys.stdout.fileno()}")
print("first", flush=True)
write_atomically(path, "new\\n")
print("last", flush=True)
"""

HOLDING = """
import sys
from pathlib import Path
from engine.base.files import temporary_private_folder
with temporary_private_folder(Path(sys.argv[1])) as folder:
    (folder / "part").write_text("secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    """A program of somebody else, which lets everybody read what it writes."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path | str) -> int:
    return os.stat(path).st_mode & 0o777


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    """After an error the file is as it was, and nothing stays beside it."""
    path = tmp_path / "a.txt"
    write_atomically(path, "before")

    def fail() -> None:
        with atomic_replacement(path) as part:
            part.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_and_a_device_stay(tmp_path: Path) -> None:
    """What a link names is replaced, and the link stays; a device is written itself."""
    (tmp_path / "there").mkdir()
    link, null = tmp_path / "link", tmp_path / "null"
    link.symlink_to(tmp_path / "there" / "a.txt")
    null.symlink_to(os.devnull)
    write_atomically(link, "new")
    write_atomically(null, "new")

    assert link.is_symlink()
    assert (tmp_path / "there" / "a.txt").read_text() == "new"
    assert null.is_char_device()


@pytest.mark.skipif(sys.platform != "linux", reason="the link is one of Linux")
@pytest.mark.parametrize("how", ["a", "w"])
def test_redirected_output_is_added_to(tmp_path: Path, how: str) -> None:
    """A file that standard output is redirected to keeps what is in it, and gets what is written in order."""
    path = tmp_path / "all.txt"
    path.write_text("before\n")
    with path.open(how) as out:
        subprocess.run([sys.executable, "-c", ADDING, tmp_path], stdout=out, check=True)

    before = "before\n" if how == "a" else ""
    assert path.read_text() == before + "first\nnew\nlast\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["all.txt", "link"]


def test_nothing_is_written_over_a_project(tmp_path: Path) -> None:
    """An export or report in the place of a project, also by a link to it, or of a file beside it is refused."""
    project, link = tmp_path / "p.wb", tmp_path / "out.csv"
    with closing(sqlite3.connect(project)) as made:
        made.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        made.execute("create table conversation (id)")
    link.symlink_to(project)
    before = project.read_bytes()
    for target in (project, link):
        with pytest.raises(ProjectError, match="is a project"), write_beside(target) as part:
            part.write_text("lines")
    (tmp_path / "other.csv").symlink_to(tmp_path / "p.wb-shm")
    for name in ("p.wb-wal", "other.csv", "p.wb-journal", "p.wb.lock"):
        with pytest.raises(ProjectError, match="belongs to"), write_beside(tmp_path / name) as part:
            part.write_text("lines")
    assert project.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.csv", "out.csv", "p.wb"]


def test_only_the_dead_leave_leftovers(tmp_path: Path) -> None:
    """The folder of a process that lives stays as it is, also beside others; after a kill the next write removes it."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDING, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    folder = Path(holder.stdout.readline().strip())
    with temporary_private_folder(tmp_path) as other:
        write_atomically(tmp_path / "a.txt", "text")
        assert other.is_dir()
    assert (folder / "part").read_text() == "secret"
    holder.kill()
    holder.communicate()
    assert (folder / "part").exists()
    write_atomically(tmp_path / "a.txt", "text")

    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_new_folders_are_private(tmp_path: Path) -> None:
    """Folders that are made are for their owner only; those that are there stay as they are."""
    (tmp_path / "mine").mkdir(mode=0o755)
    create_private_folder(tmp_path / "mine" / "new" / "newer")

    assert [mode(tmp_path / name) for name in ("mine", "mine/new", "mine/new/newer")] == [
        0o755,
        0o700,
        0o700,
    ]
