"""The training screen in tests: a project with three runs, and what is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.model.service.run_setup import use_adapter
from engine.training.run_directory import RunDirectory
from screens.training import screen
from screens.training.screen import TrainingScreen
from tests.screens.driving import lines, settle
from tests.screens.project import ScreenProject, project
from tests.screens.training.training_runs import fail, finish, write_run

RUNNING, FINISHED, FAILED = "support-v4", "support-v3", "too-big"


def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No timer reads runs again, since what polls without end never settles."""
    monkeypatch.setattr(screen, "POLL_SECONDS", 3600.0)


def path_of(support: ScreenProject) -> Path:
    """Where the project file is, or was."""
    return Path(support.file.path)


def trained(*, used: str | None = FINISHED) -> ScreenProject:
    """A project with a run that is running, one that is finished and perhaps in use, and one that failed."""
    support = project()
    path = path_of(support)
    running(support, RUNNING, 412)
    finish(write_run(path, FINISHED))
    fail(
        write_run(path, FAILED, 3, created_at="2026-10-29T08:00:00+00:00", base_name="Qwen3-0.6B"),
        "The GPU has no memory left: 25.1 GB were asked for.",
        "Lower rows (now 8), or set recompute=true.",
    )
    if used is not None:
        use_adapter(support.file, used)
    return support


def running(support: ScreenProject, name: str, step: int) -> RunDirectory:
    """A run that is running, at this step."""
    run = write_run(path_of(support), name, step, created_at="2026-10-31T08:00:00+00:00")
    support.trainers.hold(run)
    return run


def directory(support: ScreenProject, name: str) -> RunDirectory:
    """The directory of a run."""
    return support.training.directories.history(name).run


def in_front(pilot: Pilot[None]) -> TrainingScreen:
    """The screen in front, which is that of training."""
    front = pilot.app.screen
    assert isinstance(front, TrainingScreen)
    return front


def row(pilot: Pilot[None], name: str) -> str:
    """The line of the list that begins with this name."""
    return next(line for line in lines(pilot) if line[1:].lstrip("◉ ").startswith(name))


async def read_again(pilot: Pilot[None]) -> None:
    """Lets the screen read the runs again."""
    in_front(pilot).refresh_data()
    await settle(pilot)


async def poll(pilot: Pilot[None]) -> None:
    """What the timer of the screen does."""
    for shown in pilot.app._screen_stacks["training"]:
        assert isinstance(shown, TrainingScreen)
        shown.poll()
    await settle(pilot)
