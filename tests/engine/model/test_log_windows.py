"""Windows over logs that exceed the context."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.model.log_windows import clip, plan_windows


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """(lengths, boundaries, kept, limit) as the callers pass them: no piece is longer than a third of the limit."""
    limit = draw(st.integers(30, 300))
    lengths = draw(st.lists(st.integers(1, limit // 3), min_size=1, max_size=60))
    kept = draw(st.integers(0, 1)) if len(lengths) > 1 else 0
    places = st.sampled_from(range(kept, len(lengths)))
    marks = sorted(draw(st.sets(places, min_size=1)))
    return lengths, marks, kept, limit


@given(logs())
def test_windows(log: tuple[list[int], list[int], int, int]) -> None:
    """Each boundary is given once and in order, no window exceeds the limit, the system message is in all of them.

    Every window is the kept pieces and one unbroken run that ends at the last boundary it gives.
    """
    lengths, marks, kept, limit = log
    windows = plan_windows(lengths, marks, kept, limit)
    assert [b for window in windows for b in window.boundaries] == marks
    for window in windows:
        assert sum(lengths[piece] for piece in window.pieces) <= limit
        assert window.pieces[:kept] == tuple(range(kept))
        run = window.pieces[kept:]
        assert run == tuple(range(run[0], run[-1] + 1))
        assert run[-1] == window.boundaries[-1]
        assert set(window.boundaries) <= set(run)


@given(logs())
def test_the_past_of_a_boundary(log: tuple[list[int], list[int], int, int]) -> None:
    """Before a boundary a window has the whole log, or as much as fills about half of the room beside the system
    message.
    """
    lengths, marks, kept, limit = log
    room = limit - sum(lengths[:kept])
    for window in plan_windows(lengths, marks, kept, limit):
        first = window.pieces[kept]
        for boundary in window.boundaries:
            past = sum(lengths[first : boundary + 1])
            assert first == kept or past + lengths[first - 1] > room // 2


@given(logs())
def test_one_window_where_everything_fits(log: tuple[list[int], list[int], int, int]) -> None:
    """A log that fits up to its last boundary is one window with all of it."""
    lengths, marks, kept, _ = log
    (window,) = plan_windows(lengths, marks, kept, sum(lengths))
    assert window.pieces == tuple(range(marks[-1] + 1))
    assert window.boundaries == tuple(marks)


def test_no_boundary_no_window() -> None:
    """A log without a boundary needs no window."""
    assert plan_windows([5, 5], [], 0, 3) == []


@given(st.lists(st.integers(0, 9), max_size=80), st.integers(6, 60))
def test_clip(tokens: list[int], limit: int) -> None:
    """A clipped text keeps beginning and end, marks the gap, and has exactly the length of the limit."""
    gap = [-1, -2, -3]
    short = clip(tokens, limit, gap)
    if len(tokens) <= limit:
        assert short == tokens
        return
    at = short.index(-1)
    assert len(short) == limit
    assert short[at : at + 3] == gap
    assert short[:at] == tokens[:at]
    assert short[at + 3 :] == tokens[len(tokens) - len(short[at + 3 :]) :]
    assert abs(at - len(short[at + 3 :])) <= 1
