"""A project to train on, and the trainer that only writes events."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.project.project import Project
from engine.training import base
from engine.training.config import TrainConfig
from engine.training.events import read_events
from engine.training.process import Grace, Trainers
from engine.training.run_directory import RunDirectory, is_running
from engine.training.run_files import all_runs, runs_folder
from tests.engine.project.support import fill, talk
from tests.engine.training import fake_trainer

QUICK = Grace(stop=0.3, term=0.3, poll=0.02)
SECONDS = 300.0
"""How long a test waits for a process; only one that fails waits so long."""


def fill_with_talks(project: Project, count: int = 40) -> None:
    """Imports conversations of three turns, with truth that must not leave the project."""
    fill(
        project,
        [
            talk(
                f"talk/{n}",
                f"I want to fly to place {n}.",
                "When?",
                "On Monday.",
                "Booked. Anything else?",
                "No.",
                "Have a nice flight.",
                truth={"reward": 1.0, "goal": "SECRET-GOAL"},
            )
            for n in range(count)
        ],
    )


@contextlib.contextmanager
def talks(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project of forty conversations; processes of its runs are killed after the test."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    with Project.open(path, create=True) as opened:
        fill_with_talks(opened)
    # What is free on the machine that tests must not decide whether a trainer that computes nothing starts.
    monkeypatch.setattr(base, "available_memory", lambda: None)
    yield path
    for run in all_runs(path):
        fake_trainers().kill(run)
        wait_for_end(run)


def bare_run(project: Path, name: str = "run-1") -> RunDirectory:
    """A run directory with a config and no data."""
    run = RunDirectory(runs_folder(project) / name)
    run.path.mkdir(parents=True)
    TrainConfig(base="base.gguf", base_name="tiny").save(run.config)
    return run


def fake_trainers() -> Trainers:
    """Runs start the trainer that computes nothing, with short waits."""
    return Trainers((sys.executable, fake_trainer.__file__), QUICK, gpus=lambda: 0)


def steps(run: RunDirectory) -> int:
    """The number of step events of a run."""
    return sum(event["event"] == "step" for event in read_events(run.events)[0])


def wait_for(what: Callable[[], object], seconds: float = SECONDS) -> None:
    """Waits until a condition holds; fails after a long time."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def wait_for_end(run: RunDirectory) -> None:
    """Waits until no process works on a run."""
    wait_for(lambda: not is_running(run))
