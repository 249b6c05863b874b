"""Commands in processes that are forked from the campaign's own, which has run such commands before.

A command then starts in milliseconds, with everything imported and its tables read, so that a random moment falls on
its work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from workbench.cli import main

POLL_S = 0.002


def run_here(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
    """Runs a command in this process and returns its exit code; what it prints is added to `stdout.jsonl` and
    `stderr.txt` in the folder."""
    with (
        (folder / "stdout.jsonl").open("a", encoding="utf-8") as out,
        (folder / "stderr.txt").open("a", encoding="utf-8") as err,
        redirect_stdout(out),
        redirect_stderr(err),
        patch.dict(os.environ, environment),
    ):
        return main(words)


class ForkedCommand:
    """A command in a session of its own; as far as it is needed here, used as `subprocess.Popen` is.

    Attributes:
        pid: Id of its process.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        """Starts `workbench` with these words; what it prints is added to `stdout.jsonl` and `stderr.txt` in the
        folder."""
        self._code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _be(words, environment, folder)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: It still runs after so many seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self._code = os.waitstatus_to_exitcode(status)
            elif end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired("workbench", timeout or 0.0)
            else:
                time.sleep(POLL_S)
        return self._code

    def kill(self) -> None:
        """Kills it."""
        os.kill(self.pid, signal.SIGKILL)


def _be(words: Sequence[str], environment: Mapping[str, str], folder: Path) -> NoReturn:
    """Makes this process, just forked, the command."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        code = run_here(words, environment, folder)
    except BaseException:  # noqa: BLE001 - nothing of the campaign may go on in here
        with (folder / "stderr.txt").open("a", encoding="utf-8") as err:
            traceback.print_exc(file=err)
    finally:
        os._exit(code)
