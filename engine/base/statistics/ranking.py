"""Areas under curves of ranked values: intervals, DeLong's variance for grouped data, tests, points to draw; and
correlations of two variables by ranks and by values.

Positives are the cases that should have high values ("high"), negatives those that should have low ones ("low"). A tie
is a set of cases with equal values. A draw is one bootstrap sample, given by the weight of each case in it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics.intervals import Z95, Interval

MIN_GROUPS = 10
"""Least number of groups of each class for a variance estimate; with fewer it can be far too small by chance."""

SIGNIFICANCE_LEVEL = 0.05
"""Corrected p value below which a difference is significant."""

_HALVINGS = 60
"""Bisection steps for the end of an interval; more than double precision needs."""

_NO_VARIANCE = 1e-18
"""Variance of a difference of areas below which it is rounding of 0: the two scores order all cases alike, or each
separates the classes wholly, one of them perhaps the wrong way round."""

_ROUNDING = 1e-12
"""Largest difference of two figures, such as a correlation and 1, that counts as rounding of 0."""

MIN_PAIRS = 4
"""Fewest pairs from which the interval of a correlation is estimated."""


# The area under the ROC curve of one score


def auroc(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None = None
) -> Interval:
    """Returns P(a positive has a higher value than a negative), ties counting half, with a 95% interval.

    The interval is that of DeLong, DeLong & Clarke-Pearson (1988, Biometrics 44) on the logit scale; values of one
    group, such as the answers of one conversation, may be dependent (Obuchowski 1997, Biometrics 53). With fewer than
    `MIN_GROUPS` groups of a class, or when the classes do not overlap, that interval is too narrow. Then the
    interval is the score interval with the variance of Hanley & McNeil (Newcombe 2006, Stat. Med. 25), which counts
    groups as cases.

    Args:
        values: Finite scores.
        positive: Whether each score is of the positive class, for which scores should be high.
        groups: Group of each score; None makes each its own group.

    Raises:
        ValueError: A class is missing, or the lengths differ.
    """
    placed = placements(values, positive, groups)
    return area_interval(placed.area, placed.variance, placed.high_groups, placed.low_groups)


def area_interval(area: float, variance: float | None, high_count: int, low_count: int) -> Interval:
    """Returns an area with its 95% interval: on the logit scale, or the score interval where the variance is None or 0
    or the area is 0 or 1, which have no logit.

    Args:
        variance: Of the area; None if there are too few cases to estimate it.
        high_count, low_count: Number of independent cases of each class, for the score interval.
    """
    if variance is not None and variance > 0 and 0 < area < 1:
        return _on_logits(area, math.sqrt(variance))
    return _score_interval(area, high_count, low_count)


@dataclass(frozen=True, slots=True)
class Placements:
    """DeLong placement values (the share of the other class that a value beats), summed by group.

    Attributes:
        area: The area under the ROC curve.
        high_deviations, low_deviations: For positives, and for negatives, the sum over each group of
            (placement - area), divided by the size of the class; shape (groups,).
        high_groups, low_groups: Number of groups with a positive, and with a negative.
    """

    area: float
    high_deviations: Floats
    low_deviations: Floats
    high_groups: int
    low_groups: int

    @property
    def variance(self) -> float | None:
        """The variance of the area (DeLong, Obuchowski); None when a class has too few groups."""
        return self._variance(self.high_deviations, self.low_deviations)

    def variance_against(self, other: Placements) -> float | None:
        """Returns the variance of the difference of two areas over the same cases and groups; None as in `variance`."""
        return self._variance(
            self.high_deviations - other.high_deviations, self.low_deviations - other.low_deviations
        )

    def _variance(self, high_deviations: Floats, low_deviations: Floats) -> float | None:
        """Returns the variance of a figure with these deviations of the groups, shape (groups,); None as in `variance`.

        The estimate of Obuchowski (1997): the sums of squares of each class and, as a group may hold cases of both, of
        their product, each with the correction n / (n - 1) for its number of groups.
        """
        high_count, low_count = self.high_groups, self.low_groups
        all_groups = len(self.high_deviations)
        if min(high_count, low_count) < MIN_GROUPS:
            return None
        variance = (
            high_count / (high_count - 1) * float(high_deviations @ high_deviations)
            + low_count / (low_count - 1) * float(low_deviations @ low_deviations)
            + 2 * all_groups / (all_groups - 1) * float(high_deviations @ low_deviations)
        )
        return max(0.0, variance)


def placements(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None = None
) -> Placements:
    """Computes the placement values behind areas and variances; takes and raises the same as `auroc`."""
    value_array, labels, group_numbers = as_arrays(values, positive, groups)
    high_values, low_values = value_array[labels], value_array[~labels]
    if not len(high_values) or not len(low_values):
        raise ValueError("Both kinds are needed.")
    above = count_below(high_values, low_values) / len(low_values)
    below = 1 - count_below(low_values, high_values) / len(high_values)
    area = float(above.mean())
    group_count = int(group_numbers.max()) + 1
    high_sums, high_counts = _sums_by_group(above, group_numbers[labels], group_count)
    low_sums, low_counts = _sums_by_group(below, group_numbers[~labels], group_count)
    return Placements(
        area=area,
        high_deviations=(high_sums - high_counts * area) / len(high_values),
        low_deviations=(low_sums - low_counts * area) / len(low_values),
        high_groups=int((high_counts > 0).sum()),
        low_groups=int((low_counts > 0).sum()),
    )


def auroc_error(area: float, high_count: int, low_count: int) -> float:
    """Returns the standard error of an area by Hanley & McNeil, with the mean class size in its correlation terms
    (Newcombe 2006, Stat. Med. 25)."""
    others = (high_count + low_count) / 2 - 1
    spread = 1 + others * (1 - area) / (2 - area) + others * area / (1 + area)
    return math.sqrt(area * (1 - area) * spread / (high_count * low_count))


def as_arrays(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None
) -> tuple[Floats, Bools, Ints]:
    """Returns values, labels and the number of each one's group, from 0, each of shape (cases,); raises ValueError
    where the lengths differ."""
    value_array, labels = np.asarray(values, float), np.asarray(positive, bool)
    if groups is None:
        group_numbers = np.arange(len(value_array))
    else:
        _, group_numbers = np.unique(groups, return_inverse=True)
    if not len(value_array) == len(labels) == len(group_numbers):
        raise ValueError("One label and one group for each value are needed.")
    return value_array, labels, group_numbers


def count_below(values: Floats, others: Floats) -> Floats:
    """Returns for each value how many of the others are lower, ties counting half; shape as `values`."""
    ascending = np.sort(others)
    lower = np.searchsorted(ascending, values, "left")
    not_higher = np.searchsorted(ascending, values, "right")
    return (lower + not_higher) / 2


def _sums_by_group(shares: Floats, group_numbers: Ints, group_count: int) -> tuple[Floats, Ints]:
    """Returns the sum of the shares of each group, and their number; each of shape (groups,)."""
    counts = np.bincount(group_numbers, minlength=group_count).astype(np.int64)
    sums: Floats = np.bincount(group_numbers, shares, group_count).astype(float)
    return sums, counts


def _on_logits(area: float, error: float) -> Interval:
    """Returns an area with the interval of its logit; `error` is the standard error of the area.

    By the delta method the standard error of the logit is `error / (area * (1 - area))`.
    """
    middle = math.log(area / (1 - area))
    half = Z95 * error / (area * (1 - area))
    return Interval(area, _logistic(middle - half), _logistic(middle + half))


def _logistic(x: float) -> float:
    """Returns 1 / (1 + exp(-x)), written so that no exponential overflows."""
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _score_interval(area: float, high_count: int, low_count: int) -> Interval:
    """Returns the range of true areas whose distance to the observed area is at most `Z95` standard errors."""

    def consistent(true: float) -> bool:
        """Returns whether the observed area is not too far from this true one."""
        return abs(true - area) <= Z95 * auroc_error(true, high_count, low_count)

    def end(outer: float) -> float:
        """Returns the end of the interval between the area and `outer`, which is 0 or 1, by bisection."""
        inner = area
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if consistent(middle) else (inner, middle)
        return inner

    return Interval(area, end(0.0), end(1.0))


# Areas in many draws at once

# The weights of positives and negatives have the shape (draws, distinct values), the values ascending; each result has
# the shape (draws,).


def weighted_area(high_weights: Floats, low_weights: Floats) -> Floats:
    """Returns the area under the ROC curve; 0 where a class is missing."""
    low_weight_below = np.cumsum(low_weights, axis=1) - low_weights / 2
    return ratio(
        (high_weights * low_weight_below).sum(axis=1),
        high_weights.sum(axis=1) * low_weights.sum(axis=1),
    )


def average_precision(high_weights: Floats, low_weights: Floats) -> Floats:
    """Returns the mean precision at each positive, from the highest value down."""
    weight_of_positives = np.cumsum(high_weights[:, ::-1], axis=1)
    precision = ratio(
        weight_of_positives, weight_of_positives + np.cumsum(low_weights[:, ::-1], axis=1)
    )
    return ratio((high_weights[:, ::-1] * precision).sum(axis=1), weight_of_positives[:, -1])


def ratio(part: Floats, of: Floats) -> Floats:
    """Returns the quotient of two arrays of one shape; 0 where the divisor is 0."""
    return np.divide(part, of, out=np.zeros_like(part), where=of > 0)


# Tests


def p_two_sided(z: float) -> float:
    """Returns the two-sided p value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2))


