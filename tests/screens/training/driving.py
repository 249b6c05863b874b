"""The training screen in tests: three runs, and what stands on it."""

from __future__ import annotations

from textual.pilot import Pilot

from screens.training.screen import TrainingScreen
from tests.screens.driving import lines
from tests.screens.fakes import FakeProject, project
from tests.screens.training.fake_training import FAILED, run, running


def trained() -> FakeProject:
    """A run that works, one that is done and in use, one that failed."""
    fake = project()
    fake.training.given = [running(), run(in_use=True), FAILED]
    return fake


def in_front(pilot: Pilot[None]) -> TrainingScreen:
    """The screen in front, which is that of training."""
    screen = pilot.app.screen
    assert isinstance(screen, TrainingScreen)
    return screen


def row(pilot: Pilot[None], name: str) -> str:
    """The line of the list that begins with this name."""
    return next(line for line in lines(pilot) if line[1:].lstrip("◉ ").startswith(name))
