"""Tests whether two sets of conversations, the *sides*, differ in their measures; the results are frozen rows.

A share is given as two counts: `part` cases out of `of`. A change is the value of the second side minus that of the
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from engine.base.arrays import Floats
from engine.base.statistics.intervals import Interval, wilson
from engine.base.statistics.ranking import SIGNIFICANCE_LEVEL, holm, p_two_sided
from engine.questions.calibration import estimate_rate_change
from engine.questions.records import CompletionRate, MachineShare
from engine.results.comparison.measures import Measures

Measure = Literal[
    "succeeded",
    "failed",
    "completion",
    "share of goal",
    "completion in goal",
    "trouble",
    "trouble in goal",
    "success",
    "turns",
    "characters",
    "entropy",
    "leaves",
]
"""Name of what is compared. The first five are shares of conversations, the others means over conversations;
`succeeded` is by verdicts, `failed` by imported outcomes,
`trouble` is the sum of the standard scores of signs, `success` the probability of success that is fitted to
verdicts."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two sides of a comparison.

    Attributes:
        name: Its name for a person.
        filter: The filter that selects its conversations; empty for all of a project; None where no filter does.
        rate: Number of its conversations, and the share of them that is complete.
    """

    name: str
    filter: str | None
    rate: CompletionRate


@dataclass(frozen=True, slots=True)
class Difference:
    """How one measure differs between the two sides.

    Attributes:
        measure: The measure.
        goal: Label of the goal; None for a measure over all conversations.
        values: The measure on the first and on the second side.
        cases: Number of conversations behind each value.
        change: The second value minus the first, with its 95% interval.
        p: The p value of the hypothesis that there is no difference.
        corrected: The p value corrected by Holm's method for all tests of the comparison but those of `MAIN_QUESTIONS`,
            each of which is tested alone.
    """

    measure: Measure
    goal: str | None
    values: tuple[float, float]
    cases: tuple[int, int]
    change: Interval
    p: float
    corrected: float = 1.0

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at the 5% level, by the corrected p value."""
        return self.corrected < SIGNIFICANCE_LEVEL


@dataclass(frozen=True, slots=True)
class SignChange:
    """How many conversations show a sign of trouble on the two sides.

    Attributes:
        sign: The sign as filters have it; `any` for any sign.
        counts: How many show it on the first side, how many were read there, and both numbers of the second side.
        corrected: The p value of the hypothesis that the shares are equal, by Holm's method over the signs of all
            that is compared; 1 where a side has no conversation.
    """

    sign: str
    counts: tuple[int, int, int, int]
    corrected: float


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """How often one answer to a question was given on the two sides.

    Attributes:
        question: Name of the question.
        by: The machine that answered; its newest answers count.
        value: The answer; `mean` where answers are numbers.
        shares: The share, or mean, on the first and on the second side: corrected for the errors of the machine where
            people checked enough on both sides, else as it answered.
        change: The change with its 95% interval; None where the shares are not corrected.
    """

    question: str
    by: str
    value: str
    shares: tuple[MachineShare, MachineShare]
    change: Interval | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and how they differ.

    Attributes:
        sides: The first and the second side.
        corrected_change: Change of the completion rate, corrected for the errors of the scores; None if unknown.
        differences: All tests: those of measures over all conversations first, then those of goals by p value.
        untested: Number of goals with too few conversations for a test.
        answer_changes: How often machines gave each answer on both sides.
        sign_changes: How many show any sign of trouble, then each sign; empty where no conversation shows one.
        doubt: Why the scores in force mean little; empty where their test does not say so.
    """

    sides: tuple[Side, Side]
    corrected_change: Interval | None
    differences: tuple[Difference, ...]
    untested: int
    answer_changes: tuple[AnswerChange, ...] = ()
    sign_changes: tuple[SignChange, ...] = ()
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """The conversations with one value of a field.

    Attributes:
        value: The value.
        filter: The filter that selects the conversations.
        rate: Their number, and the share of them that is complete.
        against: The part with which this one is compared: the value before, or `the others`; empty without one.
        change: Difference of the completion rate from that part; None where one of the two has no scores.
        sign_changes: As of a comparison, with that part as the first side.
        outcomes: Number of conversations that failed, and of those of which that is known: by a verdict, else by the
            outcome that came with them.
    """

    value: str
    filter: str
    rate: CompletionRate
    against: str
    change: Difference | None
    sign_changes: tuple[SignChange, ...] = ()
    outcomes: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class PeriodChange:
    """How a period of time differs from the one before it.

    Attributes:
        first, last: The two periods, such as the months `2026-02` and `2026-03`.
        differences: The significant differences, but for those of verdicts and of what is predicted from them: people
            pick what they judge, and may pick otherwise in each period.
        sign_changes: As of the `Part` of the last period.
    """

    first: str
    last: str
    differences: tuple[Difference, ...]
    sign_changes: tuple[SignChange, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A project by the values of one field.

    Attributes:
        field: Name of the field.
        parts: The parts, for a field of time in the order of time, otherwise the most frequent value first.
        without: Number of conversations without a value.
        left_out: Number of values that are not listed, and of their conversations.
        doubt: Why the scores in force mean little; empty where their test does not say so.
        last_change: How the last of two neighboring periods with enough conversations differs from the other one; None
            where there are none.
    """

    field: str
    parts: tuple[Part, ...]
    without: int
    left_out: tuple[int, int] = (0, 0)
    doubt: str = ""
    last_change: PeriodChange | None = None


