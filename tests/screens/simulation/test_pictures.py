"""The simulation screens as they were looked at last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.fakes import FakeProject
from tests.screens.picturing import Picture, looks_as_before

PICTURES: dict[str, Picture] = {
    "simulation_narrow_dark": ((80, 24), False, ["9"]),
    "shards_wide_light": ((160, 50), True, ["9", "A", "enter", "down"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(picture: Picture, snap_compare: Callable[..., bool]) -> None:
    """A set with its plays; shards with what is missing."""
    assert looks_as_before(snap_compare, FakeProject([]), picture)
