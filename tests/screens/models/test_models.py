"""The models: what is listed of each, pulls that move, looking for one on the hub, what is done to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from engine.errors import ModelError, ModelFileError
from engine.events import JobProgress
from engine.services.models.records import PullRow
from screens.models import screen as models_screen
from screens.models.hub_dialog import HubDialog
from screens.models.screen import ModelsScreen
from screens.shell.dialogs import ErrorDialog
from tests.screens.driving import Size, lines, opened, press, settle, text, until
from tests.screens.models.fake_models import (
    ADAPTER,
    BROKEN,
    BUILT_IN,
    ENDPOINT,
    LARGE,
    PULLED,
    PULLING,
)
from tests.screens.project import ScreenProject, project


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read again unless a test asks for it: what polls without end never settles."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)


def stocked(*pulls: PullRow) -> ScreenProject:
    """Models of every kind, and pulls."""
    fake = project()
    fake.models.given = [BUILT_IN, PULLED, LARGE, BROKEN, ADAPTER]
    fake.models.given_pulls = list(pulls)
    return fake


def row(pilot: Pilot[None], name: str) -> str:
    """The line of the list that begins with this name."""
    return next(line for line in lines(pilot) if line.strip().startswith(name))


def in_front(pilot: Pilot[None]) -> ModelsScreen:
    """The screen in front, which is that of models."""
    screen = pilot.app.screen
    assert isinstance(screen, ModelsScreen)
    return screen


def hub_is_open(pilot: Pilot[None]) -> bool:
    """Whether the dialog that looks for models is in front."""
    return isinstance(pilot.app.screen, HubDialog)


async def poll(pilot: Pilot[None]) -> None:
    """What the timer does."""
    in_front(pilot).poll()
    await settle(pilot)


class TestList:
    @pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
    async def test_models_adapters_and_pulls(self, size: Size) -> None:
        """However wide, each stands with its state and sizes, and what is under the cursor is told below."""
        async with opened(stocked(PULLING), size, mode="8") as pilot:
            assert "pulling 43%" in row(pilot, "Qwen3-14B")
            assert "9.0 GB" in row(pilot, "Qwen3-14B")
            assert "as bf16" in row(pilot, "smollm2-135m")
            assert "396 MB" in row(pilot, "smollm2-135m")
            assert "1,650 t/s" in row(pilot, "smollm2-135m")
            assert "ready" in row(pilot, "Qwen3-8B")
            assert "too large" in row(pilot, "Llama-3.3")
            assert "unusable" in row(pilot, "cut")
            assert "adapter" in row(pilot, "support-v3")
            shown = " ".join(text(pilot).split())
            assert "3.9 GB of 9.0 GB · 24.3 MB/s · 4 min left" in shown
            assert "from cdn.example" in shown
            assert all(len(line) == size[0] for line in lines(pilot))

    async def test_endpoint(self) -> None:
        """An endpoint stands beside the models, as what it is; it has no size and cannot be tuned."""
        fake = stocked()
        fake.models.given = [BUILT_IN, ENDPOINT, ADAPTER]
        async with opened(fake, (160, 40), mode="8") as pilot:
            assert "1 model · 1 adapter · 1 endpoint" in lines(pilot)[1]
            assert "⇄ endpoint" in row(pilot, "cluster")
            assert "gives replies, curves, trees" in row(pilot, "cluster")
            await press(pilot, "down", "t")
            assert fake.models.done == []

    async def test_what_is_used_for_what(self) -> None:
        """Each model says what this project uses it for."""
        async with opened(stocked(), (160, 40), mode="8") as pilot:
            assert "for scoring, simulation · SmolLM2" in row(pilot, "smollm2-135m")
            assert "for goals, trees · Qwen3 8B" in row(pilot, "Qwen3-8B")
            assert "for " not in row(pilot, "support-v3").partition("◆ adapter")[0]

    async def test_facts(self) -> None:
        """Of a model everything known is told, and can be scrolled after enter."""
        async with opened(stocked(), (80, 24), mode="8") as pilot:
            await press(pilot, "down")
            assert "Qwen/Qwen3-8B-GGUF on https://huggingface.co" in text(pilot)
            assert "never tuned" not in text(pilot)
            await press(pilot, "enter", "end")
            assert "never tuned on this machine" in text(pilot)
            assert "28 of 37 layers" in text(pilot)

    async def test_reading_that_fails_is_a_line(self) -> None:
        """A catalogue that cannot be read is said above the list."""
        fake = stocked()

        def broken() -> None:
            raise ModelFileError("The model catalogue cannot be read.", "Move it away.")

        fake.models.rows = broken  # type: ignore[method-assign, assignment]
        async with opened(fake, mode="8") as pilot:
            assert "cannot be read. Move it away." in lines(pilot)[1]


class TestPulls:
    async def test_moves_and_ends(self) -> None:
        """A pull moves on by itself; its end is told, and the model stands in its place."""
        fake = stocked(PULLING)
        async with opened(fake, mode="8") as pilot:
            fake.models.move(PULLING.name, done=8_100_000_000)
            await poll(pilot)
            assert "pulling 90%" in row(pilot, "Qwen3-14B")
            fake.models.move(PULLING.name, state="checking", done=900_000_000)
            await poll(pilot)
            assert "checking 10%" in row(pilot, "Qwen3-14B")
            fake.models.move(PULLING.name, state="done")
            fake.models.given.append(replace(PULLED, name=PULLING.name))
            await poll(pilot)
            assert "Qwen3-14B-Q4_K_M is here" in text(pilot)
            assert "ready" in row(pilot, "Qwen3-14B")

    async def test_a_pull_that_fails_is_told(self) -> None:
        """Cause and fix are told at once, and stand below the list for as long as the pull is there."""
        fake = stocked(PULLING)
        async with opened(fake, (120, 36), mode="8") as pilot:
            fake.models.move(
                PULLING.name, state="failed", problem="Qwen/Qwen3-14B-GGUF is gated.", hint="Accept its terms."
            )  # fmt: skip
            await poll(pilot)
            assert "Qwen3-14B-Q4_K_M was not pulled" in text(pilot)
            assert "✗ failed 43%" in row(pilot, "Qwen3-14B")
            assert text(pilot).count("Accept its terms.") == 2

    async def test_pause_and_go_on(self) -> None:
        """p pauses what works, goes on with what rests, and says so where there is nothing to pause."""
        fake = stocked(PULLING)
        async with opened(fake, mode="8") as pilot:
            await press(pilot, "p")
            assert "paused 43%" in row(pilot, "Qwen3-14B")
            await press(pilot, "p")
            assert "pulling 43%" in row(pilot, "Qwen3-14B")
            await press(pilot, "down", "p")
            assert fake.models.done == [("pause", PULLING.name), ("go on", PULLING.name)]
            assert "p is for pulls" in text(pilot)

    async def test_giving_up(self) -> None:
        """D asks before what has arrived is deleted; a pull that works is paused first."""
        fake = stocked(PULLING)
        async with opened(fake, mode="8") as pilot:
            await press(pilot, "D")
            assert "p pauses it first" in text(pilot)
            await press(pilot, "p", "D", "enter")
            assert fake.models.done == [("pause", PULLING.name)]
            await press(pilot, "D", "down", "enter")
            assert fake.models.done[-1] == ("give up", PULLING.name)
            assert PULLING.name not in "\n".join(lines(pilot)[2:12])

    async def test_the_timer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """While a pull works it is followed without a key."""
        monkeypatch.setattr(models_screen, "POLL_SECONDS", 0.2)
        fake = stocked(PULLING)
        async with opened(fake, mode="8") as pilot:
            fake.models.move(PULLING.name, done=8_100_000_000)
            await until(pilot, lambda: "pulling 90%" in text(pilot))
            fake.models.move(PULLING.name, state="paused")
            await until(pilot, lambda: "paused 90%" in text(pilot))

    @pytest.mark.parametrize("size", [(80, 24), (200, 60)])
    async def test_on_other_screens(self, size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
        """The bottom line of every screen follows a pull to its end, which is told there too."""
        monkeypatch.setattr(models_screen, "POLL_SECONDS", 0.2)
        fake = stocked(PULLING)
        async with opened(fake, size, mode="8") as pilot:
            await press(pilot, "1")
            assert not isinstance(pilot.app.screen, ModelsScreen)
            assert "Pull of Qwen3-14B-Q4_K_M pulling 43% of 9.0 GB" in text(pilot)
            fake.models.move(PULLING.name, done=8_100_000_000)
            await until(pilot, lambda: "pulling 90%" in text(pilot))
            fake.models.move(PULLING.name, state="done")
            await until(pilot, lambda: "Qwen3-14B-Q4_K_M is here" in text(pilot))
            assert "Pull of" not in text(pilot)

    async def test_a_job_comes_first(self) -> None:
        """While a job works, the bottom line is the job's."""
        fake = stocked(PULLING)
        async with opened(fake, mode="8") as pilot:
            assert "Pull of" in text(pilot)
            fake.emit(JobProgress(1, "complete", "Scoring", 3, 9, "conversations", None, None, ""))
            await settle(pilot)
            assert "Pull of" not in text(pilot)
            assert "Scoring" in text(pilot)


