"""How many requests an endpoint is sent at once: one more after each round that went well, half as many when it says
that it is too much, fewer when answers take much longer than they did."""

from __future__ import annotations

START = 4.0
MOST = 64
BUSY, SLOW = 0.5, 0.8
"""What the number is multiplied with."""

MUCH_SLOWER = 6.0
"""A batching server takes longer for many requests at once and still gains; from this factor on it does not."""

SETTLING = 0.2
"""Weight of the newest answer in the average."""


class RequestLimit:
    """Additive increase, multiplicative decrease. Knows no clock: it is told how long answers took.

    Attributes:
        active: Requests under way.
    """

    def __init__(self, most: int | None = None) -> None:
        """Prepares; `most` is what the endpoint says it does at once, None if it does not say."""
        self._most = float(min(MOST, most) if most else MOST)
        self._limit = min(START, self._most)
        self._best: float | None = None
        self._usual: float | None = None
        self._since_cut = 0
        self.active = 0

    @property
    def limit(self) -> int:
        """Requests that may be under way at once, at least one."""
        return max(1, int(self._limit))

    @property
    def free(self) -> int:
        """How many more may be sent now."""
        return self.limit - self.active

    def answered(self, seconds: float) -> None:
        """Notes an answer and how long it took."""
        self._since_cut += 1
        usual = self._usual
        self._usual = seconds if usual is None else usual + SETTLING * (seconds - usual)
        self._best = self._usual if self._best is None else min(self._best, self._usual)
        if self._usual > MUCH_SLOWER * self._best and self._since_cut > self.limit:
            self._cut(SLOW)
        else:
            self._limit = min(self._most, self._limit + 1 / self._limit)

    def refused(self) -> None:
        """Notes that the endpoint said that it is too much; requests sent before the last cut do not count again."""
        if self._since_cut >= 0:
            self._cut(BUSY)
            self._since_cut = -self.active

    def _cut(self, factor: float) -> None:
        self._limit = max(1.0, self._limit * factor)
        self._since_cut = 0
