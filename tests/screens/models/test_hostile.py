"""What the files of others say of themselves neither acts nor breaks the models screen."""

from __future__ import annotations

import json

import pytest
from textual.pilot import Pilot

from engine.base import folders
from engine.base.conversation import without_surrogates
from engine.model.adapter_files import AdapterOrigin
from engine.model.endpoints.capabilities import Capabilities
from engine.model.endpoints.endpoint_book import EndpointEntry
from screens.models import ModelsScreen
from screens.shell.base_app import ControlGuard
from tests.engine.model.small_adapters import adapter_file
from tests.screens.driving import opened, press, settle, text
from tests.screens.models.catalog import known_machine, weights
from tests.screens.project import ScreenProject, project
from tests.screens.test_hostile_text import check
from tests.terminal.payloads import PAYLOADS

ALL = " ".join(PAYLOADS.values())


def hostile(payload: str) -> ScreenProject:
    """A catalog with the payload wherever text of others can stand."""
    written = without_surrogates(payload)
    files = folders.data_dir() / "files"
    files.mkdir(parents=True)
    can = Capabilities(payload, completions=True)
    entry = EndpointEntry(payload, f"http://gpu/v1#{payload}", can, payload)
    (folders.data_dir() / "endpoints.json").write_text(json.dumps({payload: entry.as_params()}))
    made = project()
    path = weights(files / "sound.gguf", written, written)
    for name in (f"{payload}1", *PAYLOADS.values()):
        made.catalog.add(path, name)
    (files / "cut.gguf").write_bytes(path.read_bytes()[:100])
    made.catalog.add(files / "cut.gguf", f"{payload}2")
    origin = AdapterOrigin(written, written, written, written)
    made.catalog.add_adapter(adapter_file(files / "adapter.gguf", origin=origin), f"{payload}3")
    return made


def shows(pilot: Pilot[None], payload: str, where: str) -> None:
    """The payload is there, and does nothing."""
    assert payload[:3] in text(pilot), where
    check(pilot, where)


@pytest.mark.parametrize("payload", [ALL, "W" * 10_000], ids=["every payload", "ten thousand"])
async def test_nothing_acts(payload: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the list, below it, in the dialogs and in messages, without the net too."""
    monkeypatch.setattr(ControlGuard, "apply", lambda self, segments, background: segments)
    known_machine(monkeypatch)
    async with opened(hostile(payload), (80, 24), mode="8") as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, ModelsScreen)
        for name in (f"{payload}3", payload, f"{payload}2", f"{payload}1"):
            assert screen.table.move_to_key(name)
            await settle(pilot)
            shows(pilot, payload, name)
        await press(pilot, "D")
        shows(pilot, payload, "remove")