class TestHub:
    async def test_recommended_without_asking(self) -> None:
        """s shows what is recommended, with the cursor on the set of this machine; nobody has been asked yet."""
        fake = stocked()
        async with opened(fake, (80, 24), mode="8") as pilot:
            await press(pilot, "s")
            assert hub_is_open(pilot)
            assert "24 GB instruct  Qwen/Qwen3-14B-GGUF" in text(pilot)
            assert "licence apache-2.0. Leaves room for long contexts" in text(pilot)
            assert fake.models.asked == []
            await press(pilot, "escape")
            assert not hub_is_open(pilot)

    async def test_recommended_to_pull(self) -> None:
        """Enter opens the repository with the cursor on the recommended file, enter again pulls it."""
        fake = stocked()
        async with opened(fake, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "enter")
            assert fake.models.asked == ["Qwen/Qwen3-14B-GGUF"]
            shown = text(pilot)
            assert "Qwen3-14B-Q8_0.gguf" in shown
            assert "too large" in shown
            assert "212.0 GB free here" in " ".join(shown.split())
            assert "1 more cannot be pulled" in " ".join(shown.split())
            await press(pilot, "enter")
            assert fake.models.done == [("pull", "Qwen/Qwen3-14B-GGUF Qwen3-14B-Q4_K_M.gguf")]
            here = in_front(pilot).here
            assert here is not None
            assert here.name == "Qwen3-14B-Q4_K_M"
            assert "goes on in the background" in text(pilot)

    async def test_words(self) -> None:
        """Words are looked for on enter only; a gated repository is marked; escape goes back to what was found."""
        fake = stocked()
        async with opened(fake, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "slash", *"qwen")
            assert fake.models.asked == []
            await press(pilot, "enter")
            assert fake.models.asked == ["qwen"]
            assert "gated" in text(pilot)
            assert "120k" in text(pilot)
            fake.models.page = replace(fake.models.page, gated=True)
            await press(pilot, "down", "enter")
            assert fake.models.asked == ["qwen", "someone/Gated-GGUF"]
            assert "accept their terms" in " ".join(text(pilot).split())
            await press(pilot, "escape")
            assert "someone/Gated-GGUF" in text(pilot)
            assert hub_is_open(pilot)
            await press(pilot, "escape")
            assert not hub_is_open(pilot)
            assert fake.models.done == []

    async def test_a_name(self) -> None:
        """OWNER/NAME is looked at without a search, and escape goes back to what was listed before."""
        fake = stocked()
        async with opened(fake, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "slash", *"me", "slash", *"mine", "enter")
            assert fake.models.asked == ["me/mine"]
            await press(pilot, "escape")
            assert "Recommended by memory" in text(pilot)

    async def test_refused(self) -> None:
        """What the hub refuses stands in the dialog, which stays; the words are still there."""
        fake = stocked()
        async with opened(fake, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "slash", *"qwen")
            fake.models.fail_next = ModelError("huggingface.co cannot be reached.", "Look.")
            await press(pilot, "enter")
            assert "cannot be reached" in text(pilot)
            assert pilot.app.screen.query_one(Input).value == "qwen"

    async def test_a_pull_that_cannot_begin(self) -> None:
        """A disk without room is said in a dialog; nothing is listed."""
        fake = stocked()
        async with opened(fake, mode="8") as pilot:
            await press(pilot, "s", "enter")
            fake.models.fail_next = ModelError("Qwen3 needs 9.0 GB more.", "Make room.")
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "Make room." in text(pilot)
            assert fake.models.given_pulls == []

    async def test_empty_answers(self) -> None:
        """Nothing found and nothing to pull are said, and enter does nothing then."""
        fake = stocked()
        fake.models.found, fake.models.page = [], replace(fake.models.page, files=())
        async with opened(fake, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "slash", *"zzz", "enter")
            assert "Nothing was found." in text(pilot)
            await press(pilot, "slash", "ctrl+u", *"me", "slash", *"zz", "enter", "enter")
            assert "has no file to pull" in text(pilot)
            assert fake.models.done == []


