"""`python -m tests`: every check in order, the quick ones first; stops at the first that fails."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent
CHECKS = (
    "ruff format --check",
    "ruff check",
    "lint-imports --no-logo",
    "mypy",
    "pytest --numprocesses auto --dist loadfile",
)


def main(words: list[str]) -> int:
    """Runs the checks, pytest last and with `words` added; returns the exit code of the first that fails, or 0."""
    for check in CHECKS:
        name, *options = shlex.split(check)
        if name == "pytest":
            options += words
        sys.stdout.write(f"== {shlex.join([name, *options])}\n")
        sys.stdout.flush()
        done = subprocess.run(
            [str(TOOLS / name), *options],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
