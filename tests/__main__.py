"""`python -m tests`: every check, the quick ones first, the slow ones together; stops at the first that fails."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent
QUICK = ("ruff format --check", "ruff check")
SLOW = ("lint-imports --no-logo", "mypy")
"""Each takes one core and says little; what they say is told when they have ended."""
# Files of tests are handed out in the order in which they were collected, the longest first: see conftest.py.
TESTS = "pytest --numprocesses auto --dist loadfile --no-loadscope-reorder"


def main(words: list[str]) -> int:
    """Runs the checks, pytest with `words` added; returns the exit code of the first that fails, or 0."""
    for check in QUICK:
        _tell(check)
        if code := _started(check).wait():
            return code
    return _together([*shlex.split(TESTS), *words])


def _together(tests: Sequence[str]) -> int:
    """Runs the slow checks and the tests, which speak as they go; interrupts the rest when one has failed."""
    _tell(shlex.join(tests))
    running: dict[subprocess.Popen[bytes], tuple[str, IO[bytes] | None]] = {}
    for check in SLOW:
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the check runs
        running[_started(check, kept)] = check, kept
    running[_started(shlex.join(tests))] = "", None
    code = 0
    while running:
        time.sleep(0.2)
        for process in [process for process in running if process.poll() is not None]:
            check, said = running.pop(process)
            if said is not None:
                _tell(f"{check}, beside the tests", said)
            if process.returncode and not code:
                code = process.returncode
                for other in running:
                    other.send_signal(signal.SIGINT)
    return code


def _started(check: str, said: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    name, *options = shlex.split(check)
    return subprocess.Popen(
        [str(TOOLS / name), *options],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT if said is not None else None,
    )


def _tell(check: str, said: IO[bytes] | None = None) -> None:
    sys.stdout.write(f"== {check}\n")
    if said is not None:
        said.seek(0)
        sys.stdout.write(said.read().decode(errors="replace"))
        said.close()
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
