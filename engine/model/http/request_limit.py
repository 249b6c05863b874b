"""The number of parallel requests to an endpoint, by additive increase and multiplicative decrease: one more after each
round without errors, half as many after a "too many requests", fewer when answers become much slower."""

from __future__ import annotations

START = 4.0
MOST = 64
BUSY, SLOW = 0.5, 0.8
"""Factors of a decrease."""

MUCH_SLOWER = 6.0
"""Answers slower than the best by this factor cause a decrease. A batching server may be slower and still gain."""

SETTLING = 0.2
"""Weight of the newest answer in the average."""


class RequestLimit:
    """The limit on parallel requests to one endpoint.

    Attributes:
        active: Requests in flight.
    """

    def __init__(self, most: int | None = None) -> None:
        """Prepares; `most` is the number that the endpoint serves in parallel, None if unknown."""
        self._most = float(min(MOST, most) if most else MOST)
        self._limit = min(START, self._most)
        self._best: float | None = None
        self._usual: float | None = None
        self._since_cut = 0
        self.active = 0

    @property
    def limit(self) -> int:
        """Most requests in flight, at least one."""
        return max(1, int(self._limit))

    @property
    def free(self) -> int:
        """Number of further requests that may be sent now."""
        return self.limit - self.active

    def answered(self, seconds: float) -> None:
        """Records an answer and its duration."""
        self._since_cut += 1
        usual = self._usual
        self._usual = seconds if usual is None else usual + SETTLING * (seconds - usual)
        self._best = self._usual if self._best is None else min(self._best, self._usual)
        if self._usual > MUCH_SLOWER * self._best and self._since_cut > self.limit:
            self._cut(SLOW)
        else:
            self._limit = min(self._most, self._limit + 1 / self._limit)

    def refused(self) -> None:
        """Records a refusal for too many requests; requests sent before the last decrease are ignored."""
        if self._since_cut >= 0:
            self._cut(BUSY)
            self._since_cut = -self.active

    def _cut(self, factor: float) -> None:
        self._limit = max(1.0, self._limit * factor)
        self._since_cut = 0
