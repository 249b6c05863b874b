"""Commands in surroundings that are not as usual: a terminal without UTF-8, a home that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.project.project import Project
from tests.engine.project.support import fill, talk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A project with a Chinese conversation."""
    with Project.open(tmp_path / "p.wb", create=True) as project:
        fill(project, [talk("a", "问题 é question", "answer – done")])
    return tmp_path / "p.wb"


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "workbench", *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("words", [("list", "--json"), ("export", "conversations")])
def test_programs_without_utf8(path: Path, words: tuple[str, str]) -> None:
    """What programs read is UTF-8 whatever the terminal has: the numbers of characters are no JSON."""
    done = run(words[0], path, words[1], LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0
    assert "问题 é" in done.stdout.decode("utf-8")
    assert json.loads(done.stdout)


def test_home_that_cannot_be_written(path: Path) -> None:
    """A command that needs folders of its own says which one cannot be written and what to set."""
    done = run("run", "check", path, WORKBENCH_CACHE="/proc/none")
    assert done.returncode == 1
    assert b"/proc/none" in done.stderr
    assert b"WORKBENCH_CACHE" in done.stderr
    assert b"Traceback" not in done.stderr


def test_little_room_for_a_computation(path: Path) -> None:
    """Where `ulimit -v` leaves too little for a computation, it is refused with the limit and what is needed, instead
    of a wait without end."""
    limited = 'ulimit -v 532480; exec "$@"'
    command = [sys.executable, "-m", "workbench", "run", "cluster", str(path), "--no-labels"]
    done = subprocess.run(
        ["sh", "-c", limited, "sh", *command],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"may use 520 MiB of address space" in done.stderr
    assert b"1 thread needs 640 MiB" in done.stderr
    assert b"(OutOfMemory:" in done.stderr
