"""The real program on a real terminal: keys in, and out only what `tests.terminal.output` accepts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.terminal.output import Screen
from workbench.bench.terminal import Terminal

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 60.0
"""After so long what is waited for never comes; far more than it takes."""
QUIET = 0.15
"""A program that wrote nothing for so long waits for a key."""


class Session:
    """`workbench WORDS` on a terminal of its own; use it as a context manager."""

    def __init__(self, *words: str, rows: int = 24, columns: int = 80) -> None:
        self.terminal = Terminal(
            [sys.executable, "-m", "workbench", *words],
            rows=rows,
            columns=columns,
            cwd=str(REPOSITORY),
        )
        self.screen = Screen(rows, columns)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminal.close()

    def wait(self, what: Callable[[str], bool] | str) -> str:
        """Waits for a text on the screen, or until `what(screen)`; returns the screen.

        Raises:
            AssertionError: It never came, with what is seen instead.
        """
        condition = (lambda seen: what in seen) if isinstance(what, str) else what
        end = time.monotonic() + SECONDS
        while not condition(self.screen.text()) or self.screen.unfinished:
            if not self._take(0.5) and (time.monotonic() > end or self.ended):
                raise AssertionError(f"never came: {what!r}\n{self.screen.text()}")
        return self.screen.text()

    def settle(self) -> str:
        """Waits until nothing is written any more; returns the screen."""
        end = time.monotonic() + SECONDS
        while self._take(QUIET):
            assert time.monotonic() < end, f"it never comes to rest\n{self.screen.text()}"
        return self.screen.text()

    def press(self, *keys: str) -> str:
        """Types keys, each when the one before has had its effect; returns the screen."""
        for key in keys:
            self.terminal.press(key.encode("utf-8", "surrogateescape"))
            self.settle()
        return self.screen.text()

    def paste(self, text: str) -> str:
        """Pastes as a terminal does, in brackets; returns the screen."""
        return self.press(f"\x1b[200~{text}\x1b[201~")

    def end(self) -> int:
        """Reads to the end of the program and returns its exit status."""
        end = time.monotonic() + SECONDS
        while not self.ended or self._take(0.0):
            self._take(0.2)
            assert time.monotonic() < end, f"it does not end\n{self.screen.text()}"
        return self.terminal.status or 0

    @property
    def ended(self) -> bool:
        """Whether the program has ended."""
        return self.terminal.status is not None

    def _take(self, seconds: float) -> bool:
        more = self.terminal.read(seconds)
        self.screen.feed(more)
        return bool(more)


def said(*words: str, rows: int = 24, columns: int = 80) -> tuple[int, Screen]:
    """Runs a command to its end and returns its exit status and the terminal it spoke to."""
    with Session(*words, rows=rows, columns=columns) as session:
        return session.end(), session.screen


KEYS: Sequence[str] = [chr(code) for code in range(0x21, 0x7F)]
"""Every key that prints."""
