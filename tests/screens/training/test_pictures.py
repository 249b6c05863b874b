"""Pictures of the training screen: a run at work, one that failed, a new one, two beside each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from screens.training import view
from tests.screens.fakes import project
from tests.screens.picturing import Picture, looks_as_before
from tests.screens.training.fake_training import FAILED, run, running

PICTURES: dict[str, Picture] = {
    "training_narrow_dark": ((80, 24), False, ["7"]),
    "training_wide_light": ((160, 50), True, ["7", "down"]),
    "training_failed_light": ((80, 24), True, ["7", "end"]),
    "training_new_dark": ((80, 24), False, ["7", "n"]),
    "training_compared_dark": ((120, 36), False, ["7", "down", "c", "end", "enter"]),
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The screen looks as it did when it was last looked at."""
    monkeypatch.setattr(view, "POLL_SECONDS", 3600.0)
    fake = project()
    paper = run("paper-1", recipe="paper", auroc=0.93, f1=0.88)
    fake.training.given = [running(), run(in_use=True), paper, FAILED]
    assert looks_as_before(snap_compare, fake, picture)
