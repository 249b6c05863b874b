"""The training runs: what is listed and drawn of each while it works and after, and what is done to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from engine.errors import UsageError, WorkbenchError
from screens.shell.run_dialog import RunDialog
from screens.training import view
from screens.training.run_form import TrainingRunForm
from screens.training.run_pane import RunPane
from screens.training.screen import TrainingScreen
from screens.widgets.line_plot import LinePlot
from tests.screens.driving import Size, lines, opened, press, settle, text, until
from tests.screens.fakes import project
from tests.screens.training.driving import in_front, row, trained
from tests.screens.training.fake_training import OFFERS, SAMPLES, detail, run, running


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again unless a test asks for it: what polls without end never settles."""
    monkeypatch.setattr(view, "POLL_SECONDS", 3600.0)


class TestList:
    @pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
    async def test_runs_and_the_one_under_the_cursor(self, size: Size) -> None:
        """However wide, the runs stand with state and measures, and below them the curves of one."""
        async with opened(trained(), size, mode="7") as pilot:
            assert "64%" in row(pilot, "support-v4")
            assert ".981" in row(pilot, "support-v3")
            assert "✗ failed" in row(pilot, "too-big")
            shown = text(pilot)
            assert "running (pid 4711)" in shown
            assert "step 412/640" in shown
            assert "6 min left" in " ".join(shown.split())
            assert "7.1 GB of 24.0 GB" in shown
            assert "best at 400" in shown
            assert all(len(line) == size[0] for line in lines(pilot))
            for plot in pilot.app.screen.query(LinePlot):
                drawn = [plot.render_line(y).text for y in range(plot.size.height)]
                assert any("\u2800" < char <= "\u28ff" for line in drawn for char in line)

    async def test_before_and_after(self) -> None:
        """At each place the model's word before training stands above its word now, and which is right."""
        async with opened(trained(), (120, 36), mode="7") as pilot:
            shown = lines(pilot)
            at = next(n for n, line in enumerate(shown) if "Your order is confirmed" in line)
            assert "the log ends here" in shown[at]
            assert all(
                part in shown[at + 1] for part in ("before", ".03 ✗", "TURN 5, STEP 9, user")
            )
            assert all(part in shown[at + 2] for part in ("step 400", ".96 ✓", "the end"))

    async def test_a_failed_run_says_why_and_what_to_do(self) -> None:
        """Cause and fix stand below the list as soon as the cursor is on the run."""
        async with opened(trained(), (80, 24), mode="7") as pilot:
            await press(pilot, "end")
            assert "no memory left: 25.1 GB" in text(pilot)
            assert "Lower rows (now 8)" in text(pilot)
            await press(pilot, "up")
            assert "no memory left" not in text(pilot)

    async def test_nothing_yet(self) -> None:
        """Without a run the screen says what one does and what to press, and no key fails."""
        async with opened(project(), (80, 24), mode="7") as pilot:
            assert "No training runs yet" in text(pilot)
            assert "36 conversations" in text(pilot)
            await press(pilot, "s", "R", "A", "c", "l", "y", "D", "space")
            assert isinstance(pilot.app.screen, TrainingScreen)

    async def test_nothing_to_train_with(self) -> None:
        """Where the libraries are missing the screen says how to install them, and n does not pretend."""
        fake = project()
        fake.training.offered = replace(
            OFFERS,
            missing="Training needs torch.",
            hint="pip install 'conversation-workbench[train]'",
        )
        async with opened(fake, (80, 24), mode="7") as pilot:
            assert "Training needs torch." in text(pilot)
            assert "conversation-workbench[train]" in text(pilot)
            await press(pilot, "n")
            assert not isinstance(pilot.app.screen, TrainingRunForm)
            assert "That did not work" in text(pilot)

    async def test_reading_that_fails_is_a_line(self) -> None:
        """What is asked for twice a second fails without a dialog each time, and goes on when it works again."""
        fake = trained()
        async with opened(fake, mode="7") as pilot:
            fake.training.fail_reading = WorkbenchError("The folder cannot be read.", "Look at it.")
            in_front(pilot).refresh_data()
            await settle(pilot)
            assert "The folder cannot be read." in lines(pilot)[1]
            fake.training.fail_reading = None
            in_front(pilot).refresh_data()
            await settle(pilot)
            assert "3 runs" in lines(pilot)[1]


