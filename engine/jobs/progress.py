"""Measures the rate of a running job, and estimates the seconds left of work in several steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

Clock = Callable[[], float]
"""Returns the time of a monotonic clock, in seconds."""

WINDOW_SECONDS = 20.0
"""Default length of the window over which a rate is measured."""

PRIOR_SHARE = 0.05
"""Share of a step whose measurement would weigh as much as the expected seconds of the step."""

LEAST_SHARE = 0.02
"""Share of a step without expected seconds that has to be measured before its time left is estimated."""

MIN_GROWTH_SHOWN = 1.25
"""An estimate that grows by less than this factor is not shown: the previous one stays."""


class _Mark(NamedTuple):
    """The number of units that were done at a time, in seconds of the clock."""

    time: float
    done: int


class RateMeter:
    """Measures the rate of a job over the last seconds."""

    def __init__(self, clock: Clock, window: float = WINDOW_SECONDS) -> None:
        """Starts without marks; `window` is the length of the window in seconds, which should hold several batches."""
        self._clock, self._window_seconds = clock, window
        self._marks: deque[_Mark] = deque()

    def mark(self, done: int) -> None:
        """Records that `done` units are done now."""
        now = self._clock()
        if self._marks and self._marks[-1].done == done:
            return  # inside a batch that takes longer than the window the rate sinks, but does not vanish
        self._marks.append(_Mark(now, done))
        # the oldest mark that stays may lie before the window: the rate is measured over at least its length
        while len(self._marks) > 2 and self._marks[1].time <= now - self._window_seconds:
            self._marks.popleft()

    def rate(self) -> float | None:
        """Returns the units a second since the oldest mark that is kept; None before two marks, or before any time has
        passed."""
        if len(self._marks) < 2:
            return None
        oldest, newest = self._marks[0], self._marks[-1]
        seconds = self._clock() - oldest.time
        return (newest.done - oldest.done) / seconds if seconds > 0 else None

    def eta(self, done: int, total: int | None) -> float | None:
        """Returns the seconds left at the present rate; None while rate or total is unknown, or the rate is 0."""
        rate = self.rate()
        if total is None or rate is None or rate <= 0:
            return None
        return max(total - done, 0) / rate


@dataclass(slots=True)
class _Step:
    """One step of a plan.

    Attributes:
        expected_seconds: Seconds that the step was expected to take; None if nothing was known.
        share: Share of the step that is done, 0 to 1.
        first_share: Share that was done at the first measurement; None before that.
        measured_seconds: Seconds between the measurements of the step.
        last_time: Time of the last measurement, in seconds; None since the step was begun.
    """

    expected_seconds: float | None
    share: float = 0.0
    first_share: float | None = None
    measured_seconds: float = 0.0
    last_time: float | None = None

    def seconds_left(self) -> float | None:
        """Returns the seconds left of this step; None while nothing is known."""
        measured_share = self.share - (self.first_share or 0.0)
        if self.expected_seconds is None:
            if measured_share < LEAST_SHARE:
                return 0.0 if self.share >= 1 else None
            return (1 - self.share) * self.measured_seconds / measured_share
        # the seconds of the whole step: a weighted mean of what was expected and what was measured
        weighted_seconds = PRIOR_SHARE * self.expected_seconds + self.measured_seconds
        return (1 - self.share) * weighted_seconds / (PRIOR_SHARE + measured_share)


class TimeLeft:
    """Estimates the seconds left of a plan of steps.

    The pace of a step is measured over the whole step, not over the last seconds, so that one slow batch changes the
    estimate little. A step can be begun again after a pause; the pause is not counted.
    """

    def __init__(self) -> None:
        """Begins with a plan without steps."""
        self._steps: dict[str, _Step] = {}
        self._shown: float | None = None  # the estimate that was shown last, in seconds

    def expect(self, name: str, seconds: float | None) -> None:
        """Adds a step to the plan, or changes its expected time; a step that is done has to be done once more.

        Args:
            name: Name of the step.
            seconds: Seconds that the step is expected to take; None where nothing is known of its speed yet.
        """
        step = self._steps.get(name)
        if step is None or step.share >= 1:
            self._steps[name] = _Step(seconds)
        else:
            step.expected_seconds = seconds
        self._shown = None

    def begin(self, name: str) -> None:
        """Begins a step; the time before its first `mark`, such as that of loading a model, is not measured."""
        self._steps.setdefault(name, _Step(None)).last_time = None

    def mark(self, name: str, share: float, now: float) -> None:
        """Records that at the time `now`, in seconds, a share of a step (0 to 1) is done."""
        step = self._steps[name]
        if step.first_share is None:
            step.first_share = share
        if step.last_time is not None:
            step.measured_seconds += max(0.0, now - step.last_time)
        step.last_time = now
        step.share = min(1.0, max(step.share, share))

    def end(self, name: str) -> None:
        """Records that a step is done, or that there is nothing to do for it."""
        self._steps.setdefault(name, _Step(None)).share = 1.0

    def seconds_left(self) -> float | None:
        """Returns the seconds left of all steps; None while the speed of a step that is not done is unknown.

        The number falls with every measurement that says so, but rises only by the factor `MIN_GROWTH_SHOWN` or more.
        """
        total = 0.0
        for step in self._steps.values():
            seconds = step.seconds_left()
            if seconds is None:
                return None
            total += seconds
        if self._shown is None or not self._shown < total < MIN_GROWTH_SHOWN * self._shown:
            self._shown = total
        return self._shown


def time_left_text(seconds: float | None) -> str:
    """Returns a time left in words, as rough as it is known: `a few seconds left`, `about 40 s left`; empty where it is
    not known."""
    if seconds is None:
        return ""
    if seconds < 8:
        return "a few seconds left"
    if seconds < 55:
        return f"about {round(seconds / 10) * 10 or 10} s left"
    minutes = round(seconds / 60) or 1
    if minutes < 90:
        return f"about {minutes} min left"
    return f"about {seconds / 3600:.1f} h left"
