"""The training screen: what is listed and drawn of each run while it is running and after, and the actions on runs."""

from __future__ import annotations

import json
import os

import pytest

from engine.model.service.run_setup import adapter_in_use
from engine.training import process
from screens.shell.run_form import ScoringForm
from screens.training.screen import IDLE_POLLS, TrainingRunForm, TrainingScreen
from screens.widgets.line_plot import LinePlot
from tests.screens.driving import lines, opened, press, text, until
from tests.screens.project import project
from tests.screens.training.driving import (
    FAILED,
    FINISHED,
    RUNNING,
    directory,
    poll,
    read_again,
    row,
    still,
    trained,
)
from tests.screens.training.training_runs import STEPS, add, finish, step_event


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again unless a test asks for it."""
    still(monkeypatch)


class TestList:
    async def test_runs_and_the_one_under_the_cursor(self) -> None:
        """The list has state and figures, and below it are the curves of one run."""
        async with opened(trained(), (80, 24), mode="7") as pilot:
            assert "64%" in row(pilot, RUNNING)
            assert ".981" in row(pilot, FINISHED)
            assert "✗ failed" in row(pilot, FAILED)
            shown = text(pilot)
            assert "▸ running" in shown
            assert "step 412/640" in " ".join(shown.split())
            assert "6 min left" in " ".join(shown.split())
            assert "7.1 GB of 24.0 GB" in shown
            assert "best at 400" in shown
            assert all(len(line) == 80 for line in lines(pilot))
            for plot in pilot.app.screen.query(LinePlot):
                drawn = [plot.render_line(y).text for y in range(plot.size.height)]
                assert any("\u2800" < char <= "\u28ff" for line in drawn for char in line)

    async def test_nothing_to_train_with(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the libraries are missing the screen says how to install them, and n shows the same as an error."""
        monkeypatch.setattr(process, "NEEDED", ("json", "no_such_library"))
        async with opened(project(), (80, 24), mode="7") as pilot:
            assert "Training needs no_such_library." in text(pilot)
            assert "conversation-workbench[train]" in text(pilot)
            await press(pilot, "n")
            assert not isinstance(pilot.app.screen, TrainingRunForm)
            assert "That did not work" in text(pilot)


class TestLive:
    async def test_curves_grow_while_it_runs(self) -> None:
        """Without a key the figures follow the run, and its end is notified in another mode too."""
        support = trained()
        run = directory(support, RUNNING)
        async with opened(support, (120, 36), mode="7") as pilot:
            add(run, **step_event(500))
            await poll(pilot)
            assert "step 500/640" in text(pilot)
            add(run, **step_event(STEPS, 0.0))
            add(run, "validating", step=STEPS)
            await poll(pilot)
            assert "▸ validating" in row(pilot, RUNNING)
            add(run, "valid", step=STEPS, loss=0.1, auroc=0.9, f1=0.9, n=18, best=False)
            await poll(pilot)
            assert "▸ finishing" in row(pilot, RUNNING)
            assert "left" not in text(pilot)
            await press(pilot, "2")
            finish(run)
            support.trainers.end(RUNNING)
            for _ in range(IDLE_POLLS):
                await poll(pilot)
            assert "Training support-v4" in text(pilot)
            assert "finished; AUROC .981" in text(pilot)


class TestActions:
    async def test_stop_resume_delete_and_what_they_refuse(self) -> None:
        """s asks, with the harmless answer first; then the run is stopping. R resumes a run that did not finish, D
        deletes one after a question; neither touches a running one."""
        support = trained()
        stop = directory(support, RUNNING).stop_file
        async with opened(support, mode="7") as pilot:
            await press(pilot, "s", "enter")
            assert not stop.exists()
            await press(pilot, "s", "down", "enter")
            assert stop.exists()
            assert "stopping" in text(pilot)

            await press(pilot, "R", "D")
            assert isinstance(pilot.app.screen, TrainingScreen)
            await press(pilot, "down", "R")
            assert support.trainers.started == []
            finish(directory(support, RUNNING))
            support.trainers.end(RUNNING)
            await press(pilot, "down", "R")
            assert support.trainers.started == [FAILED]
            support.trainers.end(FAILED)
            await read_again(pilot)
            run = directory(support, FAILED)
            await press(pilot, "D", "enter")
            assert run.path.exists()
            await press(pilot, "D", "down", "enter")
            assert not run.path.exists()
            assert "2 runs" in lines(pilot)[1]

    async def test_use_offers_to_score(self) -> None:
        """A puts an adapter in use and shows what scoring with it costs; a run without one is refused."""
        support = trained(used=None)
        async with opened(support, mode="7") as pilot:
            await press(pilot, "A")
            assert adapter_in_use(support.file) is None
            await press(pilot, "down", "A")
            assert adapter_in_use(support.file) == FINISHED
            assert isinstance(pilot.app.screen, ScoringForm)
            await press(pilot, "enter")
            await until(pilot, lambda: support.jobs.started == ["tuned"])  # when its cost is known
            assert "◉ support-v3 is used for scoring" in lines(pilot)[1]
            await press(pilot, "A")
            assert adapter_in_use(support.file) is None


async def test_figures_that_are_no_numbers() -> None:
    """A figure that became infinite or not a number does not harm the rest of the screen."""
    support = trained()
    run = directory(support, RUNNING)
    broken = []
    for line in run.events.read_text().splitlines():
        event = json.loads(line)
        for name in ("loss", "auroc", "epoch", "tokens_per_s"):
            if name in event:
                event[name] = float("nan") if event.get("step", 0) % 2 else float("inf")
        for name in ("f1", "p_end", "p_continue", "seconds_left"):
            if name in event:
                event[name] = float("inf")
        broken.append(json.dumps(event))
    run.events.write_text(os.linesep.join([*broken, ""]))
    async with opened(support, (80, 24), mode="7") as pilot:
        assert RUNNING in text(pilot)
        assert "inf" in text(pilot) or "nan" in text(pilot)
