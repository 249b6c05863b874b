"""Correlation of two variables, with a 95% interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Floats
from engine.base.statistics.intervals import Z95, Interval

MIN_PAIRS = 4
"""Fewest pairs from which an interval is estimated."""

_ROUNDING = 1e-12
"""Largest distance to a correlation of 1 or -1 that counts as rounding of 0."""


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of two variables.

    Attributes:
        n: Number of pairs.
        spearman: Rank correlation, with the 95% interval of Bonett & Wright (2000, Psychometrika 65).
        pearson: Linear correlation.
    """

    n: int
    spearman: Interval
    pearson: float


def correlate(first: Sequence[float], second: Sequence[float]) -> Correlation | None:
    """Returns the correlations of finite numbers; None with few pairs (`MIN_PAIRS`) or when one variable is constant.

    Raises:
        ValueError: The lengths differ.
    """
    x, y = np.asarray(first, float), np.asarray(second, float)
    if len(x) != len(y):
        raise ValueError("Pairs are needed.")
    n = len(x)
    if n < MIN_PAIRS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    # imported here: it takes half a second, and screens import this module
    from scipy.stats import rankdata

    rho = _pearson(rankdata(x), rankdata(y))
    return Correlation(n, _with_interval(rho, n), _pearson(x, y))


def _pearson(x: Floats, y: Floats) -> float:
    """Returns the linear correlation, kept within [-1, 1] where rounding leaves it."""
    a, b = x - x.mean(), y - y.mean()
    correlation = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, correlation))


def _with_interval(rho: float, n: int) -> Interval:
    """Returns a rank correlation over `n` pairs with its 95% interval."""
    if abs(rho) > 1 - _ROUNDING:  # the Fisher transform is infinite, so there is no interval
        return Interval(rho, rho, rho)
    half = Z95 * math.sqrt((1 + rho * rho / 2) / (n - 3))
    middle = math.atanh(rho)
    return Interval(rho, math.tanh(middle - half), math.tanh(middle + half))
