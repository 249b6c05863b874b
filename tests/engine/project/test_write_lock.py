"""Two programs on one project."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.base.errors import ProjectLocked, ProjectReadOnly
from engine.project import settings
from engine.project.project import Project
from engine.project.write_lock import WriteLock
from tests.engine.project.support import REPOSITORY, in_child

HOLD = """
import sys, time
from engine.project.project import Project
project = Project.open(sys.argv[1], create=True)
print("open", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[bytes]:
    """Another process that has the project open for writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "p.wb")],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def test_the_second_opens_read_only_and_says_who_writes(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    """A project that another process writes opens read-only, names that process, and can be read."""
    try:
        with Project.open(tmp_path / "p.wb", create=True) as project:
            assert project.read_only == f"another workbench (pid {holder.pid}) is writing it"
            assert project.read(settings.get, "x", "none") == "none"
            with pytest.raises(ProjectReadOnly, match=f"pid {holder.pid}"):
                project.write(lambda conn: settings.put(conn, "x", 1))
        assert (tmp_path / "p.wb.lock").exists()  # still the other one's
    finally:
        holder.kill()
        holder.wait()


def test_the_lock_of_a_dead_process_does_not_matter(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    """A lock file that is left behind by a killed process does not prevent the next writer."""
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "p.wb.lock").exists()
    with Project.open(tmp_path / "p.wb") as project:
        assert project.read_only is None
        project.write(lambda conn: settings.put(conn, "x", 1))
    assert [p.name for p in tmp_path.iterdir()] == ["p.wb"]


def test_a_child_that_was_being_started_passes_the_lock_on(tmp_path: Path) -> None:
    """A holder that is killed while it starts a child leaves the lock to the child for a moment; the next
    writer waits.
    """
    starting = HOLD.replace(
        "time.sleep(600)",
        'import os; child = os.fork() == 0; print("forked", flush=True); time.sleep(0.4 if child else 600)',
    )
    process = subprocess.Popen(
        [sys.executable, "-c", starting, str(tmp_path / "p.wb")],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in ("open", "forked, the one", "forked, the other"):
        process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    with Project.open(tmp_path / "p.wb") as project:
        assert project.read_only is None


def test_two_names_of_one_file_are_one_project(tmp_path: Path) -> None:
    """A symbolic link does not let a second writer in."""
    with Project.open(tmp_path / "p.wb", create=True):
        (tmp_path / "link.wb").symlink_to(tmp_path / "p.wb")
        with Project.open(tmp_path / "link.wb") as second:
            assert second.read_only == f"another workbench (pid {os.getpid()}) is writing it"


def test_never_two_holders(tmp_path: Path) -> None:
    """Processes that take and release the lock as fast as possible never hold it together. Each holder creates a file
    that must not exist and removes it again; what makes this hard is that releasing removes the lock file.
    """
    witness = tmp_path / "held"
    deadline = time.monotonic() + 1.0

    def contend(seed: int) -> int:
        rng = random.Random(seed)
        held = 0
        while time.monotonic() < deadline:
            lock = WriteLock(str(tmp_path / "p.wb"))
            try:
                lock.acquire()
            except ProjectLocked:
                continue
            os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
            for _ in range(rng.randrange(50)):
                pass
            witness.unlink()
            held += 1
            lock.release()
        return held

    def family() -> list[int]:
        pipes = []
        for seed in range(4):
            reading, writing = os.pipe()
            if os.fork() == 0:
                try:
                    os.write(writing, str(contend(seed)).encode())
                except OSError as error:
                    os.write(writing, f"-1 {error}".encode())
                os._exit(0)
            os.close(writing)
            pipes.append(reading)
        return [int(os.read(pipe, 100).split()[0]) for pipe in pipes]

    held = in_child(family)
    assert -1 not in held
    assert sum(held) > 0
    assert not (tmp_path / "p.wb.lock").exists()
