"""Pictures of the training screen: a run that is running, one that failed, a new one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.screens.picturing import Picture, looks_as_before
from tests.screens.training.driving import path_of, still, trained
from tests.screens.training.training_runs import finish, write_run

PICTURES: dict[str, Picture] = {
    "training_narrow_dark": ((80, 24), False, ["7"]),
    "training_wide_light": ((160, 50), True, ["7", "down"]),
    "training_new_dark": ((80, 24), False, ["7", "n"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture, snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen looks as it did when it was last looked at."""
    still(monkeypatch)
    support = trained()
    paper = write_run(
        path_of(support), "paper-1", recipe="paper", best=(0.93, 0.88),
        created_at="2026-10-30T08:12:00+00:00",
    )  # fmt: skip
    finish(paper)
    assert looks_as_before(snap_compare, support, picture)