class TestDoing:
    async def test_verify(self) -> None:
        """v says what was found; damage is a dialog with what to do."""
        fake = stocked()
        async with opened(fake, (120, 36), mode="8") as pilot:
            await press(pilot, "down", "v")
            assert "Qwen3-8B-Q4_K_M is what the hub has." in text(pilot)
            fake.models.fail_next = ModelFileError("Its checksum differs.", "Pull it again.")
            await press(pilot, "v")
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "Pull it again." in text(pilot)

    async def test_remove(self) -> None:
        """D says what would be done and asks; what came with the program stays."""
        fake = stocked()
        async with opened(fake, (120, 36), mode="8") as pilot:
            await press(pilot, "D")
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "came with the program" in text(pilot)
            await press(pilot, "escape", "down", "D")
            assert "delete Qwen3-8B-Q4_K_M from the disk, 5.0 GB" in text(pilot)
            await press(pilot, "enter")
            assert fake.models.done == []
            await press(pilot, "D", "down", "enter")
            assert fake.models.done == [("remove", "Qwen3-8B-Q4_K_M")]

    async def test_add(self) -> None:
        """a asks for a path and adds what is there; an empty one adds nothing."""
        fake = stocked()
        async with opened(fake, (120, 36), mode="8") as pilot:
            await press(pilot, "a", "enter")
            assert fake.models.done == []
            await press(pilot, "a", *"m", "full_stop", *"gguf", "enter")
            assert fake.models.done == [("add", "m.gguf")]
            assert "added" in row(pilot, "added")

    async def test_use(self) -> None:
        """u asks what for, with what does it now; the choice stands in the list."""
        fake = stocked()
        async with opened(fake, (160, 40), mode="8") as pilot:
            await press(pilot, "down", "u")
            shown = " ".join(text(pilot).split())
            assert "Use Qwen3-8B-Q4_K_M for" in shown
            assert "scores and remaining tasks · now smollm2-135m" in shown
            await press(pilot, "down", "enter")
            assert fake.models.done == [("use", f"{PULLED.name} for scoring")]
            assert "--model still names another" in " ".join(text(pilot).split())
            assert "for scoring, goals, trees ·" in row(pilot, "Qwen3-8B")
            assert "for simulation ·" in row(pilot, "smollm2-135m")
            await press(pilot, "u", "enter")
            assert "for all work ·" in row(pilot, "Qwen3-8B")

    async def test_adapters_are_used_elsewhere(self) -> None:
        """An adapter is chosen with the training runs, and u says so."""
        async with opened(stocked(), mode="8") as pilot:
            await press(pilot, "end", "u")
            assert "Training (7) chooses the adapter" in text(pilot)

    async def test_tune(self) -> None:
        """t begins the job for a model, not for an adapter or an endpoint."""
        fake = stocked()
        async with opened(fake, mode="8") as pilot:
            await press(pilot, "t")
            assert fake.models.done == [("tune", BUILT_IN.name)]
            await press(pilot, "end", "t")
            assert "Only models that are here" in text(pilot)
            assert len(fake.models.done) == 1
