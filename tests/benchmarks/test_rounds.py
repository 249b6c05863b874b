"""How often a measurement is repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.rounds import rounds


@given(
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=8), st.floats(0.0, 60.0), st.integers(1, 8)
)
def test_rounds_end_in_time(times: list[float], seconds: float, most: int) -> None:
    """There is a first round in any case; another one only if one as long as the mean so far ends in time, and never
    more than asked for."""
    now = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", lambda: now)
        done: list[float] = []
        for number in rounds(min(most, len(times)), seconds):
            assert number == len(done)
            if done:
                assert sum(done) * (1 + 1 / len(done)) <= seconds
            now += times[number]
            done.append(times[number])
    assert done
    more = len(done) < min(most, len(times))
    assert not more or sum(done) * (1 + 1 / len(done)) > seconds


def test_without_a_limit_all_rounds_are_done() -> None:
    """Where no time is given only the number limits them."""
    assert list(rounds(3)) == [0, 1, 2]
