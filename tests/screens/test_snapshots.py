"""One picture for each state of a screen worth looking at: dark and light, narrow and wide."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from engine.base.events import JobProgress
from tests.screens.goals.goal_project import clustered
from tests.screens.picturing import Picture, looks_as_before
from tests.screens.project import project

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
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_picture(
    picture: Picture, snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen looks as it did when it was last looked at."""
    # What a filter finds while it is typed depends on how fast that is.
    monkeypatch.setattr("screens.widgets.filter_line.TYPING_REST_SECONDS", 3600.0)
    minutes = count()
    monkeypatch.setattr(
        "engine.goals.views.decision_log.utc_now", lambda: f"2026-10-31T10:{next(minutes):02}:00Z"
    )
    support = clustered() if picture[2][0] in "156" else project()
    support.jobs.running = [JOB]
    assert looks_as_before(snap_compare, support, picture)
