"""A hostile project in the real program on a real terminal: its keys; nothing but letters comes out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.project.project import Project
from screens.shell.keymap import Place, key_table
from tests.engine.goals.service.goal_project import cluster
from tests.terminal import hostile
from tests.terminal.payloads import NAME, PAYLOADS
from tests.terminal.pty import Session, typed
from workbench.app import WorkbenchApp

LEAVES = {"quit", "quit_at_once", "app.quit", "suspend_process", "help_quit", "app.suspend_process"}
JOBS = {"ask", "assign", "stability"}
"""Actions that start a job without a question, and keep the machine busy."""
PASTED = "p\x9b5n\u202e[/red][@click=app.quit]x[/]" + "\u0301" * 30


@pytest.fixture(scope="module")
def places() -> dict[str, Place]:
    """The table of keys by place."""
    return {place.name: place for place in key_table(WorkbenchApp)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hostile project with a hostile name."""
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / f"evil{NAME[:30]}.wb"
    hostile.make(path, folder)
    with Project.open(path) as opened:
        cluster(opened)
    return path


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(made, tmp_path))


@pytest.fixture(autouse=True)
def no_fault_in_the_log() -> Iterator[None]:
    """Whatever happens on the screens, the log holds no fault of the program."""
    yield
    log = Path(os.environ["WORKBENCH_CACHE"]) / "logs" / "workbench.log"
    written = log.read_text() if log.exists() else ""
    assert "Traceback" not in written, written


def keys_of(places: dict[str, Place], *names: str) -> list[str]:
    """The keys of places as a terminal sends them, without those that leave the program."""
    sent_keys = [
        typed(key)
        for name in names
        for action in places[name].actions
        if action.action not in LEAVES | JOBS
        for key in action.keys
        if key not in ("q", "escape")
    ]
    return list(dict.fromkeys(key for key in sent_keys if key is not None))


def test_every_key_of_the_reader(places: dict[str, Place], project: Path) -> None:
    """Each key of the reader opens or does what it does on hostile text, and no control of it reaches the terminal."""
    with Session(str(project), rows=24, columns=80) as session:
        session.wait("What is here")
        session.press("2", "j", "\r")
        reader = session.screen.lines()[0]
        for key in keys_of(places, "reader", "transcript", "text-pane", "screen"):
            if session.screen.lines()[0] != reader:
                session.press("2", "j", "\r")
            session.press(key)
            session.paste(PASTED)
            session.press("\x1b")
        copied = session.screen.copied
        # `y` copies on purpose: names, or whole messages and logs, of records as a line of JSON.
        known = "\n".join(f"{name} {payload}" for name, payload in PAYLOADS.items())
        short = [text for text in copied if "\n" not in text and not text.startswith('{"id": "')]
        assert [text for text in short if text not in known] == []


def test_hostile_words_of_the_person(project: Path) -> None:
    """A filter, a tag and a note that were pasted are shown wherever they come back, and do not act."""
    with Session(str(project), rows=40, columns=120) as session:
        session.wait("What is here")
        session.press("2", "f")
        session.paste(PASTED)
        session.press("\x1b", "\x1b", "t")
        session.paste(PASTED)
        session.press("\r", "3", "n")
        session.paste(PASTED)
        session.press("\r", "2", "1", ":")
        session.paste(PASTED)
        session.press("\x1b")
        assert session.screen.copied == []
