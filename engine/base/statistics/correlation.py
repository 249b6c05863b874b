"""Correlation of two variables: Spearman with an interval, and Pearson."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.base.interval import Z95, Interval

LEAST = 4
"""Fewest pairs from which an interval is estimated."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of two variables over `n` pairs.

    Attributes:
        spearman: Rank correlation, with the 95% interval of Bonett & Wright (2000, Psychometrika 65).
        pearson: Linear correlation.
    """

    n: int
    spearman: Interval
    pearson: float


def correlate(first: Sequence[float], second: Sequence[float]) -> Correlation | None:
    """Returns the correlations of finite numbers; None with fewer than `LEAST` pairs or when one variable is constant.

    Raises:
        ValueError: The lengths differ.
    """
    x, y = np.asarray(first, float), np.asarray(second, float)
    if len(x) != len(y):
        raise ValueError("Pairs are needed.")
    n = len(x)
    if n < LEAST or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy.stats import (
        rankdata,  # imported here: it takes half a second, and screens import this module
    )

    rho = _pearson(rankdata(x), rankdata(y))
    return Correlation(n, _with_interval(rho, n), _pearson(x, y))


def _pearson(x: Floats, y: Floats) -> float:
    a, b = x - x.mean(), y - y.mean()
    found = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, found))


def _with_interval(rho: float, n: int) -> Interval:
    if abs(rho) > 1 - 1e-12:  # the Fisher transform is infinite, so there is no interval
        return Interval(rho, rho, rho)
    half = Z95 * math.sqrt((1 + rho * rho / 2) / (n - 3))
    middle = math.atanh(rho)
    return Interval(rho, math.tanh(middle - half), math.tanh(middle + half))
