"""Standard streams that are closed or full: a result that is lost is an error, lost narration is none."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Literal, TextIO

from engine.base.errors import OutputLost


class Output(TextIOWrapper):
    """Standard output.

    Attributes:
        lost: Why something of it is lost; None so far.
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
        """What to raise; nothing that waits is written any more, not even when the program ends."""
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
def checked() -> Iterator[Output | None]:
    """Standard output and standard error are such streams in the block; the first is given, None where it is no text
    stream of the system, as in some tests."""
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
    return open(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
