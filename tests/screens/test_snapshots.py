"""One picture for each state of a screen worth looking at: dark and light, narrow and wide."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from textual.pilot import Pilot

from engine.base.events import JobProgress
from tests.screens.driving import StartedApp, mode_of, press, settle
from tests.screens.goals.goal_project import clustered
from tests.screens.models.catalog import PlacedModels, known_machine, stocked
from tests.screens.project import ScreenProject, project
from tests.screens.training.driving import path_of, still, trained
from tests.screens.training.training_runs import finish, write_run

Picture = tuple[tuple[int, int], bool, list[str]]
"""Size in cells, whether the theme is light, and the keys that lead there."""

JOB = JobProgress(7, "score", "Scoring", 412, 812, "conversations", 2.5, 160.0, "support/0412")
PICTURES: dict[str, Picture] = {
    "overview_narrow_dark": ((80, 24), False, ["1"]),
    "overview_wide_light": ((160, 50), True, ["1"]),
    "calibration_light": ((80, 24), True, ["3", "c", "i", "K"]),
    "goals_narrow_dark": ((80, 24), False, ["5", "down"]),
    "goals_wide_light": ((160, 50), True, ["5", "down"]),
    "desk_narrow_dark": ((80, 24), False, ["6", "n"]),
    "desk_wide_light": ((160, 50), True, ["6", "n"]),
    "desk_history_dark": ((120, 34), False, ["6", "y", "n", "H"]),
    "list_narrow_dark": ((80, 24), False, ["2", "down"]),
    "list_wide_light": ((160, 50), True, ["2", "down"]),
    "reader_narrow_light": ((80, 24), True, ["2", "down", "enter", "right_square_bracket"]),
    "reader_wide_dark": ((160, 50), False, ["2", "down", "enter", "right_square_bracket"]),
    "triage_narrow_dark": ((80, 24), False, ["3", "c", "i"]),
    "triage_wide_light": ((160, 50), True, ["3", "c", "i"]),
    "training_narrow_dark": ((80, 24), False, ["7"]),
    "training_wide_light": ((160, 50), True, ["7", "down"]),
    "training_new_dark": ((80, 24), False, ["7", "n"]),
    "models_narrow_dark": ((80, 24), False, ["8"]),
    "models_wide_light": ((160, 50), True, ["8", "down", "down", "down"]),
}


def project_for(mode: str, monkeypatch: pytest.MonkeyPatch) -> ScreenProject:
    """A project that has what the screen of a mode shows."""
    if mode == "7":
        still(monkeypatch)
        support = trained()
        created_at = "2026-10-30T08:12:00+00:00"
        path = path_of(support)
        finish(write_run(path, "paper-1", recipe="paper", best=(0.93, 0.88), created_at=created_at))
        return support
    if mode == "8":
        known_machine(monkeypatch)
        support = stocked()
        support.models = support.model_service(PlacedModels)
        return support
    support = clustered() if mode in "156" else project()
    support.jobs.running = [JOB]
    return support


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture,
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The screen looks as it did when it was last looked at."""
    # What a filter finds while it is typed depends on how fast that is.
    monkeypatch.setattr("screens.widgets.filter_line.TYPING_REST_SECONDS", 3600.0)
    minutes = count()
    monkeypatch.setattr(
        "engine.goals.views.decision_log.utc_now", lambda: f"2026-10-31T10:{next(minutes):02}:00Z"
    )
    size, light, (mode, *keys) = picture
    support = project_for(mode, monkeypatch)
    app = StartedApp(support.services(), support.subscribe)
    app.first_mode = mode_of(mode)

    async def act(pilot: Pilot[None]) -> None:
        await settle(pilot)
        if light:
            await press(pilot, "T")
        await press(pilot, *keys)

    assert snap_compare(app, terminal_size=size, run_before=act)
