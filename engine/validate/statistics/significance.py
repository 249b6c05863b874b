"""Whether a difference is more than chance makes: tests for one and for many at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from engine.records.validation import Contrast
from engine.validate.statistics.ranking import Placements

LEVEL = 0.05
"""A difference is significant where its corrected p is below."""

Floats = npt.NDArray[np.float64]


def two_sided(z: float) -> float:
    """P(a standard normal variable lies as far off 0 as `z`)."""
    return math.erfc(abs(z) / math.sqrt(2))


def above_chance(found: Placements) -> float:
    """Two-sided p of the hypothesis that an area is one half.

    By DeLong's variance; where one kind has too few groups for it, or it is 0, by the variance that the rank sum of so
    many groups has under the hypothesis (Mann and Whitney 1947).
    """
    variance = found.variance
    if not variance:
        highs, lows = found.high_groups, found.low_groups
        variance = (highs + lows + 1) / (12 * highs * lows)
    return two_sided((found.area - 0.5) / math.sqrt(variance))


def differ(one: Placements, other: Placements) -> float | None:
    """Two-sided p of the hypothesis that two areas over the same things are equal (DeLong, DeLong and Clarke-Pearson
    1988; groups after Obuchowski 1997). None where one kind has too few groups to tell."""
    variance = one.variance_against(other)
    if variance is None:
        return None
    off = one.area - other.area
    if variance < 1e-18:  # two values that order everything alike
        return 1.0 if abs(off) < 1e-12 else 0.0
    return two_sided(off / math.sqrt(variance))


def resampled(seen: float, draws: Floats) -> float:
    """Two-sided p of the hypothesis that a difference is 0, from draws of it around what was seen.

    The draws are moved to lie around 0 and asked how often they lie as far off as what was seen (Efron and Tibshirani
    1993, 16.4); never below one in the number of draws and one more.
    """
    around = draws - draws.mean()
    far = int((np.abs(around) >= abs(seen) - 1e-12).sum())
    return (far + 1) / (len(draws) + 1)


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """The p of each of many tests, corrected so that the chance of any false finding among all stays what one has (Holm
    1979, Scand. J. Stat. 6); what could not be tested is None and does not count."""
    known = sorted((p, at) for at, p in enumerate(ps) if p is not None)
    found: list[float | None] = [None] * len(ps)
    least = 0.0
    for nth, (p, at) in enumerate(known):
        least = max(least, min(1.0, (len(known) - nth) * p))
        found[at] = least
    return found


def corrected(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """The same contrasts with `corrected`, for all of them together."""
    fixed = holm([one.p for one in contrasts])
    return tuple(replace(one, corrected=p) for one, p in zip(contrasts, fixed, strict=True))
