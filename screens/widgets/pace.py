"""Measures how fast a person gives verdicts. Without Textual."""

from __future__ import annotations

from collections import deque

PAUSE_SECONDS = 600.0
"""A gap longer than this is a break, not work."""

LEAST_SECONDS = 15.0
"""A pace over a shorter time says nothing: five quick keys would be thousands an hour."""


class Pace:
    """Verdicts an hour over the last twenty, breaks left out."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=20)

    def tick(self, now: float) -> None:
        """A verdict was given at this time, in seconds of any clock that does not go back."""
        if self._times and now - self._times[-1] > PAUSE_SECONDS:
            self._times.clear()
        self._times.append(now)

    @property
    def per_hour(self) -> float | None:
        """None before three verdicts and `LEAST_SECONDS` of work."""
        if len(self._times) < 3 or self._times[-1] - self._times[0] < LEAST_SECONDS:
            return None
        return (len(self._times) - 1) / (self._times[-1] - self._times[0]) * 3600
