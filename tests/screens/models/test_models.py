"""The models: what is listed of each, pulls that move, looking for one on the hub, what is done to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base import folders, number_format
from engine.model.catalog_files import read_manifest
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.opener import prompt_trials
from screens.models import screen as models_screen
from screens.models.hub_dialog import HubDialog
from screens.models.screen import ModelsScreen
from screens.shell.dialogs import ErrorDialog
from tests.screens.driving import Size, lines, opened, press, settle, text, until
from tests.screens.models.catalog import (
    BUILT_IN,
    GATED,
    PULLED,
    PULLING,
    REPOSITORY,
    Hub,
    TimedModels,
    arrived,
    came_about,
    known_machine,
    pulling,
    serve,
    stocked,
    weights,
)
from tests.screens.project import ScreenProject, project


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machine everywhere; nothing is read again unless a test asks for it, so that the app settles."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    known_machine(monkeypatch)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The hub that is asked."""
    yield from serve(monkeypatch)


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


def names(made: ScreenProject) -> list[str]:
    """The models of the catalog."""
    return [entry.name for entry in made.catalog.entries()]


def state(made: ScreenProject) -> str:
    """The state of the only pull."""
    (pull,) = made.models.pulls()
    return pull.state


class TestList:
    @pytest.mark.parametrize("size", [(80, 24), (200, 60)])
    async def test_models_adapters_and_pulls(self, size: Size, hub: Hub) -> None:
        """However wide, each stands with its state and sizes, and what is under the cursor is told below."""
        made = stocked()
        made.models = made.model_service(TimedModels)
        hub.server.elsewhere = True
        pulling(made, hub)
        need = {one.name: number_format.size(one.memory) for one in made.models.rows()}
        async with opened(made, size, mode="8") as pilot:
            assert "pulling 43%" in row(pilot, "Qwen3-14B")
            assert "10 MB" in row(pilot, "Qwen3-14B")
            assert "as bf16" in row(pilot, "smollm2-135m")
            assert "1,650 t/s" in row(pilot, "smollm2-135m")
            assert "ready" in row(pilot, "Qwen3-8B")
            assert "5 MB" in row(pilot, "Qwen3-8B")
            assert need[BUILT_IN] in row(pilot, "smollm2-135m")
            assert need[PULLED] in row(pilot, "Qwen3-8B")
            assert "too large" in row(pilot, "grok-1")
            assert "unusable" in row(pilot, "cut")
            assert "adapter" in row(pilot, "support-v3")
            shown = " ".join(text(pilot).split())
            assert "4 MB of 10 MB · 24.3 MB/s · 4 min left" in shown
            assert "from localhost" in shown
            assert all(len(line) == size[0] for line in lines(pilot))

    async def test_endpoint(self) -> None:
        """An endpoint stands beside the models, as what it is; it has no size and cannot be tuned."""
        can = Capabilities("llama-server", completions=True, tokens="llama-server")
        entry = EndpointEntry("cluster", "http://gpu:8000/v1#qwen3", can)
        made = project()
        folders.data_dir().mkdir(parents=True)
        (folders.data_dir() / "endpoints.json").write_text(
            json.dumps({"cluster": entry.as_params()})
        )
        async with opened(made, (160, 40), mode="8") as pilot:
            assert "1 model · 0 adapters · 1 endpoint" in lines(pilot)[1]
            assert "⇄ endpoint" in row(pilot, "cluster")
            assert "http://gpu:8000/v1#qwen3, llama-s" in row(pilot, "cluster")
            assert "MB" not in row(pilot, "cluster")
            await press(pilot, "down", "t")
            assert "Only models that are here" in text(pilot)
            assert made.tuned == []


