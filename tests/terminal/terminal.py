"""Runs a program on a pseudo-terminal: types keys, reads its output, and measures the time."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

_ASKS_FOR_FRAMES = b"\x1b[?2026$p"
_FRAMES_KNOWN = b"\x1b[?2026;2$y"


class Terminal:
    """Runs a command on a pseudo-terminal that knows synchronised frames. Close it, or use it as a context manager.

    Attributes:
        output: All bytes written so far.
        started, last: When the command was started and when the newest bytes came, in `time.perf_counter` seconds.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        rows: int = 40,
        columns: int = 120,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        modes = termios.tcgetattr(theirs)
        modes[3] &= ~termios.ECHO  # no echo: typed keys must not appear in the output
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        self.output = bytearray()
        self.started = self.last = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            cwd=cwd,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                **(env or {}),
            },
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id of the command."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status; None while it runs."""
        return self._process.poll()

    def press(self, keys: str | bytes) -> None:
        """Types, as a terminal sends it: `\\r` is enter, `\\x1b` escape."""
        os.write(self._ours, keys.encode() if isinstance(keys, str) else keys)

    def read(self, seconds: float) -> bytes:
        """The next bytes, waiting at most `seconds`; empty when none came or the program has ended."""
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            more = os.read(self._ours, 1 << 16)
        except OSError:  # reading raises this once the other end of the terminal is closed
            return b""
        if more:
            self.last = time.perf_counter()
            asked = self.output[-len(_ASKS_FOR_FRAMES) + 1 :] + more
            self.output += more
            if _ASKS_FOR_FRAMES in asked:
                self.press(_FRAMES_KNOWN)
        return more

    def until(self, what: Callable[[bytes], bool], seconds: float) -> bool:
        """Reads until `what(output)`; False when the time was over or the program ended before."""
        end = time.perf_counter() + seconds
        while not what(bytes(self.output)):
            left = end - time.perf_counter()
            if left <= 0 or (not self.read(left) and self.status is not None):
                return what(bytes(self.output))
        return True

    def hang_up(self) -> None:
        """Closes the terminal under the program, as a window that closes does."""
        os.close(self._ours)
        self._ours = os.open(os.devnull, os.O_RDWR)

    def wait(self, seconds: float) -> int:
        """Reads until the program has ended, at most so many seconds, and returns its exit status.

        Raises:
            subprocess.TimeoutExpired: It runs still.
        """
        end = time.perf_counter() + seconds
        while self.status is None and time.perf_counter() < end:
            self.read(0.05)
        return self._process.wait(0)

    def close(self) -> None:
        """Ends the program and the terminal."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)
