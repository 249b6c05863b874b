"""Windows over logs that exceed the context."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.model.log_windows import Window, clip, plan_windows


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """(lengths, boundaries, kept, limit) as the callers pass them; some pieces are longer than the limit."""
    limit = draw(st.integers(30, 300))
    piece = st.one_of(st.integers(1, limit // 3), st.integers(1, 2 * limit))
    lengths = draw(st.lists(piece, min_size=1, max_size=60))
    kept = draw(st.integers(0, 1)) if len(lengths) > 1 else 0
    places = st.sampled_from(range(kept, len(lengths)))
    marks = sorted(draw(st.sets(places, min_size=1)))
    return lengths, marks, kept, limit


def lengths_in(window: Window, lengths: list[int], limit: int) -> list[int]:
    """The tokens that each piece of a log has in a window."""
    return [min(length, limit // 3) for length in lengths] if window.clipped else lengths


@given(logs())
def test_windows(log: tuple[list[int], list[int], int, int]) -> None:
    """Each boundary is given once and in order, no window exceeds the limit, the system message is in all of them.

    Every window is the kept pieces and one unbroken run that ends at the last boundary it gives.
    """
    lengths, marks, kept, limit = log
    windows = plan_windows(lengths, marks, kept, limit)
    assert [b for window in windows for b in window.boundaries] == marks
    for window in windows:
        read_lengths = lengths_in(window, lengths, limit)
        assert sum(read_lengths[piece] for piece in window.pieces) <= limit
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
    for window in plan_windows(lengths, marks, kept, limit):
        read_lengths = lengths_in(window, lengths, limit)
        room = limit - sum(read_lengths[:kept])
        first = window.pieces[kept]
        for boundary in window.boundaries:
            past = sum(read_lengths[first : boundary + 1])
            assert first == kept or past + read_lengths[first - 1] > room // 2


@given(logs())
def test_a_boundary_is_read_as_if_the_log_ended_there(
    log: tuple[list[int], list[int], int, int],
) -> None:
    """What a window has up to a boundary does not depend on what follows in the log."""
    lengths, marks, kept, limit = log

    def read_up_to(windows: list[Window], boundary: int) -> tuple[list[int], bool]:
        (window,) = (window for window in windows if boundary in window.boundaries)
        return [piece for piece in window.pieces if piece <= boundary], window.clipped

    whole = plan_windows(lengths, marks, kept, limit)
    for boundary in marks:
        cut_marks = [mark for mark in marks if mark <= boundary]
        cut = plan_windows(lengths[: boundary + 1], cut_marks, kept, limit)
        assert read_up_to(cut, boundary) == read_up_to(whole, boundary)


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
