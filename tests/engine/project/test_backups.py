"""Backups are whole copies beside a project; a restored one has what it had, and the present file is kept."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import ProjectError, ProjectLocked
from engine.project.backups import back_up, backups_of, restore
from engine.project.project import Project
from tests.command_line import result
from tests.engine.project.support import fill, names, talk
from workbench.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project of two conversations."""
    add(tmp_path / "p.wb", "a", "b")
    return tmp_path / "p.wb"


def add(path: Path, *names: str) -> None:
    with Project.open(path, create=True) as project:
        fill(project, [talk(name, f"question {name}", "answer") for name in names])


def test_restored_has_what_was_backed_up(path: Path) -> None:
    """A backup restored after more was imported has what it had; the present file is kept beside with the rest."""
    made, removed = back_up(str(path))
    assert removed == []
    add(path, "c")
    kept = restore(str(path), made)
    assert kept is not None
    assert (names(path), names(kept), names(made)) == (["a", "b"], ["a", "b", "c"], ["a", "b"])
    assert restore(str(path), kept) == kept + "-2"
    assert names(path) == ["a", "b", "c"]


def test_only_the_newest_of_its_own_stay(path: Path) -> None:
    """Of backups made by command the newest stay; one before an upgrade, and files of people, are never removed."""
    upgrade = Path(f"{path}.backup-3")
    mine = Path(f"{path}.backup-mine")
    shutil.copy(path, upgrade)
    shutil.copy(path, mine)
    made = [back_up(str(path), keep=2)[0] for _ in range(4)]
    found = {backup.path for backup in backups_of(str(path))}
    assert {str(upgrade), str(mine), made[3]} <= found
    assert len(found) == 4


def test_backed_up_while_it_is_open(path: Path) -> None:
    """A backup of a project that is being written has what is committed; restoring into it is refused."""
    with Project.open(path) as project:
        fill(project, [talk("c", "question", "answer")])
        made, _ = back_up(str(path))
        with pytest.raises(ProjectLocked):
            restore(str(path), made)
    assert names(made) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["no permission", "lock of another", "link to nothing"])
def test_a_bad_backup_is_in_nobodys_way(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A backup that cannot be opened is listed, and others are made, listed and restored."""
    bad = Path(f"{path}.backup-20260101T000000Z")
    if kind == "link to nothing":
        bad.symlink_to("nothing")
    else:
        shutil.copy(path, bad)
    if kind == "lock of another":
        Path(f"{bad}-wal").write_bytes(b"log")
        Path(f"{bad}.lock").write_text('{"file": 1, "pid": 0, "host": "other"}')
    if kind == "no permission":
        opened = os.open

        def refusing(name: str, *more: int) -> int:
            if name == str(bad):
                raise PermissionError(errno.EACCES, "Permission denied", name)
            return opened(name, *more)

        monkeypatch.setattr(os, "open", refusing)
    made, _ = back_up(str(path))
    listed = {backup.path for backup in backups_of(str(path))}
    assert listed == ({made} if kind == "link to nothing" else {made, str(bad)})
    restore(str(path), made)


@pytest.mark.parametrize("kind", ["missing", "text", "other", "noise"])
def test_bad_backups_are_refused(path: Path, tmp_path: Path, kind: str) -> None:
    """A backup that is missing, no database, of another program or damaged is refused, and the project stays."""
    bad = tmp_path / "bad"
    if kind == "text":
        bad.write_text("no database " * 100)
    elif kind == "other":
        with closing(sqlite3.connect(bad)) as conn:
            conn.execute("CREATE TABLE t (x)")
    elif kind == "noise":
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        bad.write_bytes(content)
    before = names(path)
    with pytest.raises(ProjectError) as raised:
        restore(str(path), str(bad))
    assert "bad" in str(raised.value)
    assert names(path) == before
    assert not list(tmp_path.glob("*.restored*"))
    assert not list(tmp_path.glob("*before-restore*"))


def test_a_damaged_project_is_replaced(path: Path) -> None:
    """A project that can no longer be opened, with a log beside it, is put aside, log and all."""
    made, _ = back_up(str(path))
    path.write_bytes(b"noise" * 1000)
    Path(f"{path}-wal").write_bytes(b"noise")
    kept = restore(str(path), made)
    assert kept is not None
    assert names(path) == ["a", "b"]
    assert Path(kept).read_bytes() == b"noise" * 1000


def test_commands(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`backup` prints the new file, `restore` lists it, and restores it."""
    assert main(["restore", str(path)]) == 0
    assert "There is no backup" in capsys.readouterr().err
    assert main(["backup", str(path)]) == 0
    made = capsys.readouterr().out.strip()
    assert main(["restore", str(path)]) == 0
    assert made in capsys.readouterr().out
    assert result("restore", str(path), made)["kept"] == f"{path}.before-restore"
    assert main(["backup", str(path), "--keep", "0"]) == 2
