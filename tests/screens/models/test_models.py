"""The models: what is listed of each, and what is done to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base import folders, number_format
from engine.model.catalog_files import read_manifest
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.opener import model_previews
from screens.shell.dialogs import ErrorDialog
from tests.screens.driving import lines, opened, press, settle, text, until
from tests.screens.models.catalog import BUILT_IN, PULLED, known_machine, stocked, weights
from tests.screens.project import ScreenProject, project


@pytest.fixture(autouse=True)
def steady_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same machine everywhere."""
    known_machine(monkeypatch)


def row(pilot: Pilot[None], name: str) -> str:
    """The line of the list that begins with this name."""
    return next(line for line in lines(pilot) if line.strip().startswith(name))


def names(made: ScreenProject) -> list[str]:
    """The models of the catalog."""
    return [entry.name for entry in made.catalog.entries()]


class TestList:
    async def test_models_and_adapters(self) -> None:
        """However wide, each stands with its state and sizes, and what is under the cursor is told below."""
        made = stocked()
        need = {one.name: number_format.size(one.memory) for one in made.models.rows()}
        async with opened(made, (80, 24), mode="8") as pilot:
            for size in ((80, 24), (200, 60)):
                await pilot.resize_terminal(*size)
                await settle(pilot)
                assert "workbench models search WORDS" in lines(pilot)[1], size
                for name, parts in (
                    ("smollm2-135m", ("as bf16", "1,650 t/s", need[BUILT_IN])),
                    ("Qwen3-8B", ("ready", "5 MB", need[PULLED])),
                    ("grok-1", ("too large",)),
                    ("cut", ("unusable",)),
                    ("support-v3", ("adapter",)),
                ):
                    for part in parts:
                        assert part in row(pilot, name), size
                assert all(len(line) == size[0] for line in lines(pilot)), size

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


class TestDoing:
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
            assert "for simulation ·" in row(pilot, "smollm2-135m")
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

        monkeypatch.setattr(model_previews, "PromptTrial", Trial)
        async with opened(stocked(), mode="8") as pilot:
            await press(
                pilot,
                "r",
                *["down"] * list(model_previews.REPLY_FORMS).index("merge-json"),
                "enter",
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
