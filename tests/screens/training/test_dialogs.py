"""Over the training runs: how a new one is asked for, its details, its log, two compared, the table."""

from __future__ import annotations

import pytest

from engine.errors import UsageError
from engine.filters import parse_filter
from screens.training import view
from screens.training.run_form import TrainingRunForm
from screens.training.screen import TrainingScreen
from tests.screens.driving import Size, opened, press, text, until
from tests.screens.fakes import project
from tests.screens.training.driving import row, trained
from tests.screens.training.fake_training import run


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again unless a test asks for it: what polls without end never settles."""
    monkeypatch.setattr(view, "POLL_SECONDS", 3600.0)


class TestNew:
    async def test_estimate_before_the_start(self) -> None:
        """What is proposed is estimated at once; each field changes it; enter starts what was estimated."""
        fake = project()
        async with opened(fake, (80, 24), mode="7") as pilot:
            await press(pilot, "n")
            assert "36 conversations: 18 to train on, 18 held out" in text(pilot)
            assert "about 3 min (as measured here)" in text(pilot)
            assert "memory 3.1 GB" in text(pilot)
            assert "At every place where a conversation could end" in text(pilot)
            await press(pilot, "right")
            assert "The last answer and the end tag." in text(pilot)
            await press(pilot, "up", *"mine", "up", *"tu")
            assert "turns number of turns" in text(pilot)
            await press(pilot, *"rns")
            await press(pilot, "greater_than_sign", "2")
            await until(pilot, lambda: "12 conversations" in text(pilot))
            await press(pilot, "enter")
            wish = fake.training.wished[0]
            assert (wish.name, wish.recipe, wish.preset) == ("mine", "paper", "cpu")
            assert wish.filter == parse_filter("turns>2")
            assert wish.base == "SmolLM2-135M-Instruct"
            assert fake.training.estimated[-1] == wish
            assert "starting" in row(pilot, "mine")

    async def test_what_does_not_fit_says_what_to_lower(self) -> None:
        """A preset that needs more memory than there is stands out, with the setting to lower."""
        async with opened(project(), (80, 24), mode="7") as pilot:
            await press(pilot, "n", "down", "left")
            assert "31.0 GB: more than there is" in text(pilot)
            assert "Lower rows" in text(pilot)

    async def test_mistakes_are_told_and_nothing_starts(self) -> None:
        """A filter, number, setting or name that will not do is told where the estimate stands; enter waits."""
        fake = trained()
        async with opened(fake, (80, 24), mode="7") as pilot:
            await press(pilot, "n", "up", "up", *"state:", "w", "o")
            await until(pilot, lambda: "The filter:" in text(pilot))
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, TrainingRunForm)
            await press(pilot, *["backspace"] * 8, "down", *"support-v3")
            await until(pilot, lambda: "There is a run support-v3 already" in text(pilot))
            await press(pilot, *["backspace"] * 10, "up", "up", *"epochs")
            await until(pilot, lambda: "“epochs” is not" in text(pilot))
            assert "Times that every conversation is read." in text(pilot)
            await press(pilot, *"=1", "up", "x")
            await until(pilot, lambda: "a whole number" in text(pilot))
            await press(pilot, "backspace", "9")
            await until(pilot, lambda: "9 to train on" in text(pilot))
            await press(pilot, "enter")
            assert fake.training.wished[0].settings == (("epochs", "1"),)
            assert fake.training.wished[0].limit == 9

    async def test_weights_from_elsewhere(self) -> None:
        """The last base asks for a path, which is there only then."""
        fake = project()
        async with opened(fake, (80, 24), mode="7") as pilot:
            await press(pilot, "n", "down", "down", "left")
            assert "Say where the weights are." in text(pilot)
            await press(pilot, "down", *"my.gguf")
            await until(pilot, lambda: "with my.gguf" in text(pilot))
            await press(pilot, "up", "right")
            assert "with SmolLM2-135M-Instruct" in text(pilot)

    async def test_a_start_that_fails(self) -> None:
        """Why nothing was started is a dialog, and the line that told of the start is gone."""
        fake = project()
        async with opened(fake, mode="7") as pilot:
            await press(pilot, "n")
            fake.training.fail_next = UsageError("Another run works.", "Wait for it.")
            await press(pilot, "enter")
            assert "Another run works." in text(pilot)
            assert "writing the data" not in text(pilot)


class TestLooking:
    async def test_detail(self) -> None:
        """Enter shows the validations, the settings with their help, the check and the folder."""
        async with opened(trained(), (120, 50), mode="7") as pilot:
            await press(pilot, "down", "enter")
            shown = text(pilot)
            assert "support-october.training/support-v3" in shown
            assert "◆ best" in shown
            assert "llama.cpp agrees on 99.7% of 612 tokens" in shown
            await press(pilot, "end")
            await press(pilot, "y", "escape")
            assert "AUROC: .981 at step 400" in pilot.app.clipboard
            assert "learning_rate: 0.0002" in pilot.app.clipboard

    async def test_log(self) -> None:
        """l shows the whole log at its end; / finds in it, r reads what was written since."""
        fake = trained()
        fake.training.log_text = "\n".join(f"line {n}" for n in range(400))
        async with opened(fake, (80, 24), mode="7") as pilot:
            await press(pilot, "l")
            assert "line 399" in text(pilot)
            fake.training.log_text += "\nthe very last"
            await press(pilot, "r")
            assert "the very last" in text(pilot)
            await press(pilot, "slash", *"line 17", "enter")
            await until(pilot, lambda: "line 17" in text(pilot))
            await press(pilot, "escape", "escape")
            assert isinstance(pilot.app.screen, TrainingScreen)

    async def test_compare(self) -> None:
        """c compares two marked runs, or asks with which: figures with their difference, settings that differ."""
        fake = trained()
        fake.training.given[2] = run("paper-1", recipe="paper", auroc=0.93, f1=0.9)
        async with opened(fake, (120, 40), mode="7") as pilot:
            await press(pilot, "down", "space", "space", "c")
            shown = text(pilot)
            assert "Two runs" in shown
            assert ".930 at step 400 (−.051)" in shown
            assert "settings that differ" in shown
            assert "learning_rate" in shown
            assert "rank" not in shown
            await press(pilot, "y", "escape")
            assert "\tsupport-v3\tpaper-1\n" in pilot.app.clipboard
            await press(pilot, "space", "space", "home", "c", "enter")
            assert "support-v3" in text(pilot)

    @pytest.mark.parametrize(("size", "recall"), [((80, 24), False), ((200, 60), True)])
    async def test_table(self, size: Size, recall: bool) -> None:
        """v shows each kind of score with its interval; what has no room is copied all the same."""
        async with opened(trained(), size, mode="7") as pilot:
            await press(pilot, "down", "v")
            shown = text(pilot)
            assert "held out by support-v3" in " ".join(shown.split())
            assert ".981 [.93, .99]" in shown
            assert "keyword rule" in shown
            assert ("recall" in shown.split("y copies")[0]) == recall
            await press(pilot, "y")
            assert pilot.app.clipboard.splitlines()[1].startswith(
                "tuned support-v3\t0.9810\t0.9310"
            )
            await press(pilot, "a")
            assert "all conversations:" in " ".join(text(pilot).split())
            await press(pilot, "a")
            assert "held out by support-v3" in " ".join(text(pilot).split())

    async def test_table_without_scores(self) -> None:
        """Where nothing was scored the table says which command does it."""
        fake = trained()
        async with opened(fake, mode="7") as pilot:
            fake.training.fail_next = UsageError("Nothing is scored in the mode tuned.", "Press r.")
            await press(pilot, "v")
            assert "Nothing is scored in the mode tuned." in text(pilot)
