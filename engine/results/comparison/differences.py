"""Tests two sets of conversations against each other, measure by measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from engine.base.statistics.significance import holm
from engine.questions.calibration import rate_difference
from engine.results.comparison.measured import Measured
from engine.results.comparison.records import Comparison, Difference, Measure, Side
from engine.results.comparison.two_samples import (
    cases_needed,
    least_difference,
    mean_difference,
    share_difference,
    shares_differ,
)

LEAST_MEMBERS = 10
"""Fewest conversations of a goal, both sides together, for a test of it."""
MOST_EXAMPLES = 5
_MEANS: tuple[Measure, ...] = ("success", "turns", "characters", "entropy", "leaves")


def compare(sides: tuple[Side, Side], first: Measured, second: Measured) -> Comparison:
    """Tests all measures of two disjoint sets of conversations, whose goals have the same numbers."""
    tested = [*_completion(first, second), *_means(first, second)]
    goals: list[Difference] = []
    untested = 0
    for goal, label in enumerate(first.goals):
        members = first.part(first.goal == goal), second.part(second.goal == goal)
        if len(members[0].ids) + len(members[1].ids) < LEAST_MEMBERS:
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
    """All with their p values corrected for all tests, those of goals by p value."""
    goals.sort(key=lambda one: one.p)
    every = tested + goals
    found = []
    for one, p in zip(every, holm([one.p for one in every]), strict=True):
        one = replace(one, corrected=1.0 if p is None else p)
        if "completion" in one.measure and not one.significant:
            one = replace(one, needed=cases_needed(*one.values))
        found.append(one)
    return found


def completion_change(first: Measured, second: Measured) -> Difference | None:
    """The difference of the completion rates; None where a side has no scores."""
    return next(_completion(first, second), None)


def entropy_change(first: Measured, second: Measured) -> Difference | None:
    """The difference of the mean entropies; None where a side has too few response trees, or nothing varies."""
    return next((one for one in _means(first, second) if one.measure == "entropy"), None)


def _completion(first: Measured, second: Measured, goal: str | None = None) -> Iterator[Difference]:
    counts = first.counts(), second.counts()
    if not (counts[0][1] and counts[1][1]):
        return
    found = _share("completion" if goal is None else "completion in goal", goal, *counts)
    lower = int(found.change.value < 0)
    yield replace(found, examples=_least_complete((first, second)[lower]), examples_in=lower)


def _of_goal(
    label: str, sides: tuple[Measured, Measured], members: tuple[Measured, Measured]
) -> Iterator[Difference]:
    """Its share of the conversations that have a goal or could have one, and its completion."""
    first, second = (
        (len(one.ids), len(side.ids)) for one, side in zip(members, sides, strict=True)
    )
    found = _share("share of goal", label, first, second)
    larger = int(found.change.value > 0)
    yield replace(found, examples=_least_complete(members[larger]), examples_in=larger)
    if sum(one.counts()[1] for one in members) >= LEAST_MEMBERS:
        yield from _completion(*members, label)


def _share(
    measure: Measure, goal: str | None, first: tuple[int, int], second: tuple[int, int]
) -> Difference:
    """A difference of shares; each side is (part, of)."""
    return Difference(
        measure,
        goal,
        (first[0] / first[1], second[0] / second[1]),
        (first[1], second[1]),
        share_difference(*first, *second),
        shares_differ(*first, *second),
    )


def _means(first: Measured, second: Measured) -> Iterator[Difference]:
    for measure in _MEANS:
        values = [np.asarray(getattr(side, measure)) for side in (first, second)]
        one, two = (column[~np.isnan(column)] for column in values)
        found = mean_difference(one, two)
        if found is not None:
            means = float(one.mean()), float(two.mean())
            yield Difference(measure, None, means, (len(one), len(two)), *found)


def _least_complete(side: Measured) -> tuple[int, ...]:
    """Ids of the conversations with the lowest scores; unscored ones come last."""
    order = np.lexsort((side.ids, side.score))[:MOST_EXAMPLES]
    return tuple(int(key) for key in side.ids[order])