# The comparison


MAIN_QUESTIONS: tuple[Measure, ...] = ("succeeded", "failed", "completion")
"""The shares of all conversations that a comparison asks for first."""

MIN_GOAL_MEMBERS = 10
"""Fewest conversations of a goal, on both sides together, for a test of the goal."""

_MEANS: tuple[Measure, ...] = ("trouble", "success", "turns", "characters", "entropy", "leaves")
"""Measures whose means over conversations are compared."""


class _Count(NamedTuple):
    """A share as counts of conversations: `part` out of `of`."""

    part: int
    of: int


def compare(sides: tuple[Side, Side], first: Measures, second: Measures) -> Comparison:
    """Returns the comparison of two disjoint sets of conversations; their goals must have the same numbers."""
    overall = [
        *_compare_outcomes(first, second),
        *_compare_completion(first, second),
        *_compare_all_means(first, second),
    ]
    goals: list[Difference] = []
    untested = 0
    for goal, label in enumerate(first.goals):
        first_members = first.part(first.goal == goal)
        second_members = second.part(second.goal == goal)
        if len(first_members.ids) + len(second_members.ids) < MIN_GOAL_MEMBERS:
            untested += 1
            continue
        goals += _compare_goal(label, (first, second), (first_members, second_members))
    rates = first.counts(), second.counts()
    correctable = all(side.rate.corrected is not None for side in sides)
    return Comparison(
        sides=sides,
        corrected_change=estimate_rate_change(first.calibration, *rates) if correctable else None,
        differences=tuple(_correct_p_values(overall, goals)),
        untested=untested,
    )


def _correct_p_values(overall: list[Difference], goals: list[Difference]) -> list[Difference]:
    """Returns all differences with corrected p values: those over all conversations, then those of goals by p value.

    Each of the `MAIN_QUESTIONS` is tested alone and keeps its p value.
    """
    alone = [difference for difference in overall if difference.measure in MAIN_QUESTIONS]
    others = [difference for difference in overall if difference.measure not in MAIN_QUESTIONS]
    others += sorted(goals, key=lambda difference: difference.p)
    ps = [
        *(difference.p for difference in alone),
        *holm([difference.p for difference in others]),
    ]
    return [
        replace(difference, corrected=1.0 if p is None else p)
        for difference, p in zip([*alone, *others], ps, strict=True)
    ]


def _compare_outcomes(first: Measures, second: Measures) -> Iterator[Difference]:
    """Yields the differences in the share that succeeded by verdicts and in the share that failed by imported outcomes,
    each where both sides have some."""
    kinds: tuple[tuple[Measure, str, float], ...] = (
        ("succeeded", "verdict", 1.0),
        ("failed", "outcome", 0.0),
    )
    for measure, name, value in kinds:
        known = [
            column[~np.isnan(column)] for column in (getattr(first, name), getattr(second, name))
        ]
        if all(map(len, known)):
            counts = [_Count(int((column == value).sum()), len(column)) for column in known]
            yield _compare_shares(measure, None, *counts)


def completion_change(first: Measures, second: Measures) -> Difference | None:
    """Returns the difference of the completion rates over all conversations; None where a side has no scores."""
    return next(_compare_completion(first, second), None)


def _compare_completion(
    first: Measures, second: Measures, goal: str | None = None
) -> Iterator[Difference]:
    """Yields the difference of the completion rates, of a goal if one is named; nothing where a side has no scores."""
    counts = _Count(*first.counts()), _Count(*second.counts())
    if not all(count.of for count in counts):
        return
    yield _compare_shares("completion" if goal is None else "completion in goal", goal, *counts)


