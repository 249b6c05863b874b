"""Pictures of the models screen: a pull at work above what is here, and the files of a repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from screens import models as models_screen
from tests.screens.driving import press, settle
from tests.screens.fake_models import ADAPTER, BROKEN, BUILT_IN, LARGE, PULLED, PULLING
from tests.screens.fakes import project
from workbench.app import WorkbenchApp

PICTURES = {
    "models_narrow_dark": ((80, 24), False, ["8"]),
    "models_wide_light": ((160, 50), True, ["8", "down", "down", "down"]),
    "models_hub_dark": ((80, 24), False, ["8", "s"]),
    "models_files_light": ((80, 24), True, ["8", "s", "enter"]),
}


@pytest.mark.parametrize(("size", "light", "keys"), PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    size: tuple[int, int],
    light: bool,
    keys: list[str],
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The screen looks as it did when it was last looked at."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    fake = project()
    fake.models.given = [BUILT_IN, PULLED, LARGE, BROKEN, ADAPTER]
    resting = replace(PULLING, name="bge-m3-q8_0", state="paused", rate=None, done=100_000_000)
    fake.models.given_pulls = [PULLING, replace(resting, total=640_000_000)]
    app = WorkbenchApp(fake.services(), fake.subscribe, clock=lambda: 0.0)

    async def act(pilot: Pilot[None]) -> None:
        await settle(pilot)
        if light:
            await press(pilot, "T")
        await press(pilot, *keys)

    assert snap_compare(app, terminal_size=size, run_before=act)
