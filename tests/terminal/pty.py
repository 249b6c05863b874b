"""The real program on a real terminal: keys in, and out only what `tests.terminal.output` accepts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios
import time
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from tests.terminal.output import ForbiddenOutput, Screen
from tests.terminal.terminal import Terminal
from workbench.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 60.0
"""Longest wait, far longer than anything takes."""
QUIET = 0.03
"""A program that twice wrote nothing for this long, and had no thread that ran after it, waits for a key: a terminal
reads an escape for up to 20 ms as the beginning of a longer key."""


_NAMED = {
    "enter": "\r", "escape": "\x1b", "tab": "\t", "space": " ", "backspace": "\x7f", "shift+tab": "\x1b[Z",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
    "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "slash": "/", "backslash": "\\", "minus": "-", "at": "@",
    "underscore": "_", "plus": "+",
}  # fmt: skip


class Session:
    """`workbench WORDS` on a terminal of its own, in a temporary folder of its own, where what keys write under a name
    lands; use it as a context manager."""

    def __init__(self, *words: str, rows: int = 24, columns: int = 80) -> None:
        self._folder = TemporaryDirectory(prefix="session-")
        path = [str(REPOSITORY), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        self.terminal = Terminal(
            [sys.executable, "-m", "workbench", *words],
            rows=rows,
            columns=columns,
            cwd=self._folder.name,
            env={
                "PYTHONPATH": os.pathsep.join(filter(None, path)),
                # An escape is known to be no beginning of a longer key sooner than people need.
                "ESCDELAY": "20",
                "PAGER": "cat",
                "EDITOR": "cat",
            },
        )
        self.screen = Screen(rows, columns)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminal.close()
        self._folder.cleanup()

    def wait(self, what: Callable[[str], bool] | str) -> str:
        """Waits for a text on the screen, or until `what(screen)`; returns the screen.

        Raises:
            AssertionError: It never came, with what is seen instead.
        """
        condition = (lambda seen: what in seen) if isinstance(what, str) else what
        end = time.monotonic() + SECONDS
        while not condition(self.screen.text()) or self.screen.unfinished:
            if not self.take(0.5) and (time.monotonic() > end or self.ended):
                raise AssertionError(f"never came: {what!r}\n{self.screen.text()}")
        return self.screen.text()

    def settle(self) -> str:
        """Waits until nothing is written any more and no thread of the program runs or waits for a processor, however
        busy the machine is; returns the screen."""
        end, quiet = time.monotonic() + SECONDS, 0
        while quiet < 2:
            quiet = 0 if self.take(QUIET) or _runs(self.terminal.pid) else quiet + 1
            assert time.monotonic() < end, f"it never comes to rest\n{self.screen.text()}"
        return self.screen.text()

    def press(self, *keys: str) -> str:
        """Types keys, each when the one before has had its effect; returns the screen."""
        for key in keys:
            self.terminal.press(key.encode("utf-8", "surrogateescape"))
            self.settle()
            assert not self.ended, f"it ended at {key!r}\n{self.screen.text()}"
        return self.screen.text()

    def paste(self, text: str) -> str:
        """Pastes as a terminal does, in brackets; returns the screen."""
        return self.press(f"\x1b[200~{text}\x1b[201~")

    def end(self) -> int:
        """Reads to the end of the program and returns its exit status."""
        end = time.monotonic() + SECONDS
        while not self.ended or self.take(0.0):
            self.take(0.2)
            assert time.monotonic() < end, f"it does not end\n{self.screen.text()}"
        return self.terminal.status or 0

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self.terminal.status is not None

    def take(self, seconds: float) -> bool:
        """Reads what is written next, waiting so many seconds at most; whether there was anything.

        Raises:
            Refused: It is nothing that a program may write.
        """
        more = self.terminal.read(seconds)
        try:
            self.screen.feed(more)
        except ForbiddenOutput as refused:
            raise ForbiddenOutput(f"{refused}, on\n{self.screen.text()}") from None
        return bool(more)


def _runs(pid: int) -> bool:
    """Whether a thread of a process runs, waits for a processor or waits for a disk; False where there is no /proc."""
    for status in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if status.read_text().rsplit(")", 1)[1].split()[0] in "RD":
                return True
    return False


def said(*words: str, rows: int = 24, columns: int = 80) -> tuple[int, Screen]:
    """Runs a command to its end and returns its exit status and the terminal it spoke to. The command is a fork of this
    process, which saves a second of imports."""
    pid, ours = pty.fork()
    if pid == 0:
        _run_forked(words, rows, columns)
    screen = Screen(rows, columns)
    # Reading raises OSError once the other end of the terminal is closed.
    with open(ours, "rb", buffering=0) as output, contextlib.suppress(OSError):
        while more := output.read(1 << 16):
            screen.feed(more)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen


def _run_forked(words: Sequence[str], rows: int, columns: int) -> NoReturn:
    """Runs a command on the terminal that this new process has as its standard streams, and ends the process."""
    code = 1
    try:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
        code = main(words)
        sys.stdout.flush()
    finally:
        os._exit(code)


def typed(key: str) -> str | None:
    """What a terminal sends for a key that Textual names so; None where it needs more than a byte or is not sent."""
    if len(key) == 1:
        return key
    if key in _NAMED:
        return _NAMED[key]
    if key.startswith("ctrl+") and len(key) == 6:
        return chr(ord(key[-1]) - 96)
    try:
        return unicodedata.lookup(key.replace("_", " ").upper())
    except KeyError:
        return None
