"""The validation screen as it was looked at last."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.picturing import Picture, looks_as_before
from tests.screens.validation.validation_project import validated

PICTURES: dict[str, Picture] = {
    "validation_narrow_dark": ((80, 24), False, ["V", "right"]),
    "validation_wide_light": ((160, 50), True, ["V", "right", "down"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(picture: Picture, snap_compare: Callable[..., bool]) -> None:
    """Table, curves and conclusions."""
    assert looks_as_before(snap_compare, validated(), picture)
