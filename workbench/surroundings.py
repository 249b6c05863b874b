"""Handles the surroundings of the program: its standard streams, its terminal, and the signals that end it.

Standard streams may be closed or full. A result that cannot be written is an error; narration that cannot be written is
dropped.
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
        lost: The error for output that could not be written; None if all was written. Its cause is a BrokenPipeError
            where the reader has ended, as `head` does, which is no fault.
    """

    lost: OutputLost | None = None

    def write(self, text: str) -> int:
        """Writes a text and returns its length.

        Raises:
            OutputLost: The text cannot be written.
        """
        try:
            return super().write(text)
        except OSError as error:
            raise self._note_loss(error) from error

    def flush(self) -> None:
        """Writes the buffered output.

        Raises:
            OutputLost: It cannot be written.
        """
        try:
            super().flush()
        except OSError as error:
            raise self._note_loss(error) from error

    def _note_loss(self, error: OSError) -> OutputLost:
        """Notes that output was lost and returns the error for it; buffered output is dropped from now on."""
        closed = error.errno == errno.EBADF
        reason = "is closed" if closed else f"cannot be written: {error.strerror}"
        self.lost = self.lost or OutputLost(f"Standard output {reason}.")
        with open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), self.fileno())
        return self.lost


class Narration(TextIOWrapper):
    """Standard error; text that cannot be written is dropped, and the command goes on."""

    def write(self, text: str) -> int:
        """Writes a text if it can be written; returns its length."""
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Writes the buffered text if it can be written."""
        with suppress(OSError):
            super().flush()


@contextmanager
def checked_streams() -> Iterator[Output | None]:
    """Makes standard output an `Output` and standard error a `Narration` in the block; yields the `Output`.

    Yields None where standard output is no text stream of the system, as in some tests.
    """
    _open_closed_streams()
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


def _open_closed_streams() -> None:
    """Opens the standard streams that were closed when the program began.

    Otherwise another file would get the number of a stream, and a library that prints would write into the file.
    Writing to an opened standard output fails, and reading from an opened standard input gives nothing.
    """
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
    """Returns a text stream for a standard stream, given by its number."""
    return open(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)


# Terminals


def on_terminal() -> bool:
    """Returns whether standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def require_terminal() -> None:
    """Raises UsageError if standard input or output is no terminal: screens that nobody sees would never end."""
    if not on_terminal():
        raise UsageError(
            "The screens need a terminal, and standard input or output is none.",
            "`workbench status PROJECT`, `list` and the other commands need none.",
        )


# Signals: SIGTERM and SIGHUP (a terminal that closes, a dropped ssh) end the program as ctrl+c does.

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""The signals that end the program as ctrl+c does."""

ECHO_SECONDS = 1.0
"""Seconds within which a second signal is an echo of the first one and is ignored: the system and the shell both send
one when a terminal closes. An echo must not interrupt what the program does to end in order."""


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """Makes `ENDING_SIGNALS` raise KeyboardInterrupt in the block.

    A signal that the program was started to ignore, as by nohup, stays ignored.
    """
    last = -ECHO_SECONDS

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Raises KeyboardInterrupt, unless the signal is an echo of the last one."""
        nonlocal last
        now = time.monotonic()
        if now - last >= ECHO_SECONDS:
            last = now
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
