"""What a hub and the files of others say of themselves neither acts nor breaks the models screen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from engine.base import folders
from engine.base.conversation import without_surrogates
from engine.base.errors import ModelError
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog_files import PartFile
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from engine.model.records import HubFile, HubModel, HubPage, HubRepository, PullRow
from engine.model.service.service import ModelService
from screens.models import screen as models_screen
from screens.shell.base_app import ControlGuard
from tests.engine.model.small_adapters import adapter_file
from tests.screens.driving import opened, press, text
from tests.screens.models.catalog import FREE, GB, known_machine, resting_pull, weights
from tests.screens.project import ScreenProject, project
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())


class HostileHub(ModelService):
    """Says a payload wherever a hub can say something, even what the engine would not take from it.

    Attributes:
        refuses: Whether the hub gives an error, of the payload, when a repository is looked at.
    """

    payload = ""
    refuses = False

    def hub(self) -> str:
        return self.payload

    def search(self, text: str) -> list[HubModel]:
        return [HubModel(self.payload, True, self.payload, 3, 0, self.payload)]

    def look_at(self, repository: str) -> HubPage:
        if self.refuses:
            raise ModelError(self.payload, self.payload)
        said = self.payload
        file = HubFile((PartFile(said, 1, ""), PartFile(said, 0, "")))
        return HubPage(HubRepository(said, said, said, True, (file,), 1), said, FREE, 0)

    def pulls(self) -> list[PullRow]:
        first, second = super().pulls()
        said = self.payload
        return [
            replace(first, redirect=said, state="pulling"),
            replace(second, state="failed", problem=said, hint=said),
        ]


def hostile(payload: str) -> tuple[ScreenProject, HostileHub]:
    """A catalog with the payload wherever text of others can stand, and a hub that says it."""
    written = without_surrogates(payload)
    files = folders.data_dir() / "files"
    files.mkdir(parents=True)
    can = Capabilities(payload, completions=True)
    entry = EndpointEntry(payload, f"http://gpu/v1#{payload}", can, payload)
    (folders.data_dir() / "endpoints.json").write_text(json.dumps({payload: entry.as_params()}))
    recommended = "\n".join(
        f"{key} = {json.dumps(written)}" for key in ("repository", "file", "license", "note")
    )
    (folders.config_dir() / "recommended.toml").write_text(
        f'[[set]]\nmemory = 8\n[[set.model]]\nrole = "base"\nsize = 2.1\n{recommended}', "utf-8"
    )
    for number in (4, 5):
        resting_pull(f"{payload}{number}", number, GB, payload)
    made = project()
    path = weights(files / "sound.gguf", written, written)
    for name in (f"{payload}1", *PAYLOADS.values()):
        made.catalog.add(path, name)
    (files / "cut.gguf").write_bytes(path.read_bytes()[:100])
    made.catalog.add(files / "cut.gguf", f"{payload}2")
    origin = AdapterOrigin(written, written, written, written)
    made.catalog.add_adapter(adapter_file(files / "adapter.gguf", origin=origin), f"{payload}3")
    made.models = models = made.model_service(HostileHub)
    models.payload = payload
    return made, models


def shows(pilot: Pilot[None], payload: str, where: str) -> None:
    """The payload is there, and does nothing."""
    assert payload[:3] in text(pilot), where
    check(pilot, where)


@pytest.mark.parametrize("payload", [ALL, "W" * 10_000], ids=["every payload", "ten thousand"])
async def test_nothing_acts(payload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list, below it, in the dialogs and in messages, without the net too."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    known_machine(monkeypatch)
    made, models = hostile(payload)
    async with opened(made, (80, 24), mode="8") as pilot:
        for _ in range(5):
            shows(pilot, payload, "list")
            await press(pilot, "down")
        await press(pilot, "end")
        shows(pilot, payload, "adapter")
        await press(pilot, "home", "down", "down", "down", "v")
        shows(pilot, payload, "verified")
        await press(pilot, "D")
        shows(pilot, payload, "remove")
        await press(pilot, "escape", "s")
        shows(pilot, payload, "recommended")
        await press(pilot, "enter")
        shows(pilot, payload, "files")
        await press(pilot, "escape", "slash", *"x", "enter")
        shows(pilot, payload, "found")
        models.refuses = True
        await press(pilot, "enter")
        shows(pilot, payload, "refused")
