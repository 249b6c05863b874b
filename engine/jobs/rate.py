"""Rate and remaining time of a running job."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Clock = Callable[[], float]
"""A monotonic clock, in seconds."""

WINDOW_SECONDS = 20.0
"""Length of the window over which the rate is measured, where nothing else is said."""


class RateMeter:
    """Measures the rate of a job over the last seconds."""

    def __init__(self, clock: Clock, window: float = WINDOW_SECONDS) -> None:
        """`window` is the length of the window in seconds, which should hold several batches."""
        self._clock, self._window = clock, window
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, done: int) -> None:
        """Records that `done` units are done now."""
        now = self._clock()
        if self._marks and self._marks[-1][1] == done:
            return  # inside a batch that takes longer than the window the rate sinks, but does not vanish
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - self._window:
            self._marks.popleft()

    def rate(self) -> float | None:
        """Units a second from the oldest mark in the window until now; None before two marks."""
        if len(self._marks) < 2:
            return None
        seconds = self._clock() - self._marks[0][0]
        units = self._marks[-1][1] - self._marks[0][1]
        return units / seconds if seconds > 0 else None

    def eta(self, done: int, total: int | None) -> float | None:
        """Seconds left at that rate; None while rate or total is unknown or nothing moves."""
        rate = self.rate()
        if total is None or rate is None or rate <= 0:
            return None
        return max(total - done, 0) / rate
