"""What surrounds the program: its standard streams, its terminal, and the signals that end it.

Standard streams may be closed or full: a result that is lost is an error, lost narration is none.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import FrameType
from typing import Literal, TextIO

from engine.base.errors import OutputLost, UsageError


class Output(TextIOWrapper):
    """Standard output.

    Attributes:
        lost: The error by which output was lost; None if all was written.
        unread: Whether that is because the program that reads it has ended, as `head` does, which is no fault.
    """

    lost: OutputLost | None = None
    unread = False

    def write(self, text: str) -> int:
        """Writes a text.

        Raises:
            OutputLost: It cannot be written.
        """
        try:
            return super().write(text)
        except OSError as error:
            raise self._failed(error) from error

    def flush(self) -> None:
        """Writes what is waiting.

        Raises:
            OutputLost: It cannot be written.
        """
        try:
            super().flush()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> OutputLost:
        """Returns what to raise; nothing that waits is written any more, not even when the program ends."""
        self.unread = self.unread or isinstance(error, BrokenPipeError)
        closed = error.errno == errno.EBADF
        reason = "is closed" if closed else f"cannot be written: {error.strerror}"
        self.lost = self.lost or OutputLost(f"Standard output {reason}.")
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), self.fileno())
        return self.lost


class Narration(TextIOWrapper):
    """Standard error, which may be lost: what a command does is not stopped for it."""

    def write(self, text: str) -> int:
        """Writes a text if it can be written."""
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Writes what is waiting if it can be written."""
        with suppress(OSError):
            super().flush()


@contextmanager
def checked_streams() -> Iterator[Output | None]:
    """Makes standard output an `Output` and standard error a `Narration` in the block. Yields the former; None where
    it is no text stream of the system, as in some tests."""
    _open_closed()
    out, err = sys.stdout, sys.stderr
    output = None
    if isinstance(out, TextIOWrapper):
        sys.stdout = output = Output(
            out.buffer,
            out.encoding,
            out.errors,
            line_buffering=out.line_buffering,
            write_through=out.write_through,
        )
    if isinstance(err, TextIOWrapper):
        sys.stderr = Narration(err.buffer, err.encoding, err.errors, line_buffering=True)
    try:
        yield output
    finally:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, Output | Narration):
                with suppress(OutputLost):
                    stream.detach()
        sys.stdout, sys.stderr = out, err


def _open_closed() -> None:
    """Opens the standard streams that were closed when the program began, so that no other file gets their numbers: a
    library that prints would write into it. What is written to standard output then fails, and all that is read is
    empty."""
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
    sys.stdin = sys.stdin or _stream(0, "r")
    sys.stdout = sys.stdout or _stream(1, "w")
    sys.stderr = sys.stderr or _stream(2, "w")


def _stream(number: int, mode: Literal["r", "w"]) -> TextIO:
    """Opens a standard stream by its number."""
    return open(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)


# Terminals


def on_terminal() -> bool:
    """Returns whether standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_terminal() -> None:
    """Refuses to draw screens where nobody sees them or can press a key: they would never end.

    Raises:
        UsageError: Standard input or output is no terminal.
    """
    if not on_terminal():
        raise UsageError(
            "The screens need a terminal, and standard input or output is none.",
            "`workbench status PROJECT`, `list` and the other commands need none.",
        )


# Signals: SIGTERM and SIGHUP (a terminal that closes, a dropped ssh) end the program as ctrl+c does.

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end the program."""

ECHO_SECONDS = 1.0
"""A signal this soon after another belongs to it: the system and the shell both tell that a terminal closed. It must
not cut short what the first one makes the program clean up."""


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """Lets these signals raise KeyboardInterrupt in the block; one that the program was started to ignore, as by nohup,
    stays ignored."""
    last = -ECHO_SECONDS

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt, unless the signal belongs to the last one."""
        nonlocal last
        now = time.monotonic()
        if now - last >= ECHO_SECONDS:
            last = now
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
