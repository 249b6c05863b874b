"""Signals that end the program, and what processes leave behind that nothing could clean up after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.simulate.demo import sample_conversations, write_jsonl
from tests.command_line import data, workbench
from tests.engine.project.support import fill, talk
from tests.terminal.pty import Session

SECONDS = 120

WAITING = """
import sys, time
from {module} import {function} as real

def waiting(*arguments, **options):
    result = real(*arguments, **options)
    print("midway", file=sys.stderr, flush=True)
    time.sleep({seconds})
    return result

import {module}
{module}.{function} = waiting
from workbench.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A program that stands still after each call of a function of the real one."""

EXPORT = ("engine.base.line_files", "as_json")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of two conversations, in a folder of its own."""
    (tmp_path / "home").mkdir()
    with Project.open(tmp_path / "home" / "p.wb", create=True) as opened:
        fill(opened, [talk("a", "where is my parcel"), talk("b", "it came")])
    return tmp_path / "home" / "p.wb"


@contextmanager
def midway(place: tuple[str, str], *words: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that stands in the midst of its writing."""
    module, function = place
    program = WAITING.format(module=module, function=function, seconds=SECONDS)
    child = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        stderr=subprocess.PIPE,
    )
    try:
        assert child.stderr is not None
        assert child.stderr.readline() == b"midway\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def others(project: Path) -> list[str]:
    """The names beside a project, without the files of SQLite that readers share."""
    own = {project.name, f"{project.name}-wal", f"{project.name}-shm"}
    return sorted({path.name for path in project.parent.iterdir()} - own)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_export_leaves_nothing(project: Path, number: signal.Signals) -> None:
    """SIGTERM and SIGHUP end an export with 130, one line on standard error and no file."""
    target = project.with_name("x.jsonl")
    with midway(EXPORT, "export", project, "conversations", "-o", target) as child:
        assert len(others(project)) == 1
        child.send_signal(number)
        _, narration = child.communicate(timeout=SECONDS)

    assert (child.returncode, narration) == (130, b"workbench: cancelled\n")
    assert others(project) == []


def test_an_import_keeps_what_it_has(project: Path, tmp_path: Path) -> None:
    """SIGTERM ends an import that waits for standard input with 130; the project is whole and can be written."""
    new = project.with_name("new.wb")
    child = subprocess.Popen(
        [sys.executable, "-m", "workbench", "import", str(new), "-", "--format", "uniform"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stderr is not None
    assert b"Importing" in child.stderr.readline()
    child.terminate()
    child.communicate(timeout=SECONDS)
    samples = tmp_path / "samples.jsonl"
    write_jsonl(sample_conversations(3), samples)

    assert child.returncode == 130
    assert set(others(project)) <= {"new.wb"}  # it may not be made yet
    assert workbench("import", new, samples).returncode == 0


def test_leftovers_of_the_dead_go(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What SIGKILL leaves beside a project is private, and gone after the next command; while its process lives, no
    command touches it."""
    monkeypatch.chdir(project.parent)
    with midway(EXPORT, "export", project, "conversations", "-o", "x.jsonl") as child:
        (unfinished,) = others(project)
        assert workbench("status", project).returncode == 0
        assert workbench("backup", project).returncode == 0
        assert unfinished in others(project)
        child.kill()
        child.communicate(timeout=SECONDS)

    folder = project.with_name(unfinished)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert any(folder.iterdir())
    assert workbench("status", project).returncode == 0
    assert unfinished not in others(project)


def test_an_ignored_signal_stays_ignored(project: Path) -> None:
    """Under nohup, which ignores SIGHUP, a command goes on when its terminal closes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with midway(EXPORT, "export", project, "conversations") as child:
            status = Path(f"/proc/{child.pid}/status").read_text()
    finally:
        signal.signal(signal.SIGHUP, before)

    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert ignored & 1 << (signal.SIGHUP - 1)


@pytest.mark.parametrize("how", ["SIGTERM", "terminal, SIGHUP ignored", "shell"])
def test_screens_write_what_was_given(project: Path, how: str) -> None:
    """Screens that are told to end, or whose terminal closes, keep the verdict that was just given and end with 130; so
    do those that were started to ignore SIGHUP, and those that their shell continues when it ends itself."""
    before = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if "ignored" in how else signal.SIG_DFL)
    with Session(str(project)) as session:
        signal.signal(signal.SIGHUP, before)
        session.wait("2 conversations")
        session.press("3", "c")
        if how != "SIGTERM":
            session.terminal.hang_up()
        if how == "shell":
            with suppress(ProcessLookupError):
                for _ in range(200):
                    os.kill(session.terminal.pid, signal.SIGCONT)
                    time.sleep(0.005)
        elif how == "SIGTERM":
            os.kill(session.terminal.pid, signal.SIGTERM)
        assert session.terminal.wait(SECONDS) == 130

    assert others(project) == []
    found = data(workbench("list", project, "--filter", "succeeded:yes", "--json"))
    assert found["id"] in ("a", "b")


def test_no_key_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first screen without a project ends with 130 too."""
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.wait("Where to begin")
        os.kill(session.terminal.pid, signal.SIGTERM)
        assert session.terminal.wait(SECONDS) == 130
