"""The measured rate of work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.jobs.rate import RateMeter


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestPace:
    def test_only_the_recent_past_counts(self) -> None:
        """After a slow beginning the rate becomes that of the recent window."""
        clock = Clock()
        pace = RateMeter(clock)
        pace.mark(0)
        clock.now += 1000
        pace.mark(10)
        for done in range(20, 420, 10):
            clock.now += 1
            pace.mark(done)
        assert pace.rate() == pytest.approx(10.0)

    def test_a_stall_lowers_the_rate(self) -> None:
        """Time without progress lowers the rate."""
        clock = Clock()
        pace = RateMeter(clock)
        pace.mark(0)
        clock.now += 1
        pace.mark(10)
        assert pace.rate() == 10
        clock.now += 9
        assert pace.rate() == 1

    @given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 1000)), max_size=30))
    def test_never_nonsense(self, steps: list[tuple[float, int]]) -> None:
        """Rates and remaining times are never negative."""
        clock = Clock()
        pace = RateMeter(clock)
        done = 0
        for seconds, units in steps:
            clock.now += seconds
            done += units
            pace.mark(done)
            rate, eta = pace.rate(), pace.eta(done, 500)
            assert rate is None or rate >= 0
            assert eta is None or eta >= 0


def test_one_batch_does_not_change_the_time_left_of_a_long_window() -> None:
    """Batches of 30 s whose end corrects the share from 5 to 10% leave the estimate within a factor of 1.6, where a
    window shorter than a batch makes it five times too small."""
    found = {}
    for window in (20.0, 300.0):
        clock = Clock()
        meter = RateMeter(clock, window)
        meter.mark(0)
        told = []
        for batch in range(10):
            for second in range(1, 31):
                clock.now += 1
                share = 5 * second / 30 if second < 30 else 10
                meter.mark(1000 * batch + round(100 * share))
                if batch in range(1, 9):
                    left = 30 * (9 - batch) + 30 - second
                    told.append((meter.eta(1000 * batch + round(100 * share), 10_000) or 0) / left)
        found[window] = min(told), max(told)
    assert 1 / 1.6 < found[300.0][0] < found[300.0][1] < 1.6
    assert found[20.0][0] < 1 / 1.6 or found[20.0][1] > 1.6


def test_time_left_stays_inside_a_long_batch() -> None:
    """A batch that takes longer than the window does not take the time left away; it grows."""
    clock = Clock()
    meter = RateMeter(clock)
    meter.mark(0)
    clock.now += 10
    meter.mark(8)
    told = []
    for _ in range(60):
        clock.now += 1
        meter.mark(8)
        told.append(meter.eta(8, 20))
    assert None not in told
    assert told == sorted(told, key=lambda seconds: seconds or 0.0)