def p_against_chance(placed: Placements) -> float:
    """Returns the two-sided p value of the hypothesis that an area is 0.5.

    Uses DeLong's variance. When a class has too few groups for it, or it is 0, uses the variance under the hypothesis
    of the rank sum of as many groups, on the scale of areas (Mann and Whitney 1947).
    """
    variance = placed.variance
    if not variance:
        high_count, low_count = placed.high_groups, placed.low_groups
        variance = (high_count + low_count + 1) / (12 * high_count * low_count)
    return p_two_sided((placed.area - 0.5) / math.sqrt(variance))


def p_difference(first: Placements, second: Placements) -> float | None:
    """Returns the two-sided p value of the hypothesis that two areas over the same cases are equal (DeLong, DeLong and
    Clarke-Pearson 1988; groups after Obuchowski 1997); None when a class has too few groups."""
    variance = first.variance_against(second)
    if variance is None:
        return None
    difference = first.area - second.area
    if variance < _NO_VARIANCE:
        return 1.0 if abs(difference) < _ROUNDING else 0.0
    return p_two_sided(difference / math.sqrt(variance))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Corrects p values for several tests by Holm's method, which controls the family-wise error rate (Holm 1979,
    Scand. J. Stat. 6). None marks a test that was not possible; it stays None and does not count."""
    ascending = sorted((p, index) for index, p in enumerate(ps) if p is not None)
    corrected_ps: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, index) in enumerate(ascending):
        largest = max(largest, min(1.0, (len(ascending) - rank) * p))
        corrected_ps[index] = largest
    return corrected_ps


# Correlations


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
