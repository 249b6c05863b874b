"""`python -m tests`: every check, the quick ones first, the slow ones together; stops at the first that fails."""

from __future__ import annotations

import os
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
"""Each takes one core; its output is printed when it has ended."""
TRAINING = "pytest --numprocesses 0 -p no:cacheprovider tests/training"
"""The tests that import PyTorch, in one process: each process of the others would import it too, only to collect."""
COLLECT = "pytest --collect-only -qq --ignore=tests/training"
# Files of tests are handed out in the order in which they were collected, the longest first: see conftest.py.
# One that fails runs once more, and the summary names it (R): tests that wait for processes share two cores.
TESTS = "pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --reruns 1 -rR"


def main(words: list[str]) -> int:
    """Runs the checks, pytest with `words` added; returns the exit code of the first that fails, or 0."""
    # The tests start hundreds of processes; without compiled modules each of them compiles the program anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for check in QUICK:
        _print(check)
        if code := _start(check).wait():
            return code
    if words:
        return _run_together([*shlex.split(TESTS), *words], SLOW)
    return _run_together([*shlex.split(TESTS), "--ignore=tests/training"], (*SLOW, TRAINING))


def _run_together(tests: Sequence[str], checks: Sequence[str]) -> int:
    """Runs checks beside the tests, which print as they go; interrupts the rest when one has failed."""
    running: dict[subprocess.Popen[bytes], tuple[str, IO[bytes] | None]] = {}
    for check in checks:
        report = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the check runs
        running[_start(check, report)] = check, report
    if not (REPOSITORY / ".pytest_cache").exists():
        # In a fresh clone nothing is compiled: each of the processes below would compile every module anew.
        with tempfile.TemporaryFile() as names:
            _start(COLLECT, names).wait()
    _print(shlex.join(tests))
    running[_start(shlex.join(tests))] = "", None
    code = 0
    while running:
        time.sleep(0.2)
        for process in [process for process in running if process.poll() is not None]:
            check, output = running.pop(process)
            if output is not None:
                _print(f"{check}, beside the tests", output)
            if process.returncode and not code:
                code = process.returncode
                for other in running:
                    other.send_signal(signal.SIGINT)
    return code


def _start(check: str, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    name, *options = shlex.split(check)
    return subprocess.Popen(
        [str(TOOLS / name), *options],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output is not None else None,
    )


def _print(check: str, output: IO[bytes] | None = None) -> None:
    sys.stdout.write(f"== {check}\n")
    if output is not None:
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
        output.close()
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
