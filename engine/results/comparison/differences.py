"""Tests two sets of conversations against each other, measure by measure.

A share is given as two counts: `part` cases out of `of`. Changes are the second side minus the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Floats
from engine.base.statistics.intervals import Z95, Interval, wilson
from engine.base.statistics.ranking import holm, p_two_sided
from engine.questions.calibration import rate_difference
from engine.results.comparison.measured import Measured
from engine.results.comparison.records import Comparison, Difference, Measure, Side

# Two independent samples: interval, test, and sample size


POWER = 0.8
"""Probability of finding a difference that is there, for which sample sizes are given."""

_UPPER_QUANTILE = 0.975
"""Quantile at the upper end of a 95% interval."""

_LEAST_VARIANCE = 0.25
"""Divided by the number of cases, the least variance of a share: even one of 0 or 1 was not measured exactly."""

_Z_POWER = 0.8416212335729143
"""Quantile of the normal distribution at `POWER`."""

_MIN_EXPECTED_COUNT = 5.0
"""Least expected count of each kind for the score test; below it, the exact test is used."""


def share_difference(part: int, of: int, other_part: int, other_of: int) -> Interval:
    """Returns the second share minus the first with its 95% interval (Newcombe 1998, Stat. Med. 17, method 10); both
    samples have at least one case."""
    first, second = wilson(part, of), wilson(other_part, other_of)
    return interval_difference(
        Interval(part / of, first.low, first.high),
        Interval(other_part / other_of, second.low, second.high),
    )


def interval_difference(first: Interval, second: Interval) -> Interval:
    """Returns the second of two independent values minus the first, with the interval of 95% that those of both
    give."""
    # the distances of each value to the ends of its own interval, added as errors of independent values are
    below = math.hypot(second.value - second.low, first.high - first.value)
    above = math.hypot(second.high - second.value, first.value - first.low)
    difference = second.value - first.value
    return Interval(difference, difference - below, difference + above)


def shares_differ(part: int, of: int, other_part: int, other_of: int) -> float:
    """Returns the two-sided p value of the hypothesis that two shares are equal.

    Pearson's chi-squared test without correction; with few cases, Fisher's exact test, which needs no large samples.
    """
    parts, cases = part + other_part, of + other_of
    rarer = min(parts, cases - parts)
    least_expected_count = rarer * min(of, other_of) / cases
    if least_expected_count < _MIN_EXPECTED_COUNT:
        from scipy.stats import fisher_exact  # slow to import, and most comparisons do not need it

        table = [[part, of - part], [other_part, other_of - other_part]]
        return float(fisher_exact(table).pvalue)
    common_share = parts / cases
    error = math.sqrt(common_share * (1 - common_share) * (1 / of + 1 / other_of))
    return p_two_sided((other_part / other_of - part / of) / error)


def all_differ(pairs: Sequence[tuple[int, int, int, int]]) -> list[float]:
    """Returns the p values of `shares_differ` for several pairs of shares, corrected by Holm's method; 1 for a side
    without cases.

    Args:
        pairs: (part, of, other part, other of) of each pair.
    """
    ps = [
        shares_differ(part, of, other_part, other_of) if of and other_of else 1.0
        for part, of, other_part, other_of in pairs
    ]
    return [1.0 if p is None else p for p in holm(ps)]


def mean_difference(first: Floats, second: Floats) -> tuple[Interval, float] | None:
    """Returns the second mean minus the first with its 95% interval, and the p value of the hypothesis that they are
    equal (Welch 1947, Biometrika 34); None where a sample has fewer than two values or nothing varies.

    Args:
        first, second: The two samples, each of shape (cases,).
    """
    if min(len(first), len(second)) < 2:
        return None
    from scipy.special import stdtr, stdtrit  # slow to import

    # variances of the two means
    first_variance, second_variance = (
        first.var(ddof=1) / len(first),
        second.var(ddof=1) / len(second),
    )
    error = math.sqrt(first_variance + second_variance)
    if error == 0:
        return None
    degrees_of_freedom = (first_variance + second_variance) ** 2 / (
        first_variance**2 / (len(first) - 1) + second_variance**2 / (len(second) - 1)
    )
    difference = float(second.mean() - first.mean())
    half_width = float(stdtrit(degrees_of_freedom, _UPPER_QUANTILE)) * error
    p = 2 * float(stdtr(degrees_of_freedom, -abs(difference) / error))
    return Interval(difference, difference - half_width, difference + half_width), p


def least_difference(share: float, of: int, other_of: int) -> float:
    """Returns the smallest difference from a share that samples of these sizes show at the 5% level with probability
    `POWER`; approximate: the variance is that of `share` in both."""
    variance = max(share * (1 - share), _LEAST_VARIANCE / (of + other_of))
    error = math.sqrt(variance * (1 / of + 1 / other_of))
    return (Z95 + _Z_POWER) * error


MIN_GOAL_MEMBERS = 10
"""Fewest conversations of a goal, both sides together, for a test of it."""

MAX_EXAMPLES = 5
"""Most conversations that are named as examples of a difference."""

_MEANS: tuple[Measure, ...] = ("trouble", "success", "turns", "characters", "entropy", "leaves")
"""Measures whose means over conversations are compared."""


def compare(sides: tuple[Side, Side], first: Measured, second: Measured) -> Comparison:
    """Returns the tests of all measures of two disjoint sets of conversations, whose goals have the same numbers."""
    overall = [*_completion(first, second), *_means(first, second)]
    goals: list[Difference] = []
    untested = 0
    for goal, label in enumerate(first.goals):
        first_members = first.part(first.goal == goal)
        second_members = second.part(second.goal == goal)
        if len(first_members.ids) + len(second_members.ids) < MIN_GOAL_MEMBERS:
            untested += 1
            continue
        goals += _of_goal(label, (first, second), (first_members, second_members))
    rates = first.counts(), second.counts()
    (complete, scored), (_, other_scored) = rates
    correctable = all(side.rate.corrected is not None for side in sides)
    return Comparison(
        sides=sides,
        corrected_change=rate_difference(first.calibration, *rates) if correctable else None,
        least=least_difference(complete / scored, scored, other_scored)
        if scored and other_scored
        else None,
        differences=tuple(_corrected(overall, goals)),
        untested=untested,
    )


def _corrected(overall: list[Difference], goals: list[Difference]) -> list[Difference]:
    """Returns all differences with their corrected p values: those over all conversations, of which the completion rate
    is tested alone, then those of goals by p value."""
    alone = [difference for difference in overall if difference.measure == "completion"]
    others = [difference for difference in overall if difference.measure != "completion"]
    others += sorted(goals, key=lambda difference: difference.p)
    ps = [
        *(difference.p for difference in alone),
        *holm([difference.p for difference in others]),
    ]
    return [
        replace(difference, corrected=1.0 if p is None else p)
        for difference, p in zip([*alone, *others], ps, strict=True)
    ]


def completion_change(first: Measured, second: Measured) -> Difference | None:
    """Returns the difference of the completion rates; None where a side has no scores."""
    return next(_completion(first, second), None)


def entropy_change(first: Measured, second: Measured) -> Difference | None:
    """Returns the difference of the mean entropies; None where a side has too few response trees, or nothing varies."""
    return next(
        (difference for difference in _means(first, second) if difference.measure == "entropy"),
        None,
    )


def _completion(first: Measured, second: Measured, goal: str | None = None) -> Iterator[Difference]:
    """Yields the difference of the completion rates, over all or of a goal; nothing where a side has no scores."""
    counts = _Count(*first.counts()), _Count(*second.counts())
    if not all(count.of for count in counts):
        return
    difference = _share("completion" if goal is None else "completion in goal", goal, *counts)
    # the examples come from the side with the lower rate: they show what went wrong there
    lower = int(difference.change.value < 0)
    yield replace(difference, examples=_least_complete((first, second)[lower]), examples_in=lower)


def _of_goal(
    label: str, sides: tuple[Measured, Measured], members: tuple[Measured, Measured]
) -> Iterator[Difference]:
    """Yields the differences of a goal: in its share of all conversations, in its completion, and in its trouble.

    Args:
        label: The goal.
        sides: All conversations of both sides.
        members: Those of them with the goal.
    """
    first, second = (
        _Count(len(part.ids), len(side.ids)) for part, side in zip(members, sides, strict=True)
    )
    share = _share("share of goal", label, first, second)
    larger = int(share.change.value > 0)
    yield replace(share, examples=_least_complete(members[larger]), examples_in=larger)
    if sum(_Count(*part.counts()).of for part in members) >= MIN_GOAL_MEMBERS:
        yield from _completion(*members, label)
    yield from _mean("trouble in goal", label, *(part.trouble for part in members))


class _Count(NamedTuple):
    """A share as counts of conversations: `part` out of `of`."""

    part: int
    of: int


def _share(measure: Measure, goal: str | None, first: _Count, second: _Count) -> Difference:
    """Returns a difference of shares of conversations; both sides have at least one."""
    return Difference(
        measure,
        goal,
        values=(first.part / first.of, second.part / second.of),
        cases=(first.of, second.of),
        change=share_difference(*first, *second),
        p=shares_differ(*first, *second),
    )


def _means(first: Measured, second: Measured) -> Iterator[Difference]:
    """Yields the differences of the means that both sides have."""
    for measure in _MEANS:
        yield from _mean(measure, None, *(getattr(side, measure) for side in (first, second)))


def _mean(
    measure: Measure, goal: str | None, first: Floats, second: Floats
) -> Iterator[Difference]:
    """Yields the difference of two means, NaN left out; nothing where `mean_difference` is None."""
    first, second = (column[~np.isnan(column)] for column in (first, second))
    difference = mean_difference(first, second)
    if difference is not None:
        means = float(first.mean()), float(second.mean())
        yield Difference(measure, goal, means, (len(first), len(second)), *difference)


def _least_complete(side: Measured) -> tuple[int, ...]:
    """Returns the ids of the conversations with the lowest scores; unscored ones come last."""
    order = np.lexsort((side.ids, side.score))[:MAX_EXAMPLES]  # by score, then id; NaN is last
    return tuple(int(key) for key in side.ids[order])
