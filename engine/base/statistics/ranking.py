"""Area under the ROC curve: value, interval, and variance by DeLong's method for grouped data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.base.interval import Z95, Interval

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

LEAST_GROUPS = 10
"""Least number of groups of each class for a variance estimate; with fewer it can be far too small by chance."""

_HALVINGS = 60
"""Bisection steps for the end of an interval; more than double precision needs."""


def auroc(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None = None
) -> Interval:
    """Returns P(a positive has a higher value than a negative), ties counting half, with a 95% interval.

    The interval is that of DeLong, DeLong & Clarke-Pearson (1988, Biometrics 44) on the logit scale; values of one
    group, such as the answers of one conversation, may be dependent (Obuchowski 1997, Biometrics 53). With fewer than
    `LEAST_GROUPS` groups of a class, or when the classes do not overlap, that interval is too narrow. Then it is the
    score interval with the variance of Hanley & McNeil (Newcombe 2006, Stat. Med. 25), counting groups as cases.

    Args:
        values: Finite scores.
        positive: Whether each score is of the positive class, for which scores should be high.
        groups: Group of each score; None makes each its own group.

    Raises:
        ValueError: A class is missing, or the lengths differ.
    """
    found = placements(values, positive, groups)
    return area_interval(found.area, found.variance, found.high_groups, found.low_groups)


def area_interval(area: float, variance: float | None, highs: int, lows: int) -> Interval:
    """Returns an area with its 95% interval: on the logit scale, or the score interval where the variance is None or 0.

    Args:
        variance: Of the area; None if there are too few cases to estimate it.
        highs, lows: Number of independent cases of each class, for the score interval.
    """
    if variance is not None and variance > 0 and 0 < area < 1:
        return _on_logits(area, math.sqrt(variance))
    return _score_interval(area, highs, lows)


@dataclass(frozen=True, slots=True)
class Placements:
    """DeLong placement values (the share of the other class that a value beats), summed by group.

    Attributes:
        area: The area under the ROC curve.
        high_off, low_off: For positives and negatives: sum over each group of (placement - area), divided by the size
            of the class; shape (groups,).
        high_groups, low_groups: Number of groups with a positive, and with a negative.
    """

    area: float
    high_off: Floats
    low_off: Floats
    high_groups: int
    low_groups: int

    @property
    def variance(self) -> float | None:
        """Returns the variance of the area (DeLong, Obuchowski); None when a class has too few groups."""
        return self._variance(self.high_off, self.low_off)

    def variance_against(self, other: Placements) -> float | None:
        """Returns the variance of the difference of two areas over the same cases and groups; None as in `variance`."""
        return self._variance(self.high_off - other.high_off, self.low_off - other.low_off)

    def _variance(self, high_off: Floats, low_off: Floats) -> float | None:
        highs, lows, most = self.high_groups, self.low_groups, len(self.high_off)
        if min(highs, lows) < LEAST_GROUPS:
            return None
        found = (
            highs / (highs - 1) * float(high_off @ high_off)
            + lows / (lows - 1) * float(low_off @ low_off)
            + 2 * most / (most - 1) * float(high_off @ low_off)
        )
        return max(0.0, found)


def placements(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None = None
) -> Placements:
    """Computes the placement values behind areas and variances; takes and raises the same as `auroc`."""
    value, label, group = _columns(values, positive, groups)
    highs, lows = value[label], value[~label]
    if not len(highs) or not len(lows):
        raise ValueError("Both kinds are needed.")
    above = _placements(highs, lows)
    below = 1 - _placements(lows, highs)
    area = float(above.mean())
    most = int(group.max()) + 1
    high_sums, high_counts = _by_group(above, group[label], most)
    low_sums, low_counts = _by_group(below, group[~label], most)
    return Placements(
        area,
        (high_sums - high_counts * area) / len(highs),
        (low_sums - low_counts * area) / len(lows),
        int((high_counts > 0).sum()),
        int((low_counts > 0).sum()),
    )


def auroc_error(area: float, highs: int, lows: int) -> float:
    """Returns the standard error of an area by Hanley & McNeil, with the mean class size in its correlation terms
    (Newcombe 2006, Stat. Med. 25)."""
    more = (highs + lows) / 2 - 1
    spread = 1 + more * (1 - area) / (2 - area) + more * area / (1 + area)
    return math.sqrt(area * (1 - area) * spread / (highs * lows))


def _columns(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None
) -> tuple[Floats, Bools, Ints]:
    value, label = np.asarray(values, float), np.asarray(positive, bool)
    group = np.arange(len(value)) if groups is None else np.unique(groups, return_inverse=True)[1]
    if not len(value) == len(label) == len(group):
        raise ValueError("One label and one group for each value are needed.")
    return value, label, group


def _placements(of: Floats, among: Floats) -> Floats:
    """Returns for each value of `of` the share of `among` that is lower, ties counting half."""
    ranked = np.sort(among)
    less = np.searchsorted(ranked, of, "left")
    not_more = np.searchsorted(ranked, of, "right")
    return (less + not_more) / (2 * len(among))


def _by_group(placements: Floats, group: Ints, most: int) -> tuple[Floats, Ints]:
    counts = np.bincount(group, minlength=most).astype(np.int64)
    sums: Floats = np.bincount(group, placements, most).astype(float)
    return sums, counts


def _on_logits(area: float, error: float) -> Interval:
    middle = math.log(area / (1 - area))
    half = Z95 * error / (area * (1 - area))
    return Interval(area, _logistic(middle - half), _logistic(middle + half))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _score_interval(area: float, highs: int, lows: int) -> Interval:
    """Returns the range of true areas whose distance to the observed area is at most `Z95` standard errors."""

    def consistent(true: float) -> bool:
        return abs(true - area) <= Z95 * auroc_error(true, highs, lows)

    def end(outer: float) -> float:
        inner = area
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if consistent(middle) else (inner, middle)
        return inner

    return Interval(area, end(0.0), end(1.0))