class TestPulls:
    async def test_moves_and_ends(self, hub: Hub) -> None:
        """A pull moves on by itself; its end is told, and the model stands in its place."""
        made = stocked()
        made.models = timed = made.model_service(TimedModels)
        pulling(made, hub, 4_700_000)
        async with opened(made, mode="8") as pilot:
            hub.release()
            arrived(made, 9_000_000)
            await poll(pilot)
            assert "pulling 90%" in row(pilot, "Qwen3-14B")
            timed.changes = {"state": "checking", "done": 1_000_000}
            await poll(pilot)
            assert "checking 10%" in row(pilot, "Qwen3-14B")
            timed.changes = {}
            hub.release()
            came_about(lambda: state(made) == "done")
            await poll(pilot)
            assert "Qwen3-14B-Q4_K_M is here" in text(pilot)
            assert "ready" in row(pilot, "Qwen3-14B")

    async def test_a_pull_that_fails_is_told(self, hub: Hub) -> None:
        """Cause and fix are told at once, and stand below the list for as long as the pull is there."""
        made = stocked()
        pulling(made, hub)
        async with opened(made, (120, 36), mode="8") as pilot:
            hub.server.repositories[REPOSITORY].gated = True
            hub.release()
            came_about(lambda: state(made) == "failed")
            await poll(pilot)
            assert "Qwen3-14B-Q4_K_M was not pulled" in text(pilot)
            assert "✗ failed 43%" in row(pilot, "Qwen3-14B")
            assert text(pilot).count("is gated: its owners") == 2
            assert text(pilot).count("Accept them on") == 2

    async def test_pause_and_go_on(self, hub: Hub) -> None:
        """p pauses what works, goes on with what rests, and says so where there is nothing to pause."""
        made = stocked()
        pulling(made, hub)
        async with opened(made, mode="8") as pilot:
            await press(pilot, "p")
            hub.release()
            came_about(lambda: state(made) == "paused")
            await poll(pilot)
            assert "paused 43%" in row(pilot, "Qwen3-14B")
            hub.hold(0)
            await press(pilot, "p")
            came_about(lambda: state(made) == "pulling")
            in_front(pilot).refresh_data()
            await settle(pilot)
            assert "pulling 43%" in row(pilot, "Qwen3-14B")
            await press(pilot, "down", "p")
            assert "p is for pulls" in text(pilot)
            assert state(made) == "pulling"

    async def test_giving_up(self, hub: Hub) -> None:
        """D asks before what has arrived is deleted; a pull that works is paused first."""
        made = stocked()
        pulling(made, hub)
        async with opened(made, mode="8") as pilot:
            await press(pilot, "D")
            assert "p pauses it first" in text(pilot)
            await press(pilot, "p")
            hub.release()
            came_about(lambda: state(made) == "paused")
            await poll(pilot)
            await press(pilot, "D", "enter")
            assert state(made) == "paused"
            assert list(folders.data_dir().rglob("*.part"))
            await press(pilot, "D", "down", "enter")
            assert made.models.pulls() == []
            assert not list(folders.data_dir().rglob("*.part"))
            assert PULLING not in "\n".join(lines(pilot)[2:12])

    async def test_on_other_screens(self, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        """The bottom line of every screen follows a pull to its end, which is told there too."""
        monkeypatch.setattr(models_screen, "POLL_SECONDS", 0.2)
        made = stocked()
        pulling(made, hub, 4_700_000)
        async with opened(made, (80, 24), mode="8") as pilot:
            await press(pilot, "1")
            assert not isinstance(pilot.app.screen, ModelsScreen)
            assert "Pull of Qwen3-14B-Q4_K_M pulling 43% of 10 MB" in text(pilot)
            hub.release()
            await until(pilot, lambda: "pulling 90%" in text(pilot))
            hub.release()
            await until(pilot, lambda: "Qwen3-14B-Q4_K_M is here" in text(pilot))
            assert "Pull of" not in text(pilot)


class TestHub:
    async def test_recommended_without_asking(self, hub: Hub) -> None:
        """s shows what is recommended, with the cursor on the set of this machine; nobody has been asked yet."""
        async with opened(stocked(), (80, 24), mode="8") as pilot:
            await press(pilot, "s")
            assert hub_is_open(pilot)
            assert "24 GB instruct  Qwen/Qwen3-14B-GGUF" in text(pilot)
            assert "license apache-2.0. Leaves room for long contexts" in text(pilot)
            assert hub.server.requests == []
            await press(pilot, "escape")
            assert not hub_is_open(pilot)

    async def test_recommended_to_pull(self, hub: Hub) -> None:
        """Enter opens the repository with the cursor on the recommended file, enter again pulls it."""
        made = stocked()
        async with opened(made, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "enter")
            assert hub.asked() == [REPOSITORY]
            shown = text(pilot)
            assert "Qwen3-14B-Q8_0.gguf" in shown
            assert "too large" in shown
            assert "212.0 GB free here" in " ".join(shown.split())
            assert "1 more cannot be pulled" in " ".join(shown.split())
            hub.hold(0)
            await press(pilot, "enter")
            (pull,) = made.models.pulls()
            assert (pull.repository, pull.file) == (REPOSITORY, "Qwen3-14B-Q4_K_M.gguf")
            here = in_front(pilot).here
            assert here is not None
            assert here.name == "Qwen3-14B-Q4_K_M"
            assert "goes on in the background" in text(pilot)

    async def test_words(self, hub: Hub) -> None:
        """Words are looked for on enter only; a gated repository is marked; escape goes back to what was found."""
        made = stocked()
        async with opened(made, (80, 24), mode="8") as pilot:
            await press(pilot, "s", "slash", *"gguf")
            assert hub.asked() == []
            await press(pilot, "enter")
            assert hub.asked() == ["gguf"]
            assert "gated" in text(pilot)
            assert "120k" in text(pilot)
            await press(pilot, "down", "enter")
            assert hub.asked() == ["gguf", GATED]
            assert "accept their terms" in " ".join(text(pilot).split())
            await press(pilot, "escape")
            assert GATED in text(pilot)
            assert hub_is_open(pilot)
            await press(pilot, "escape")
            assert not hub_is_open(pilot)
            assert made.models.pulls() == []


class TestDoing:
    async def test_verify(self) -> None:
        """v says what was found; damage is a dialog with what to do."""
        made = stocked()
        async with opened(made, (120, 36), mode="8") as pilot:
            await press(pilot, "down", "v")
            assert "Qwen3-8B-Q4_K_M is what Qwen/Qwen3-8B-GGUF has" in text(pilot)
            with made.catalog.entry(PULLED).path.open("r+b") as file:
                file.seek(-1, 2)
                file.write(b"x")
            await press(pilot, "v")
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "its checksum differs" in text(pilot)
            assert "pull it again." in text(pilot)

    async def test_remove(self) -> None:
        """D says what would be done and asks; what came with the program stays."""
        made = stocked()
        path = made.catalog.entry(PULLED).path
        async with opened(made, (120, 36), mode="8") as pilot:
            await press(pilot, "D")
            assert isinstance(pilot.app.screen, ErrorDialog)
            assert "came with the program" in text(pilot)
            await press(pilot, "escape", "down", "D")
            assert "delete Qwen3-8B-Q4_K_M from the disk, 5 MB" in text(pilot)
            await press(pilot, "enter")
            assert path.exists()
            await press(pilot, "D", "down", "enter")
            assert not path.exists()
            assert read_manifest(path) is None
            assert PULLED not in names(made)

    async def test_add(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """a asks for a path and adds what is there; an empty one adds nothing."""
        weights(tmp_path / "m.gguf", "Mine")
        monkeypatch.chdir(tmp_path)
        made = stocked()
        before = names(made)
        async with opened(made, (120, 36), mode="8") as pilot:
            await press(pilot, "a", "enter")
            assert names(made) == before
            await press(pilot, "a", *"m", "full_stop", *"gguf", "enter")
            assert "m added" in text(pilot)
            assert made.catalog.entry("m").path == tmp_path / "m.gguf"
            assert "added" in row(pilot, "m ")

    async def test_use(self) -> None:
        """u asks what for, with what does it now; the choice stands in the list."""
        async with opened(stocked(), (160, 40), mode="8") as pilot:
            await press(pilot, "down", "u")
            shown = " ".join(text(pilot).split())
            assert "Use Qwen3-8B-Q4_K_M for" in shown
            assert "scores and remaining tasks · now smollm2-135m" in shown
            await press(pilot, "down", "enter")
            assert "--model still names another" in " ".join(text(pilot).split())
            assert "for scoring, goals, trees ·" in row(pilot, "Qwen3-8B")
            assert "for simulation, questions ·" in row(pilot, "smollm2-135m")
            await press(pilot, "u", "enter")
            assert "for all work ·" in row(pilot, "Qwen3-8B")

    async def test_try_a_prompt(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """r asks for a prompt, and shows the replies of the model under the cursor to it; to close them ends the
        requests."""

        interrupted = []

        class Trial:
            """Stands in for a trial; the command is tested with real ones."""

            def __init__(self, _workspace: object, name: str) -> None:
                self.name = name

            def replies(self, models: list[str], count: int) -> dict[str, dict[str, str]]:
                return {f"{count} pairs": {models[0]: f"{self.name}: same goal"}}

            def interrupt(self) -> None:
                interrupted.append(self.name)

        monkeypatch.setattr(prompt_trials, "PromptTrial", Trial)
        async with opened(stocked(), mode="8") as pilot:
            await press(
                pilot, "r", *["down"] * list(prompt_trials.REPLY_FORMS).index("merge-json"), "enter"
            )
            await until(pilot, lambda: "merge-json: same goal" in text(pilot))
            assert f"merge-json with {BUILT_IN}" in text(pilot)
            await press(pilot, "r")
            assert "same goal" not in text(pilot)
            assert interrupted == ["merge-json"]

    async def test_tune(self) -> None:
        """t begins the job for a model, not for an adapter or an endpoint."""
        made = stocked()
        async with opened(made, mode="8") as pilot:
            await press(pilot, "t")
            assert made.tuned == [BUILT_IN]
            await press(pilot, "end", "t")
            assert "Only models that are here" in text(pilot)
            assert len(made.tuned) == 1
