"""Areas under curves of ranked values: intervals, DeLong's variance for grouped data, tests, points to draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.base.statistics.intervals import Z95, Contrast, Curve, Interval

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

MIN_GROUPS = 10
"""Least number of groups of each class for a variance estimate; with fewer it can be far too small by chance."""

_HALVINGS = 60
"""Bisection steps for the end of an interval; more than double precision needs."""


def auroc(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None = None
) -> Interval:
    """Returns P(a positive has a higher value than a negative), ties counting half, with a 95% interval.

    The interval is that of DeLong, DeLong & Clarke-Pearson (1988, Biometrics 44) on the logit scale; values of one
    group, such as the answers of one conversation, may be dependent (Obuchowski 1997, Biometrics 53). With fewer than
    `MIN_GROUPS` groups of a class, or when the classes do not overlap, that interval is too narrow. Then it is the
    score interval with the variance of Hanley & McNeil (Newcombe 2006, Stat. Med. 25), counting groups as cases.

    Args:
        values: Finite scores.
        positive: Whether each score is of the positive class, for which scores should be high.
        groups: Group of each score; None makes each its own group.

    Raises:
        ValueError: A class is missing, or the lengths differ.
    """
    placed = placements(values, positive, groups)
    return area_interval(placed.area, placed.variance, placed.high_groups, placed.low_groups)


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
        highs, lows, all_groups = self.high_groups, self.low_groups, len(self.high_off)
        if min(highs, lows) < MIN_GROUPS:
            return None
        variance = (
            highs / (highs - 1) * float(high_off @ high_off)
            + lows / (lows - 1) * float(low_off @ low_off)
            + 2 * all_groups / (all_groups - 1) * float(high_off @ low_off)
        )
        return max(0.0, variance)


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
    group_count = int(group.max()) + 1
    high_sums, high_counts = _by_group(above, group[label], group_count)
    low_sums, low_counts = _by_group(below, group[~label], group_count)
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
    others = (highs + lows) / 2 - 1
    spread = 1 + others * (1 - area) / (2 - area) + others * area / (1 + area)
    return math.sqrt(area * (1 - area) * spread / (highs * lows))


def _columns(
    values: Sequence[float], positive: Sequence[bool], groups: Sequence[int] | None
) -> tuple[Floats, Bools, Ints]:
    """Returns values, labels and groups as arrays; raises ValueError where the lengths differ."""
    value, label = np.asarray(values, float), np.asarray(positive, bool)
    group = np.arange(len(value)) if groups is None else np.unique(groups, return_inverse=True)[1]
    if not len(value) == len(label) == len(group):
        raise ValueError("One label and one group for each value are needed.")
    return value, label, group


def _placements(values: Floats, others: Floats) -> Floats:
    """Returns for each value the share of the others that is lower, ties counting half."""
    ascending = np.sort(others)
    lower = np.searchsorted(ascending, values, "left")
    not_higher = np.searchsorted(ascending, values, "right")
    return (lower + not_higher) / (2 * len(others))


def _by_group(placements: Floats, group: Ints, group_count: int) -> tuple[Floats, Ints]:
    """Returns the sum of the placements of each group, and their number."""
    counts = np.bincount(group, minlength=group_count).astype(np.int64)
    sums: Floats = np.bincount(group, placements, group_count).astype(float)
    return sums, counts


def _on_logits(area: float, error: float) -> Interval:
    """Returns an area with the interval of its logit; `error` is the standard error of the area."""
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


def area(highs: Floats, lows: Floats) -> Floats:
    """Returns the area under the ROC curve; 0 where a class is missing."""
    below = np.cumsum(lows, axis=1) - lows / 2
    return ratio((highs * below).sum(axis=1), highs.sum(axis=1) * lows.sum(axis=1))


def average_precision(highs: Floats, lows: Floats) -> Floats:
    """Returns the mean precision at each positive, from the highest value down."""
    positives = np.cumsum(highs[:, ::-1], axis=1)
    precision = ratio(positives, positives + np.cumsum(lows[:, ::-1], axis=1))
    return ratio((highs[:, ::-1] * precision).sum(axis=1), positives[:, -1])


def kept_accuracy(wrong: Floats, right: Floats) -> Floats:
    """Returns the accuracy of the k cases with the lowest values, averaged over k from 1 to all.

    Args:
        wrong, right: Integer weights. Of a tie of w cases, c of them right, j kept ones hold c j / w right ones on
            average, so that harmonic numbers give the sum.
    """
    many = (wrong + right).astype(np.int64)
    kept = np.cumsum(many, axis=1)
    before = kept - many
    total = kept[:, -1]
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(total.max(initial=0)) + 1))])
    share = ratio(right, many.astype(float))
    rights = np.cumsum(right, axis=1) - right
    parts = right + (rights - share * before) * (harmonic[kept] - harmonic[before])
    return ratio(parts.sum(axis=1), total.astype(float))


def best_kept_accuracy(wrong: Floats, right: Floats) -> Floats:
    """Returns `kept_accuracy` for the perfect order, which keeps all right cases longest."""
    ordered = right.sum(axis=1, keepdims=True), wrong.sum(axis=1, keepdims=True)
    none = np.zeros_like(ordered[0])
    return kept_accuracy(np.hstack([none, ordered[1]]), np.hstack([ordered[0], none]))


def ratio(part: Floats, of: Floats) -> Floats:
    """Returns the quotient; 0 where the divisor is 0."""
    return np.divide(part, of, out=np.zeros_like(part), where=of > 0)


MAX_POINTS = 200
"""Most points of a curve, evenly spaced; a terminal shows no more."""


def roc(values: Sequence[float], positive: Sequence[bool]) -> Curve:
    """Returns the ROC curve as (false positive rate, true positive rate) from the highest value down; ties are a
    line."""
    value, label = np.asarray(values, float), np.asarray(positive, bool)
    order = np.argsort(-value, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(value[order]) != 0, True))
    hits, alarms = np.cumsum(label[order])[ends], np.cumsum(~label[order])[ends]
    x, y = np.append(0.0, alarms / max(1, alarms[-1])), np.append(0.0, hits / max(1, hits[-1]))
    return _thinned(x, y)


def rejection(values: Sequence[float], wrong: Sequence[bool]) -> Curve:
    """Returns the accuracy-rejection curve as (share rejected, accuracy of the rest). Rejects the highest values first,
    averages ties over all orders, and ends when one is left."""
    value, label = np.asarray(values, float), np.asarray(wrong, bool)
    _, place, many = np.unique(value, return_inverse=True, return_counts=True)
    share = np.bincount(place, ~label) / many
    # Each member of a tie counts as right with the tie's share of right ones.
    rights = np.cumsum(np.repeat(share, many))
    kept = np.arange(1, len(value) + 1)
    x, y = 1 - kept / len(value), rights / kept
    return _thinned(x[::-1], y[::-1])


def reliability(values: Sequence[float], positive: Sequence[bool], bins: int = 10) -> Curve:
    """Returns the reliability diagram as (mean value, share of positives) for each non-empty bin of equal width."""
    value, label = np.asarray(values, float), np.asarray(positive, bool)
    place = np.minimum((value * bins).astype(int), bins - 1)
    return tuple(
        (float(value[place == number].mean()), float(label[place == number].mean()))
        for number in np.unique(place)
    )


def _thinned(x: Floats, y: Floats) -> Curve:
    """Returns a curve of at most `MAX_POINTS` of these points."""
    indices = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_POINTS)).round().astype(int))
    return tuple((float(x[index]), float(y[index])) for index in indices)


SIGNIFICANCE_LEVEL = 0.05
"""Significance level: a difference is significant when its corrected p value is below."""


def two_sided(z: float) -> float:
    """Returns the two-sided p value of a standard normal statistic."""
    return math.erfc(abs(z) / math.sqrt(2))


def above_chance(placed: Placements) -> float:
    """Returns the two-sided p value of the hypothesis that an area is 0.5.

    Uses DeLong's variance. When a class has too few groups for it, or it is 0, uses the variance of the rank sum of as
    many groups under the hypothesis (Mann and Whitney 1947).
    """
    variance = placed.variance
    if not variance:
        highs, lows = placed.high_groups, placed.low_groups
        variance = (highs + lows + 1) / (12 * highs * lows)
    return two_sided((placed.area - 0.5) / math.sqrt(variance))


def differ(one: Placements, other: Placements) -> float | None:
    """Returns the two-sided p value of the hypothesis that two areas over the same cases are equal (DeLong, DeLong and
    Clarke-Pearson 1988; groups after Obuchowski 1997); None when a class has too few groups."""
    variance = one.variance_against(other)
    if variance is None:
        return None
    difference = one.area - other.area
    if variance < 1e-18:  # the two scores order all cases alike
        return 1.0 if abs(difference) < 1e-12 else 0.0
    return two_sided(difference / math.sqrt(variance))


def resampled(observed: float, draws: Floats) -> float:
    """Returns the two-sided bootstrap p value of the hypothesis that a difference is 0.

    Centers the draws at 0 and counts how often they are at least as far from 0 as the observed difference (Efron and
    Tibshirani 1993, 16.4). At least 1 / (draws + 1).

    Args:
        observed: The observed difference.
        draws: Bootstrap draws of it, shape (draws,).
    """
    centered = draws - draws.mean()
    extreme = int((np.abs(centered) >= abs(observed) - 1e-12).sum())
    return (extreme + 1) / (len(draws) + 1)


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


def corrected(contrasts: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """Returns the contrasts with `corrected` set by Holm's method over all of them."""
    ps = holm([contrast.p for contrast in contrasts])
    return tuple(replace(contrast, corrected=p) for contrast, p in zip(contrasts, ps, strict=True))
