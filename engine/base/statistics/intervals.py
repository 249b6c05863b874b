"""Results of statistics with their intervals, and the intervals of shares and of means of probabilities.

The module needs the standard library alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def wilson(part: int, of: int) -> Share:
    """Returns the share `part` / `of` with its score interval; `of` is positive."""
    return Share(part, of, *wilson_ends(part / of, of))


def wilson_ends(share: float, of: float) -> tuple[float, float]:
    """Returns the ends of the score interval (Wilson 1927, JASA 22) of a share of `of` cases, a positive number that
    may be the effective one of a sample."""
    z2 = Z95 * Z95
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return 0.0 if share == 0 else middle - half, 1.0 if share == 1 else middle + half


DEFAULT_LEVEL = 0.95
"""Probability with which a lower and an upper limit enclose the mean, unless another one is asked for."""

_HALVINGS = 60
"""Number of times that the interval in which a limit is searched is halved: more than a float can tell apart."""


def mean_limits(
    lows: Sequence[float], highs: Sequence[float], level: float = DEFAULT_LEVEL
) -> tuple[float, float]:
    """Returns limits of the mean of p in a population, from a sample of cases with `low` <= p <= `high` in [0, 1] each.

    E[low] <= E[p] <= E[high], so a lower limit of E[low] and an upper limit of E[high], each wrong with a probability
    of at most (1 - level) / 2, hold E[p] between them with a probability of at least `level` (Bonferroni). Each limit
    is that of Hoeffding (1963, JASA 58, theorem 1, inequality 2.1) in its sharp form: of n independent values in
    [0, 1] with the mean m, P(their average is x or further from m on its side) <= exp(-n kl(x, m)), where kl is the
    relative entropy of two coins. It holds for every n and every distribution, also for cases drawn without replacement
    (his section 6), and is never wider than his better known form with 2 (x - m)^2 in place of kl.

    Args:
        lows, highs: The least and the greatest p of each case; the cases are drawn independently of each other.
        level: Probability with which the limits hold the mean.

    Returns:
        The lower and the upper limit; (0, 1) without cases.
    """
    n = len(lows)
    if not n:
        return 0.0, 1.0
    max_entropy = math.log(2 / (1 - level)) / n
    low, high = math.fsum(lows) / n, math.fsum(highs) / n
    return _furthest(low, 0.0, max_entropy), _furthest(high, 1.0, max_entropy)


def _furthest(mean: float, end: float, max_entropy: float) -> float:
    """Returns the value furthest from `mean` toward `end` whose relative entropy is at most `max_entropy`."""
    near, far = mean, end
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        if _relative_entropy(mean, middle) <= max_entropy:
            near = middle
        else:
            far = middle
    return far


def _relative_entropy(x: float, m: float) -> float:
    """Returns kl(x, m) = x ln(x / m) + (1 - x) ln((1 - x) / (1 - m))."""
    parts = ((x, m), (1 - x, 1 - m))
    return math.fsum(math.inf if q <= 0 else p * math.log(p / q) for p, q in parts if p > 0)


Curve = tuple[tuple[float, float], ...]
"""The (x, y) points of a curve, by rising x."""


@dataclass(frozen=True, slots=True)
class Classification:
    """How well a value separates complete from incomplete conversations; each figure has a 95% bootstrap interval.

    Attributes:
        accuracy, precision, recall, f1: Figures of the classifier that calls values from the threshold up complete; if
            there are none, precision is 0 and its interval says that it is unknown.
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


@dataclass(frozen=True, slots=True)
class Contrast:
    """Comparison of two scores or measures on the same items.

    Attributes:
        figure: The figure by which they are compared, e.g. `AUROC`.
        one, other: Names of the two.
        n: Number of items.
        first, second: The figure of `one` and of `other`.
        difference: `first` - `second`, with its 95% interval from a bootstrap of conversations.
        p: Two-sided p-value of no difference; None if there are too few items.
        corrected: The p-value after Holm's correction for all contrasts of the table.
    """

    figure: str
    one: str
    other: str
    n: int
    first: float
    second: float
    difference: Interval
    p: float | None
    corrected: float | None = None
