"""Which conversations to read first, and why."""

from __future__ import annotations

import pytest

from engine.base.conversation import State
from engine.completeness.records import CurvePoint, ScoreRow
from engine.opener.first_reading import reason


@pytest.mark.parametrize(("turns", "place"), [((1, 1), "step 2"), ((1, 2), "turn 1")])
def test_the_reason_names_where_it_seemed_done(turns: tuple[int, int], place: str) -> None:
    """A conversation whose curve fell is said to have seemed done earlier: after a step in a log of one turn, else
    after a turn."""
    curve = tuple(
        CurvePoint(at, at + 1, turn, p, 1 - p)
        for at, turn, p in zip((1, 3), turns, (0.9, 0.1), strict=True)
    )
    score = ScoreRow(1, "k", 1, State.INCOMPLETE, None, 0.1, 0.1, curve, "probe", "m", None, None)
    found = reason(score, "user", "book a table")
    assert f"seemed done after {place} (.90) and went on" in found
    assert "book a table" in found
