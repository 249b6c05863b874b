"""Repair saves every row whose page can be read, names what is lost, and makes a sound project."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.conversation import Verdict
from engine.base.errors import ProjectError
from engine.conversations.filters import ListQuery, parse_filter
from engine.opener.conversations import ConversationService
from engine.project.project import Project
from engine.project.repair import repair
from engine.questions.service.triage import TriageService
from tests.command_line import result
from tests.engine.project.support import fill, give_scores, talk
from workbench.cli import main

COUNT = 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project of some hundred pages."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(
            project,
            [
                talk(f"c{n}", f"question {n} " + "x" * 300, "answer 答案 " * 40)
                for n in range(COUNT)
            ],
        )
        give_scores(project, {n: n / COUNT for n in range(1, COUNT + 1)})
        triage = TriageService(project)
        for n in range(1, 30):
            triage.give(n, Verdict.YES)
    return tmp_path / "p.wb"


def pages_of(path: Path, table: str) -> list[int]:
    """Numbers of the pages of a table that hold rows."""
    with closing(sqlite3.connect(path)) as conn:
        (root,) = conn.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    data = path.read_bytes()
    found, waiting = [], [root]
    while waiting:
        page = waiting.pop()
        at = (page - 1) * size
        kind = data[at + (100 if page == 1 else 0)]
        if kind in (0x0D, 0x0A):
            found.append(page)
            continue
        cells = int.from_bytes(data[at + 3 : at + 5], "big")
        for n in range(cells):
            cell = int.from_bytes(data[at + 12 + 2 * n : at + 14 + 2 * n], "big")
            waiting.append(int.from_bytes(data[at + cell : at + cell + 4], "big"))
        waiting.append(int.from_bytes(data[at + 8 : at + 12], "big"))
    return sorted(found)


def spoil(path: Path, pages: list[int]) -> None:
    """Overwrites pages with noise."""
    with closing(sqlite3.connect(path)) as conn:
        (size,) = conn.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    for page in pages:
        data[(page - 1) * size : page * size] = random.Random(page).randbytes(size)
    path.write_bytes(data)


def test_a_sound_file(path: Path, tmp_path: Path) -> None:
    """Of a sound file everything is saved, and both searches work."""
    report = repair(str(path), str(tmp_path / "new.wb"))
    assert report.is_whole
    with Project.open(path) as old, Project.open(tmp_path / "new.wb") as new:
        for text in ("question 7", "案", "succeeded:yes", "p>.5"):
            wanted = ListQuery(parse_filter(text))
            assert list(ConversationService(new).ids(wanted)) == list(
                ConversationService(old).ids(wanted)
            )
        assert TriageService(new).tally() == TriageService(old).tally()


@pytest.mark.parametrize("table", ["message", "conversation", "score", "answer"])
def test_lost_pages(path: Path, tmp_path: Path, table: str) -> None:
    """Pages of a table that are noise cost the rows on them and what refers to these, and the rest is a project."""
    pages = pages_of(path, table)
    lost = {"answer": pages, "score": pages[3:4]}
    spoil(path, lost.get(table, [pages[0], pages[-1]]))
    report = repair(str(path), str(tmp_path / "new.wb"))
    assert not report.is_whole
    assert report.unread == [table]
    with Project.open(tmp_path / "new.wb") as new, new.reading() as conn:
        assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
        (kept,) = conn.execute("SELECT count(*) FROM conversation").fetchone()
        (messages,) = conn.execute("SELECT count(*) FROM message").fetchone()
    if table == "conversation":
        assert 0 < kept < COUNT
        assert report.orphans["message"] == 2 * (COUNT - kept) > 0
    else:
        assert kept == COUNT
    if table == "message":
        assert 0 < messages < 2 * COUNT
        assert report.shortened > 0
    if table == "score":
        assert 0 < report.rows["score"] < COUNT


def test_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says what is there and what is lost, with exit code 3; a file that is there is not touched."""
    spoil(path, pages_of(path, "message")[3:4])
    new = str(tmp_path / "new.wb")
    assert main(["repair", str(path), "-o", new]) == 3
    out = capsys.readouterr().out
    assert "Some rows could not be read of: message." in out
    assert "lost messages: c" in out
    assert main(["repair", str(path), "-o", new]) == 1
    assert result("repair", path, "-o", tmp_path / "n.wb", code=3)["whole"] is False


def test_what_is_no_project(path: Path, tmp_path: Path) -> None:
    """A file without its first page, another file, and none are refused, and nothing is left behind."""
    spoil(path, [1])
    (tmp_path / "x.txt").write_text("hello")
    for name in ("p.wb", "x.txt", "none.wb"):
        with pytest.raises(ProjectError):
            repair(str(tmp_path / name), str(tmp_path / "new.wb"))
        assert not (tmp_path / "new.wb").exists()
