"""The share complete of the conversations that a watch saw end, held against the past ones.

The control limits are those of a p-chart, three standard deviations on either side of the past share (Shewhart 1931,
Economic Control of Quality; NIST/SEMATECH e-Handbook of Statistical Methods, 6.3.3.2). The chart takes the past share
as known; here it comes from a number of conversations that may be small, so its variance is added, with the share of
Agresti and Coull (1998, Am. Stat. 52), which leaves a width where all or none of the past ones were complete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONTROL_SIGMAS = 3.0
"""Standard deviations from the middle to a limit; without a change one point of 370 lies outside."""

MIN_IN_POINT, MAX_IN_POINT = 20, 100
"""Fewest and most conversations behind a point. The normal approximation asks for 5 of either outcome."""

AGRESTI_COULL_PARTS, AGRESTI_COULL_CASES = 2, 4
"""What the share of Agresti and Coull adds: two conversations that are complete to four in all."""

MIN_OF_OUTCOME = 5
"""Fewest conversations of either outcome that a point is expected to have."""


@dataclass(frozen=True, slots=True)
class Part:
    """A number of conversations out of others; `of` may be 0."""

    part: int
    of: int

    @property
    def share(self) -> float:
        """`part` / `of`, or 0."""
        return self.part / self.of if self.of else 0.0


@dataclass(frozen=True, slots=True)
class Point:
    """Consecutive conversations that ended.

    Attributes:
        until: When the last of them had grown last, ISO 8601 in UTC.
        complete: Those whose last probability reached the threshold.
        low, high: The control limits for so many conversations, shares in [0, 1].
    """

    until: str
    complete: Part
    low: float
    high: float

    @property
    def outside(self) -> bool:
        """Whether the share lies beyond a limit."""
        return not self.low <= self.complete.share <= self.high


@dataclass(frozen=True, slots=True)
class Chart:
    """What a project knows of the conversations that were watched.

    Attributes:
        past: Complete ones among the past conversations that were scored, by probes that never saw them.
        size: Conversations behind a point.
        points: Oldest first.
        waiting: Conversations that ended after the last point, too few for another.
        running: Conversations that have not ended.
    """

    past: Part
    size: int
    points: tuple[Point, ...]
    waiting: int
    running: int


def limits(past: Part, size: int) -> tuple[float, float]:
    """Returns the control limits of a share of `size` conversations, both in [0, 1]."""
    share = (past.part + AGRESTI_COULL_PARTS) / (past.of + AGRESTI_COULL_CASES)
    # the variance of the share of `size` conversations, and that of the past share
    width = CONTROL_SIGMAS * math.sqrt(share * (1 - share) * (1 / size + 1 / max(past.of, 1)))
    return max(0.0, past.share - width), min(1.0, past.share + width)


def point_size(past: Part) -> int:
    """Returns the number of conversations behind a point: enough that of either outcome five are expected, within
    bounds."""
    rarer = min(past.share, 1 - past.share)
    size = math.ceil(MIN_OF_OUTCOME / rarer) if rarer else MAX_IN_POINT
    return min(max(size, MIN_IN_POINT), MAX_IN_POINT)


def points(past: Part, ended: Sequence[tuple[str, bool]]) -> tuple[tuple[Point, ...], int]:
    """Returns the points of conversations that ended, and how many came after the last.

    Args:
        ended: When each had grown last, and whether it was complete; in the order of that time.
    """
    size = point_size(past)
    low, high = limits(past, size)
    charted = []
    for first in range(0, len(ended) - size + 1, size):
        group = ended[first : first + size]
        complete = sum(is_complete for _, is_complete in group)
        until, _ = group[-1]
        charted.append(Point(until, Part(complete, size), low, high))
    return tuple(charted), len(ended) % size
