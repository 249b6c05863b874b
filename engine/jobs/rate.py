"""How fast long work goes and when it will be done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds that only grow."""

WINDOW_SECONDS = 20.0
"""How far back the rate looks."""


class Pace:
    """How fast a job goes, over the recent past."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, done: int) -> None:
        """Notes that `done` units are done now."""
        now = self._clock()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW_SECONDS:
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
