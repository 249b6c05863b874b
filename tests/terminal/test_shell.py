"""The shell on a real terminal: suspension, and the choice of a project."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.terminal.output import Screen
from tests.terminal.pty import SECONDS, Session
from workbench.launcher import Preferences


def test_suspended_and_brought_back(tmp_path: Path) -> None:
    """`ctrl+z` gives the terminal back and stops the program; continued, it draws everything again."""
    with Session(str(tmp_path / "a.wb"), "--create") as session:
        session.wait("What is here")
        session.settle()
        session.terminal.press(b"\x1a")
        end, stopped = time.monotonic() + SECONDS, False
        while not stopped:
            session.settle()
            pid, status = os.waitpid(session.terminal.pid, os.WNOHANG | os.WUNTRACED)
            stopped = pid != 0 and os.WIFSTOPPED(status)
            assert time.monotonic() < end, "it was never stopped"

        session.screen = Screen(24, 80)  # a shell wrote over everything meanwhile
        os.kill(session.terminal.pid, signal.SIGCONT)
        session.wait("What is here")
        session.wait("Import conversations")
        session.terminal.press(b"q")
        assert session.end() == 0


def test_project_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without words the program lists the projects that were open, the newest first, and opens the chosen one."""
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "config"))
    with Session(str(tmp_path / "october.wb"), "--theme", "light") as session:
        session.wait("Make a new project? [y/N]")
        session.terminal.press(b"y\r")
        session.wait("What is here")
        session.terminal.press(b"q")
        assert session.end() == 0
    (entry,) = Preferences(tmp_path / "config" / "preferences.json").read()[0].recent
    assert entry.path == str(tmp_path / "october.wb")

    with Session() as session:
        session.wait("october.wb")
        session.terminal.press(b"\r")
        session.wait("What is here")
        session.terminal.press(b"q")
        assert session.end() == 0
