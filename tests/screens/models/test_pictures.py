"""Pictures of the models screen: a pull at work above what is here, and the files of a repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from screens.models import screen as models_screen
from tests.screens.models.catalog import (
    Hub,
    PlacedModels,
    known_machine,
    pulling,
    resting_pull,
    serve,
    stocked,
)
from tests.screens.picturing import Picture, looks_as_before

PICTURES: dict[str, Picture] = {
    "models_narrow_dark": ((80, 24), False, ["8"]),
    "models_wide_light": ((160, 50), True, ["8", "down", "down", "down"]),
    "models_hub_dark": ((80, 24), False, ["8", "s"]),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The hub that is asked."""
    yield from serve(monkeypatch)


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture,
    snap_compare: Callable[..., bool],
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The screen looks as it did when it was last looked at."""
    monkeypatch.setattr(models_screen, "POLL_SECONDS", 3600.0)
    known_machine(monkeypatch)
    made = stocked()
    made.models = made.model_service(PlacedModels)
    hub.server.elsewhere = True
    pulling(made, hub)
    resting_pull("bge-m3-q8_0", 100_000_000, 640_000_000)
    assert looks_as_before(snap_compare, made, picture)