def _compare_goal(
    label: str, sides: tuple[Measures, Measures], members: tuple[Measures, Measures]
) -> Iterator[Difference]:
    """Yields the differences of a goal: in its share of all conversations, in its completion, and in its trouble.

    Args:
        label: Label of the goal.
        sides: All conversations of both sides.
        members: The conversations of both sides with the goal.
    """
    first, second = (
        _Count(len(part.ids), len(side.ids)) for part, side in zip(members, sides, strict=True)
    )
    yield _compare_shares("share of goal", label, first, second)
    if sum(_Count(*part.counts()).of for part in members) >= MIN_GOAL_MEMBERS:
        yield from _compare_completion(*members, label)
    yield from _compare_means("trouble in goal", label, *(part.trouble for part in members))


def _compare_shares(
    measure: Measure, goal: str | None, first: _Count, second: _Count
) -> Difference:
    """Returns a difference of shares of conversations; both sides must have at least one conversation."""
    return Difference(
        measure,
        goal,
        values=(first.part / first.of, second.part / second.of),
        cases=(first.of, second.of),
        change=share_difference(*first, *second),
        p=p_of_share_difference(*first, *second),
    )


def _compare_all_means(first: Measures, second: Measures) -> Iterator[Difference]:
    """Yields the differences of those of `_MEANS` that both sides have."""
    for measure in _MEANS:
        yield from _compare_means(
            measure, None, *(getattr(side, measure) for side in (first, second))
        )


def _compare_means(
    measure: Measure, goal: str | None, first: Floats, second: Floats
) -> Iterator[Difference]:
    """Yields the difference of two means without NaN; nothing where `mean_difference` gives None."""
    first, second = (column[~np.isnan(column)] for column in (first, second))
    difference = mean_difference(first, second)
    if difference is not None:
        means = float(first.mean()), float(second.mean())
        yield Difference(measure, goal, means, (len(first), len(second)), *difference)


# Two independent samples: interval and test


_UPPER_QUANTILE = 0.975
"""Quantile at the upper end of a 95% interval."""

_MIN_EXPECTED_COUNT = 5.0
"""Least expected count of each kind for the score test; below it, the exact test is used."""


def share_difference(count: int, size: int, second_count: int, second_size: int) -> Interval:
    """Returns the second share minus the first with its 95% interval (Newcombe 1998, Stat. Med. 17, method 10).

    Both samples must have at least one case.
    """
    first, second = wilson(count, size), wilson(second_count, second_size)
    return interval_difference(
        Interval(count / size, first.low, first.high),
        Interval(second_count / second_size, second.low, second.high),
    )


def interval_difference(first: Interval, second: Interval) -> Interval:
    """Returns the second of two independent values minus the first, with its 95% interval, which follows from
    theirs."""
    # the distances of both values to the ends of their intervals are added as errors of independent values are
    below = math.hypot(second.value - second.low, first.high - first.value)
    above = math.hypot(second.high - second.value, first.value - first.low)
    difference = second.value - first.value
    return Interval(difference, difference - below, difference + above)


def p_of_share_difference(count: int, size: int, second_count: int, second_size: int) -> float:
    """Returns the two-sided p value of the hypothesis that two shares are equal.

    Pearson's chi-squared test without correction; with few cases, Fisher's exact test, which needs no large samples.
    """
    parts, cases = count + second_count, size + second_size
    rarer = min(parts, cases - parts)
    least_expected_count = rarer * min(size, second_size) / cases
    if least_expected_count < _MIN_EXPECTED_COUNT:
        from scipy.stats import fisher_exact  # slow to import, and most comparisons do not need it

        table = [[count, size - count], [second_count, second_size - second_count]]
        return float(fisher_exact(table).pvalue)
    common_share = parts / cases
    error = math.sqrt(common_share * (1 - common_share) * (1 / size + 1 / second_size))
    return p_two_sided((second_count / second_size - count / size) / error)


def p_of_share_differences(pairs: Sequence[tuple[int, int, int, int]]) -> list[float]:
    """Returns the p values of several pairs of shares, corrected by Holm's method; 1 for a pair with an empty side.

    Args:
        pairs: The arguments of `p_of_share_difference` for each pair.
    """
    ps = [
        p_of_share_difference(part, of, other_part, other_of) if of and other_of else None
        for part, of, other_part, other_of in pairs
    ]
    return [1.0 if p is None else p for p in holm(ps)]


def mean_difference(first: Floats, second: Floats) -> tuple[Interval, float] | None:
    """Returns the second mean minus the first with its 95% interval, and the p value of equal means.

    The method is that of Welch (1947, Biometrika 34). Returns None where a sample has fewer than two values, or where
    all values of each sample are equal.

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
