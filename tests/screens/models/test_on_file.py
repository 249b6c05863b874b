"""The models screen on a real catalogue: small GGUF files, and a hub of our own that is asked over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot

from engine.model.catalog import DEFAULT_MODEL, Catalog
from engine.services.models import service
from engine.services.models.endpoints import Endpoints
from engine.services.models.run_setup import RunSetup
from engine.services.models.service import ModelService
from engine.worker.client import ModelProcess
from screens.models import screen as models_screen
from screens.shell.dialogs import ErrorDialog
from tests.engine.model.tiny import write_sliding
from tests.engine.services.models.test_service import TunedOnly
from tests.hub_server import Fault, Repository, serving
from tests.screens.driving import lines, opened, press, text, until
from tests.screens.models.test_models import in_front, poll, row
from tests.screens.project import ScreenProject, project

NAME = "someone/Tiny-GGUF"


@dataclass
class Found:
    """A project whose models are those of a catalogue, and the models that tuning was started for."""

    project: ScreenProject
    catalog: Catalog
    tuned: list[str] = field(default_factory=list)


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Found]:
    """A catalogue with the built-in model and `mine`; files are added without loading them."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(
        service, "add_file", lambda catalog, path, name, narrate: catalog.add(path, name)
    )
    catalog = Catalog(tmp_path / "data", tmp_path / "cache")
    catalog.add(write_sliding(tmp_path / "mine.gguf"), "mine")
    made = Found(project(), catalog)

    file, endpoints = made.project.file, Endpoints(tmp_path / "data", tmp_path / "cache")
    setup = RunSetup(file, cast(ModelProcess, None), catalog, endpoints)
    runner = TunedOnly(file, made.tuned)
    models = ModelService(setup, runner, tmp_path / "config", lambda: None)
    monkeypatch.setattr(made.project, "models", models)
    yield made
    models.close()


async def test_listed_used_checked_and_removed(found: Found, tmp_path: Path) -> None:
    """What the catalogue holds is listed with its facts; choosing, checking, tuning, adding and removing reach it."""
    async with opened(found.project, (160, 40), mode="8") as pilot:
        assert "2 models · " in lines(pilot)[1]
        assert "for all work" in row(pilot, DEFAULT_MODEL)
        while row_here(pilot) != "mine":
            await press(pilot, "down")
        assert "SHA-256" in text(pilot)
        assert str(tmp_path / "mine.gguf") in text(pilot)
        await press(pilot, "u", "down", "enter")
        assert "for scoring" in row(pilot, "mine")
        assert "for goals, trees, simulation" in row(pilot, DEFAULT_MODEL)
        await press(pilot, "v")
        assert "mine" in text(pilot)
        await press(pilot, "t")
        assert found.tuned == ["mine"]
        await press(pilot, "D", "down", "enter")
        assert [entry.name for entry in found.catalog.entries()] == [DEFAULT_MODEL]
        assert (tmp_path / "mine.gguf").exists()


async def test_damage_is_shown(found: Found, tmp_path: Path) -> None:
    """A file that was cut off after it was added is unusable in the list, and checking it says so."""
    data = (tmp_path / "mine.gguf").read_bytes()
    (tmp_path / "mine.gguf").write_bytes(data[:100])
    async with opened(found.project, (160, 40), mode="8") as pilot:
        assert "unusable" in row(pilot, "mine")
        while row_here(pilot) != "mine":
            await press(pilot, "down")
        await press(pilot, "v")
        assert isinstance(pilot.app.screen, ErrorDialog)


async def test_pulled_from_the_hub(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is searched for on the hub, pulled, and stands in the list as a model of the catalogue."""
    weights = found.catalog.entry("mine").path.read_bytes()
    hold = threading.Event()
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serving({NAME: Repository({"tiny-f32.gguf": weights})}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        async with opened(found.project, (160, 40), mode="8") as pilot:
            await press(pilot, "s", "slash", *"tiny", "enter")
            assert NAME in text(pilot)
            await press(pilot, "enter")
            assert "tiny-f32.gguf" in text(pilot)
            server.faults.append(Fault(cut=3000, hold=hold))
            await press(pilot, "enter")
            assert "done" not in row(pilot, "tiny-f32")
            hold.set()
            models = in_front(pilot).models
            await until(pilot, lambda: [pull.state for pull in models.pulls()] == ["done"])
            await poll(pilot)
            assert "tiny-f32 is here" in text(pilot)
            assert "ready" in row(pilot, "tiny-f32")
    assert "tiny-f32" in [entry.name for entry in found.catalog.entries()]


def row_here(pilot: Pilot[None]) -> str:
    """The name under the cursor."""
    here = in_front(pilot).here
    return "" if here is None else here.name
