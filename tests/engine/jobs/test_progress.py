"""Rate and time left."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.jobs.progress import RateMeter, TimeLeft, time_left_text


class Clock:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class TestPace:
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


SECONDS = st.floats(1, 1000)


def read(left: TimeLeft, batches: list[float]) -> list[tuple[float, float]]:
    """Reads batches of equal size that take these seconds; (true, estimated) seconds left after each but the last."""
    left.begin("read")
    left.mark("read", 0.0, 100.0)
    now, found = 100.0, []
    for number, seconds in enumerate(batches[:-1], 1):
        now += seconds
        left.mark("read", number / len(batches), now)
        estimate = left.seconds_left()
        assert estimate is not None
        found.append((sum(batches[number:]), estimate))
    return found


class TestTimeLeft:
    @given(st.floats(0.1, 30), st.integers(10, 200), st.floats(0.2, 5))
    def test_a_wrong_expectation_is_outgrown(
        self, seconds: float, batches: int, factor: float
    ) -> None:
        """At a constant speed the estimate is within half of the truth from a third on, even where five times as
        much or as little was expected."""
        left = TimeLeft()
        left.expect("read", factor * seconds * batches)
        found = read(left, [seconds] * batches)
        for true, estimate in found[batches // 3 :]:
            assert 0.5 * true <= estimate <= 1.6 * true

    @given(st.lists(st.floats(0.5, 2.0), min_size=20, max_size=100))
    def test_uneven_batches_do_not_make_it_jump(self, batches: list[float]) -> None:
        """Where some batches take four times as long as others, no estimate rises to more than twice the one
        before, nor falls below half of it before the last fifth."""
        left = TimeLeft()
        left.expect("read", sum(batches))
        shown = [estimate for _, estimate in read(left, batches)]
        for before, after in pairwise(shown[: 4 * len(shown) // 5]):
            assert 0.5 * before <= after <= 2 * before


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (0, "a few seconds left"),
        (9, "about 10 s left"),
        (44, "about 40 s left"),
        (70, "about 1 min left"),
        (250, "about 4 min left"),
        (3 * 3600, "about 3.0 h left"),
    ],
)
def test_in_words(seconds: float | None, said: str) -> None:
    """The time left is said as roughly as it is known."""
    assert time_left_text(seconds) == said