async def poll(pilot: Pilot[None]) -> None:
    """What the timer of the screen does."""
    for screen in pilot.app._screen_stacks["training"]:
        assert isinstance(screen, TrainingScreen)
        screen.poll()
    await settle(pilot)


class TestLive:
    async def test_curves_grow_while_it_runs(self) -> None:
        """Without a key the figures follow the run, and its end is told in another mode too."""
        fake = trained()
        async with opened(fake, (120, 36), mode="7") as pilot:
            fake.training.change("support-v4", step=500, epoch=500 / 640 * 3)
            await poll(pilot)
            assert "step 500/640" in text(pilot)
            fake.training.change(
                "support-v4", step=640, seconds_left=9.0, validated=3, to_validate=40
            )
            await poll(pilot)
            assert "▸ validating" in row(pilot, "support-v4")
            assert "validating 3/40" in text(pilot)
            assert "9 s left" in text(pilot)
            fake.training.change("support-v4", validated=None, to_validate=None, seconds_left=0.0)
            await poll(pilot)
            assert "▸ finishing" in row(pilot, "support-v4")
            assert "left" not in text(pilot)
            await press(pilot, "2")
            fake.training.change("support-v4", state="finished", step=640, pid=None)
            for _ in range(view.IDLE_POLLS):
                await poll(pilot)
            assert "Training support-v4" in text(pilot)
            assert "finished; AUROC .981" in text(pilot)

    async def test_a_run_that_fails_is_told(self) -> None:
        """The end of a failed run is told with its cause."""
        fake = trained()
        async with opened(fake, (120, 36), mode="7") as pilot:
            fake.training.change("support-v4", state="failed", problem="It was killed.", pid=None)
            await poll(pilot)
            assert "Training support-v4 failed" in text(pilot)
            assert "It was killed." in text(pilot)

    async def test_nothing_is_read_while_nothing_works(self) -> None:
        """With no run at work files are read seldom in sight, and not at all out of sight."""
        fake = project()
        fake.training.given = [run()]
        async with opened(fake, mode="7") as pilot:
            before = fake.training.read
            for _ in range(2 * view.IDLE_POLLS):
                await poll(pilot)
            assert fake.training.read == before + 2
            await press(pilot, "2")
            for _ in range(2 * view.IDLE_POLLS):
                await poll(pilot)
            assert fake.training.read == before + 2

    async def test_other_screens_tell_of_it(self) -> None:
        """The bottom line of the other screens says how far the run is, and no longer when it has ended."""
        fake = trained()
        async with opened(fake, (120, 36), mode="7") as pilot:
            await press(pilot, "2")
            assert "▸ Training support-v4 step" in text(pilot)
            assert "it goes on when you quit" in text(pilot)
            fake.training.change("support-v4", state="finished", pid=None)
            for _ in range(view.IDLE_POLLS):
                await poll(pilot)
            await pilot.pause()
            assert "▸ Training support-v4" not in text(pilot)

    async def test_the_timer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run that is started elsewhere appears without a key, and is followed."""
        monkeypatch.setattr(view, "POLL_SECONDS", 0.2)
        fake = project()
        async with opened(fake, (120, 36), mode="7") as pilot:
            fake.training.given = [running(step=7)]
            await until(pilot, lambda: "step 7/640" in text(pilot))
            fake.training.change("support-v4", step=8)
            await until(pilot, lambda: "step 8/640" in text(pilot))

    async def test_cursor_and_scroll_stay(self) -> None:
        """Reading again moves neither the cursor nor what is being read below the curves."""
        fake = trained()
        async with opened(fake, (80, 24), mode="7") as pilot:
            await press(pilot, "down")
            about = pilot.app.screen.query_one("#about")
            about.scroll_to(y=3, animate=False)
            await settle(pilot)
            fake.training.given.insert(0, run("newer"))
            screen = in_front(pilot)
            screen.refresh_data()
            await settle(pilot)
            assert screen.run_here is not None
            assert screen.run_here.name == "support-v3"
            assert about.scroll_offset.y == 3


class TestDoing:
    async def test_stop_asks_first(self) -> None:
        """s asks, with the harmless answer first; then the run says that it is stopping."""
        fake = trained()
        async with opened(fake, mode="7") as pilot:
            await press(pilot, "s", "enter")
            assert fake.training.done == []
            await press(pilot, "s", "down", "enter")
            assert fake.training.done == [("stop", "support-v4")]
            assert "stopping" in text(pilot)

    async def test_resume_delete_and_what_they_refuse(self) -> None:
        """R goes on with what did not end well, D deletes after a question; neither touches a run that works."""
        fake = trained()
        async with opened(fake, mode="7") as pilot:
            await press(pilot, "R", "D")
            assert fake.training.done == []
            assert isinstance(pilot.app.screen, TrainingScreen)
            await press(pilot, "down", "R")
            assert fake.training.done == []
            await press(pilot, "down", "R")
            assert fake.training.done == [("resume", "too-big")]
            fake.training.change("too-big", state="failed")
            await press(pilot, "up", "down", "home", "end")
            in_front(pilot).refresh_data()
            await settle(pilot)
            await press(pilot, "D", "down", "enter")
            assert fake.training.done[-1] == ("delete", "too-big")
            assert "2 runs" in lines(pilot)[1]

    async def test_use_offers_to_score(self) -> None:
        """A puts an adapter in force and goes on to what scoring with it costs; a run without one is refused."""
        fake = trained()
        fake.training.given[1] = run()
        async with opened(fake, mode="7") as pilot:
            await press(pilot, "A")
            assert fake.training.done == []
            await press(pilot, "down", "A")
            assert fake.training.done == [("use", "support-v3")]
            assert isinstance(pilot.app.screen, RunDialog)
            await press(pilot, "enter")
            assert fake.started == ["tuned"]
            assert "◉ support-v3 is used for scoring" in lines(pilot)[1]
            await press(pilot, "A")
            assert fake.training.done[-1] == ("use", None)

    async def test_what_fails_is_told(self) -> None:
        """An error of the port is a dialog with its hint."""
        fake = trained()
        fake.training.fail_next = UsageError("The run has no checkpoint.", "Start it again.")
        async with opened(fake, mode="7") as pilot:
            await press(pilot, "end", "R")
            assert "The run has no checkpoint." in text(pilot)
            assert "Start it again." in text(pilot)

    async def test_read_only(self) -> None:
        """A project that cannot be written can be looked at; every key that would write says why not."""
        fake = trained()
        fake.read_only = "Another workbench is writing this project."
        async with opened(fake, (120, 36), mode="7") as pilot:
            for key in ("n", "s", "R", "A", "r", "D"):
                await press(pilot, key)
                assert isinstance(pilot.app.screen, TrainingScreen)
            assert fake.training.done == []
            assert "Another workbench" in text(pilot)
            await press(pilot, "enter")
            assert "trained on" in text(pilot)


async def test_a_run_that_only_starts() -> None:
    """Before its first event a run has no figure, and nothing on the screen fails for it."""
    fake = project()
    fake.training.given = [
        replace(running(), step=None, steps=None, epoch=None, epochs=None, loss=None, memory=None,
                tokens_per_s=None, seconds_left=None, auroc=None, f1=None, best_step=None, seconds=0.0)
    ]  # fmt: skip
    async with opened(fake, (80, 24), mode="7") as pilot:
        assert "▸ starting (pid 4711)" in text(pilot)
        assert "no step yet" in text(pilot)
        assert pilot.app.screen.query_one(RunPane).display
        await press(pilot, "enter")
        assert "state" in text(pilot)


async def test_figures_that_are_no_numbers() -> None:
    """What became infinite or not a number leaves everything else on the screen."""
    fake = trained()
    broken = detail(running())
    points = [replace(p, loss=float("nan") if p.step % 2 else float("inf")) for p in broken.loss]
    fake.training.details["support-v4"] = replace(
        broken,
        loss=tuple(points),
        valid=tuple(replace(p, auroc=float("nan"), f1=float("inf")) for p in broken.valid),
        samples=tuple(replace(s, p_end=float("inf"), p_continue=float("inf")) for s in SAMPLES),
        run=replace(
            broken.run, loss=float("nan"), auroc=float("nan"), epoch=float("nan"),
            seconds_left=float("inf"), tokens_per_s=float("nan"),
        ),
    )  # fmt: skip
    async with opened(fake, (80, 24), mode="7") as pilot:
        assert "support-v4" in text(pilot)
        await press(pilot, "enter")
        assert "nan" in text(pilot)
