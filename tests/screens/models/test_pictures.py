"""Pictures of the models screen: a pull at work above what is here, and the files of a repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from screens.models import screen as models_screen
from tests.screens.models.fake_models import ADAPTER, BROKEN, BUILT_IN, LARGE, PULLED, PULLING
from tests.screens.picturing import Picture, looks_as_before
from tests.screens.project import project

PICTURES: dict[str, Picture] = {
    "models_narrow_dark": ((80, 24), False, ["8"]),
    "models_wide_light": ((160, 50), True, ["8", "down", "down", "down"]),
    "models_hub_dark": ((80, 24), False, ["8", "s"]),
    "models_files_light": ((80, 24), True, ["8", "s", "enter"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The screen looks as it did when it was last looked at."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    fake = project()
    fake.models.given = [BUILT_IN, PULLED, LARGE, BROKEN, ADAPTER]
    resting = replace(PULLING, name="bge-m3-q8_0", state="paused", rate=None, done=100_000_000)
    fake.models.given_pulls = [PULLING, replace(resting, total=640_000_000)]
    assert looks_as_before(snap_compare, fake, picture)
