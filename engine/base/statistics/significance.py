"""Significance tests of areas and differences, and Holm's correction for several tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from engine.base.statistics.ranking import Placements
from engine.base.statistics.records import (
    Contrast,
)

LEVEL = 0.05
"""Significance level: a difference is significant when its corrected p value is below."""

Floats = npt.NDArray[np.float64]


def two_sided(z: float) -> float:
    """Returns the two-sided p value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2))


def above_chance(found: Placements) -> float:
    """Returns the two-sided p value of the hypothesis that an area is 0.5.

    Uses DeLong's variance. When a class has too few groups for it, or it is 0, uses the variance of the rank sum of as
    many groups under the hypothesis (Mann and Whitney 1947).
    """
    variance = found.variance
    if not variance:
        highs, lows = found.high_groups, found.low_groups
        variance = (highs + lows + 1) / (12 * highs * lows)
    return two_sided((found.area - 0.5) / math.sqrt(variance))


def differ(one: Placements, other: Placements) -> float | None:
    """Returns the two-sided p value of the hypothesis that two areas over the same cases are equal (DeLong, DeLong and
    Clarke-Pearson 1988; groups after Obuchowski 1997); None when a class has too few groups."""
    variance = one.variance_against(other)
    if variance is None:
        return None
    off = one.area - other.area
    if variance < 1e-18:  # the two scores order all cases alike
        return 1.0 if abs(off) < 1e-12 else 0.0
    return two_sided(off / math.sqrt(variance))


def resampled(seen: float, draws: Floats) -> float:
    """Returns the two-sided bootstrap p value of the hypothesis that a difference is 0.

    Centres the draws at 0 and counts how often they are at least as far from 0 as the observed difference (Efron and
    Tibshirani 1993, 16.4). At least 1 / (draws + 1).

    Args:
        seen: The observed difference.
        draws: Bootstrap draws of it, shape (draws,).
    """
    around = draws - draws.mean()
    far = int((np.abs(around) >= abs(seen) - 1e-12).sum())
    return (far + 1) / (len(draws) + 1)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Corrects p values for several tests by Holm's method, which controls the family-wise error rate (Holm 1979,
    Scand. J. Stat. 6). None marks a test that was not possible; it stays None and does not count."""
    known = sorted((p, at) for at, p in enumerate(ps) if p is not None)
    found: list[float | None] = [None] * len(ps)
    least = 0.0
    for nth, (p, at) in enumerate(known):
        least = max(least, min(1.0, (len(known) - nth) * p))
        found[at] = least
    return found


def corrected(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """Returns the contrasts with `corrected` set by Holm's method over all of them."""
    fixed = holm([one.p for one in contrasts])
    return tuple(replace(one, corrected=p) for one, p in zip(contrasts, fixed, strict=True))
