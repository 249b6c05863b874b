"""Pictures of the training screen: a run at work, one that failed, a new one, two beside each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from screens import training_view
from tests.screens.driving import press, settle
from tests.screens.fake_training import FAILED, run, running
from tests.screens.fakes import project
from workbench.app import WorkbenchApp

PICTURES = {
    "training_narrow_dark": ((80, 24), False, ["7"]),
    "training_wide_light": ((160, 50), True, ["7", "down"]),
    "training_failed_light": ((80, 24), True, ["7", "end"]),
    "training_new_dark": ((80, 24), False, ["7", "n"]),
    "training_compared_dark": ((120, 36), False, ["7", "down", "c", "end", "enter"]),
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
    monkeypatch.setattr(training_view, "POLL_SECONDS", 3600.0)
    fake = project()
    paper = run("paper-1", recipe="paper", auroc=0.93, f1=0.88)
    fake.training.given = [running(), run(in_use=True), paper, FAILED]
    app = WorkbenchApp(fake.services(), fake.subscribe, clock=lambda: 0.0)

    async def act(pilot: Pilot[None]) -> None:
        await settle(pilot)
        if light:
            await press(pilot, "T")
        await press(pilot, *keys)

    assert snap_compare(app, terminal_size=size, run_before=act)
