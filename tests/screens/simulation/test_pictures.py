"""The simulation screens as they were looked at last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.picturing import Picture, looks_as_before
from tests.screens.project import project
from tests.screens.simulation.played import store_plays

PICTURES: dict[str, Picture] = {
    "simulation_narrow_dark": ((80, 24), False, ["9"]),
    "simulation_wide_light": ((160, 50), True, ["9"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture,
    snap_compare: Callable[..., bool],
) -> None:
    """A set with its plays."""
    made = project(6)
    store_plays(made.file)
    assert looks_as_before(snap_compare, made, picture)
