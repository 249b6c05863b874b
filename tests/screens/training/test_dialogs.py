"""The dialog for a new training run."""

from __future__ import annotations

import json
from threading import Event

import pytest

from engine.conversations.filters import parse_filter
from engine.training.config import TrainConfig
from engine.training.records import TrainingEstimate
from engine.training.service import TrainingService
from engine.training.training_request import TrainingRequest
from screens.training.screen import TrainingRunForm
from tests.screens.driving import opened, press, text, until
from tests.screens.project import ScreenProject, project
from tests.screens.training.driving import FINISHED, directory, path_of, row, still
from tests.screens.training.training_runs import finish, write_run


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again unless a test asks for it."""
    still(monkeypatch)


class WatchedTraining(TrainingService):
    """Remembers the requests that were estimated."""

    estimated: TrainingRequest | None = None

    def estimate(self, request: TrainingRequest) -> TrainingEstimate:
        self.estimated = request
        return super().estimate(request)


def watched(support: ScreenProject) -> WatchedTraining:
    """The training service of a project, watched."""
    old = support.training
    training = WatchedTraining(support.file, old._catalog, support.trainers, old._machine)
    support.training = training
    return training


class TestNew:
    async def test_estimate_before_the_start(self) -> None:
        """The proposal is estimated at once; each field changes it; enter starts what was estimated."""
        support = project()
        training = watched(support)
        async with opened(support, (80, 24), mode="7") as pilot:
            await press(pilot, "n")
            assert "36 conversations: " in text(pilot)
            assert "to select by" in text(pilot)
            assert "time unknown" in text(pilot)
            assert "At every place where a conversation could end" in text(pilot)
            await press(pilot, "right")
            assert "The last answer and the end token." in text(pilot)
            await press(pilot, "up", *"mine", "up", *"turns", "greater_than_sign", "7")
            await until(pilot, lambda: "15 conversations" in text(pilot))
            await press(pilot, "enter")
            assert training.estimated == TrainingRequest(
                parse_filter("turns>7"), "mine", "paper", "smollm2-135m"
            )
            run = directory(support, "mine")
            assert TrainConfig.load(run.config).recipe == "paper"
            assert json.loads(run.manifest.read_text())["filter"] == "turns>7"
            assert support.trainers.started == ["mine"]
            assert "starting" in row(pilot, "mine")

    async def test_an_estimate_that_ends_late(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Enter starts no run whose estimate ends only after a field was changed."""
        support, begun, released = project(), Event(), Event()
        training = watched(support)
        estimate = training.estimate

        def estimate_when_released(request: TrainingRequest) -> TrainingEstimate:
            if request.limit is not None:
                begun.set()
                released.wait()
            return estimate(request)

        monkeypatch.setattr(training, "estimate", estimate_when_released)
        async with opened(support, (80, 24), mode="7") as pilot:
            await press(pilot, "n", *["down"] * 3)
            await pilot.press("9")
            await until(pilot, begun.is_set)
            await pilot.press("x", "enter")
            released.set()
            await until(pilot, lambda: "a whole number" in text(pilot))
            assert isinstance(pilot.app.screen, TrainingRunForm)
            assert support.trainers.started == []

    async def test_mistakes_are_shown_and_nothing_starts(self) -> None:
        """A mistake in a filter, number, setting or name is shown in place of the estimate, and enter waits."""
        support = project()
        finish(write_run(path_of(support), FINISHED))
        async with opened(support, (80, 24), mode="7") as pilot:
            await press(pilot, "n", "up", "up")
            await pilot.press(*"state:wo")
            await until(pilot, lambda: "The filter:" in text(pilot))
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, TrainingRunForm)
            await pilot.press(*["backspace"] * 8, "down", *"support-v3")
            await until(pilot, lambda: "There is a run 'support-v3' already" in text(pilot))
            await pilot.press(*["backspace"] * 10, "up", "up", *"epochs")
            await until(pilot, lambda: "'epochs' is not" in text(pilot))
            await pilot.press("equals_sign", "1", "up", "x")
            await until(pilot, lambda: "a whole number" in text(pilot))
            await pilot.press("backspace", "9")
            await until(pilot, lambda: "9 to train on" in text(pilot))
            await press(pilot, "enter")
            (name,) = support.trainers.started
            assert TrainConfig.load(directory(support, name).config).epochs == 1.0
            manifest = json.loads(directory(support, name).manifest.read_text())
            assert (manifest["limit"], manifest["counts"]["train"]) == (9, 9)
