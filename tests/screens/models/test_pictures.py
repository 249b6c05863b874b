"""Pictures of the models screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.models.catalog import PlacedModels, known_machine, stocked
from tests.screens.picturing import Picture, looks_as_before

PICTURES: dict[str, Picture] = {
    "models_narrow_dark": ((80, 24), False, ["8"]),
    "models_wide_light": ((160, 50), True, ["8", "down", "down", "down"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture, snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen looks as it did when it was last looked at."""
    known_machine(monkeypatch)
    made = stocked()
    made.models = made.model_service(PlacedModels)
    assert looks_as_before(snap_compare, made, picture)
