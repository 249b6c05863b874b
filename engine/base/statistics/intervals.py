"""Estimates with their 95% intervals, and Wilson's interval of a share.

The module needs the standard library alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Z95 = 1.959963984540054
"""The 97.5% quantile of the standard normal distribution: a 95% interval reaches so many standard errors each way."""


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

    @property
    def interval(self) -> Interval:
        """The share without its counts."""
        return Interval(self.value, self.low, self.high)


def wilson(part: int, of: int) -> Share:
    """Returns the share `part` / `of` with its Wilson interval; `of` is positive."""
    return Share(part, of, *wilson_ends(part / of, of))


def wilson_ends(share: float, of: float) -> tuple[float, float]:
    """Returns the ends of the Wilson interval (1927, JASA 22) of a share.

    Args:
        of: Number of cases, above 0; it may be the effective size of a sample, hence a fraction.
    """
    z2 = Z95 * Z95
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    # rounding would leave the ends of 0 and 1 a hair beside them
    return 0.0 if share == 0 else middle - half, 1.0 if share == 1 else middle + half


def share_of_drawn(counted: int, drawn: int, total: float) -> Interval:
    """Estimates a share of all cases from those drawn at random without replacement; without error where all are drawn.

    Args:
        counted, drawn: Number of the drawn ones that are counted, and of all drawn ones.
        total: Number of all; it may be estimated too, hence a fraction.
    """
    share, not_drawn = counted / drawn, total - drawn
    # the correction for a finite population: so many cases drawn with replacement would tell as much
    ends = wilson_ends(share, drawn * (total - 1) / not_drawn) if not_drawn > 0 else (share, share)
    return Interval(share, *ends)


@dataclass(frozen=True, slots=True)
class Classification:
    """How well a value separates complete from incomplete conversations; each figure has a 95% bootstrap interval.

    Attributes:
        accuracy, precision, recall, f1: Figures of the classifier that calls values from the threshold up complete; if
            there are none, precision is 0, and its interval, which has pseudo-observations, reaches nearly from 0 to 1.
        auroc: P(a complete conversation has a higher value than an incomplete one); equal values count half.
        ap: Average precision; guessing gives the share of complete conversations.
        ece: Expected calibration error of the value as a probability, over ten equal bins.
    """

    accuracy: Interval
    precision: Interval
    recall: Interval
    f1: Interval
    auroc: Interval
    ap: Interval
    ece: Interval
