"""Tests two sets of conversations against each other, measure by measure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from engine.base.statistics.intervals import Z95, Interval, wilson
from engine.base.statistics.ranking import holm, p_two_sided
from engine.questions.calibration import rate_difference
from engine.results.comparison.measured import Measured
from engine.results.comparison.records import Comparison, Difference, Measure, Side

# Two independent samples: interval, test, and sample size

Floats = npt.NDArray[np.float64]

POWER = 0.8
"""Probability of finding a difference that is there, for which sample sizes are given."""
_Z_POWER = 0.8416212335729143
"""Quantile of the normal distribution at `POWER`."""

_MIN_EXPECTED_COUNT = 5.0
"""Least expected count of each kind for the score test; below it, the exact test is used."""


def share_difference(part: int, of: int, other_part: int, other_of: int) -> Interval:
    """Returns the second share minus the first with its 95% interval (Newcombe 1998, Stat. Med. 17, method 10); both
    samples have at least one case."""
    first, second = wilson(part, of), wilson(other_part, other_of)
    first_share, second_share = part / of, other_part / other_of
    low = math.hypot(second_share - second.low, first.high - first_share)
    high = math.hypot(second.high - second_share, first_share - first.low)
    return Interval(
        second_share - first_share,
        second_share - first_share - low,
        second_share - first_share + high,
    )


def shares_differ(part: int, of: int, other_part: int, other_of: int) -> float:
    """Returns the two-sided p value of the hypothesis that two shares are equal.

    Pearson's chi-squared test without correction; with few cases, Fisher's exact test, which needs no large samples.
    """
    parts, cases = part + other_part, of + other_of
    rarer = min(parts, cases - parts)
    if rarer * min(of, other_of) / cases < _MIN_EXPECTED_COUNT:
        from scipy.stats import fisher_exact  # slow to import, and most comparisons do not need it

        table = [[part, of - part], [other_part, other_of - other_part]]
        return float(fisher_exact(table).pvalue)
    share = parts / cases
    error = math.sqrt(share * (1 - share) * (1 / of + 1 / other_of))
    return p_two_sided((other_part / other_of - part / of) / error)


def all_differ(pairs: Sequence[tuple[int, int, int, int]]) -> list[float]:
    """Returns the p values of `shares_differ` for several pairs of shares, corrected by Holm's method; 1 for a side
    without cases.

    Args:
        pairs: (part, of, other part, other of) of each pair.
    """
    ps = [shares_differ(*pair) if pair[1] and pair[3] else 1.0 for pair in pairs]
    return [1.0 if p is None else p for p in holm(ps)]


def mean_difference(values: Floats, other: Floats) -> tuple[Interval, float] | None:
    """Returns the second mean minus the first with its 95% interval, and the p value of the hypothesis that they are
    equal (Welch 1947, Biometrika 34); None where a sample has fewer than two values or nothing varies.

    Args:
        values, other: The two samples, each of shape (cases,).
    """
    if min(len(values), len(other)) < 2:
        return None
    from scipy.special import stdtr, stdtrit

    first_error, second_error = values.var(ddof=1) / len(values), other.var(ddof=1) / len(other)
    error = math.sqrt(first_error + second_error)
    if error == 0:
        return None
    freedom = (first_error + second_error) ** 2 / (
        first_error**2 / (len(values) - 1) + second_error**2 / (len(other) - 1)
    )
    difference = float(other.mean() - values.mean())
    half = float(stdtrit(freedom, 0.975)) * error
    p = 2 * float(stdtr(freedom, -abs(difference) / error))
    return Interval(difference, difference - half, difference + half), p


def cases_needed(share: float, other: float) -> int | None:
    """Returns how many cases each sample needs so that a difference between two shares is found at the 5% level with
    probability `POWER` (Fleiss, Levin and Paik 2003, Statistical Methods for Rates and Proportions, 4.2); None where
    they are equal."""
    if share == other:
        return None
    middle = (share + other) / 2
    root = Z95 * math.sqrt(2 * middle * (1 - middle)) + _Z_POWER * math.sqrt(
        share * (1 - share) + other * (1 - other)
    )
    return math.ceil((root / (other - share)) ** 2)


def least_difference(share: float, of: int, other_of: int) -> float:
    """Returns the smallest difference from a share that samples of these sizes show at the 5% level with probability
    `POWER`; approximate: the variance is that of `share` in both."""
    spread = math.sqrt(max(share * (1 - share), 0.25 / (of + other_of)) * (1 / of + 1 / other_of))
    return (Z95 + _Z_POWER) * spread


MIN_GOAL_MEMBERS = 10
"""Fewest conversations of a goal, both sides together, for a test of it."""
MAX_EXAMPLES = 5
"""Most conversations that are named as examples of a difference."""

_MEANS: tuple[Measure, ...] = ("success", "turns", "characters", "entropy", "leaves")
"""Measures whose means over conversations are compared."""


def compare(sides: tuple[Side, Side], first: Measured, second: Measured) -> Comparison:
    """Returns the tests of all measures of two disjoint sets of conversations, whose goals have the same numbers."""
    tested = [*_completion(first, second), *_means(first, second)]
    goals: list[Difference] = []
    untested = 0
    for goal, label in enumerate(first.goals):
        members = first.part(first.goal == goal), second.part(second.goal == goal)
        if len(members[0].ids) + len(members[1].ids) < MIN_GOAL_MEMBERS:
            untested += 1
            continue
        goals += _of_goal(label, (first, second), members)
    rates = first.counts(), second.counts()
    (above, scored), (_, other_scored) = rates
    correctable = all(side.rate.corrected is not None for side in sides)
    return Comparison(
        sides=sides,
        corrected_change=rate_difference(first.calibration, *rates) if correctable else None,
        least=least_difference(above / scored, scored, other_scored)
        if scored and other_scored
        else None,
        differences=tuple(_corrected(tested, goals)),
        untested=untested,
    )


def _corrected(tested: list[Difference], goals: list[Difference]) -> list[Difference]:
    """Returns all differences with their p values corrected for all tests, those of goals by p value."""
    goals.sort(key=lambda difference: difference.p)
    all_differences = tested + goals
    corrected = []
    for uncorrected, p in zip(
        all_differences, holm([difference.p for difference in all_differences]), strict=True
    ):
        difference = replace(uncorrected, corrected=1.0 if p is None else p)
        if "completion" in difference.measure and not difference.significant:
            difference = replace(difference, needed=cases_needed(*difference.values))
        corrected.append(difference)
    return corrected


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
    counts = first.counts(), second.counts()
    if not (counts[0][1] and counts[1][1]):
        return
    difference = _share("completion" if goal is None else "completion in goal", goal, *counts)
    lower = int(difference.change.value < 0)
    yield replace(difference, examples=_least_complete((first, second)[lower]), examples_in=lower)


def _of_goal(
    label: str, sides: tuple[Measured, Measured], members: tuple[Measured, Measured]
) -> Iterator[Difference]:
    """Yields its share of the conversations that have a goal or could have one, and its completion."""
    first, second = (
        (len(part.ids), len(side.ids)) for part, side in zip(members, sides, strict=True)
    )
    share = _share("share of goal", label, first, second)
    larger = int(share.change.value > 0)
    yield replace(share, examples=_least_complete(members[larger]), examples_in=larger)
    if sum(part.counts()[1] for part in members) >= MIN_GOAL_MEMBERS:
        yield from _completion(*members, label)


def _share(
    measure: Measure, goal: str | None, first: tuple[int, int], second: tuple[int, int]
) -> Difference:
    """Returns a difference of shares; each side is (part, of)."""
    return Difference(
        measure,
        goal,
        (first[0] / first[1], second[0] / second[1]),
        (first[1], second[1]),
        share_difference(*first, *second),
        shares_differ(*first, *second),
    )


def _means(first: Measured, second: Measured) -> Iterator[Difference]:
    """Yields the differences of the means that both sides have."""
    for measure in _MEANS:
        values = [np.asarray(getattr(side, measure)) for side in (first, second)]
        first_values, second_values = (column[~np.isnan(column)] for column in values)
        difference = mean_difference(first_values, second_values)
        if difference is not None:
            means = float(first_values.mean()), float(second_values.mean())
            yield Difference(
                measure, None, means, (len(first_values), len(second_values)), *difference
            )


def _least_complete(side: Measured) -> tuple[int, ...]:
    """Returns the ids of the conversations with the lowest scores; unscored ones come last."""
    order = np.lexsort((side.ids, side.score))[:MAX_EXAMPLES]
    return tuple(int(key) for key in side.ids[order])
