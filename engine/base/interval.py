"""Interval estimates."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95% confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Share:
    """A share, `part` / `of`, with its 95% Wilson interval; `of` is not 0."""

    part: int
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """`part` / `of`."""
        return self.part / self.of


def wilson(part: int, of: int) -> Share:
    """A share with its score interval (Wilson 1927, JASA 22); `of` is positive."""
    share, z2 = part / of, Z95 * Z95
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    low = 0.0 if part == 0 else middle - half
    high = 1.0 if part == of else middle + half
    return Share(part, of, low, high)
