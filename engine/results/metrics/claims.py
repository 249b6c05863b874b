"""Tables of how well each figure (tree measure or baseline) predicts each claim, and of the figures' correlations.

A *claim* is a yes or no that truth decides of a conversation or an answer; each says that something went wrong, so that
a figure should be higher where the claim holds. A *case* is a tree or a conversation with its figures and claims. Cases
of one conversation form a *group*: bootstrap draws take or leave it as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeGuard

import numpy as np

from engine.base.arrays import Bools
from engine.base.statistics.agreement import Correlation, correlate
from engine.base.statistics.bootstrap import RANK_FIGURES, Ranking, Resampling
from engine.base.statistics.intervals import Contrast, Interval
from engine.base.statistics.ranking import (
    Placements,
    auroc,
    corrected,
    holm,
    p_above_chance,
    p_difference,
    placements,
)
from engine.results.metrics.uncertainty import FIGURES, PLAIN, Case, Figure

_AUROC, _AP = range(len(RANK_FIGURES))
"""Indices of the rank figures, in the order of `RANK_FIGURES`."""

OnStep = Callable[[str], None]
"""Called with the name of each step before it is computed; may raise to cancel."""

_EITHER = "unanswerable or underspecified"
"""Name of the claim that holds where one of the two after it does."""

JUDGED_FAILED = "verdict no"
"""Name of the claim that a person decides: the user did not get what they wanted."""

CLAIMS: Mapping[str, str] = {
    "reward 0": "the reward is 0, against more",
    "reward below 1": "the reward is below 1, against 1",
    "not complete": "the source says that the goal was not reached, against reached",
    "success below 1": "the success rate is below 1, against 1",
    _EITHER: "the last question cannot be answered or is not clear, against answerable",
    "unanswerable": "the last question cannot be answered, against answerable",
    "underspecified": "the last question is not clear, against answerable",
    JUDGED_FAILED: "a person said that the user did not get what they wanted, against did; people chose what to judge",
    "hallucinated": "this answer holds something made up, against not",
    "not satisfied": "the user rated this answer 3 or less of 5, against more",
}
"""Name of each claim, and what counts as yes and as no; other conversations are left out."""

OF_AN_ANSWER = frozenset({"hallucinated", "not satisfied"})
"""Claims about one answer; the others are about a whole conversation."""

SATISFIED = 4
"""Least rating that counts as satisfied: RecLLMSim asks users for a reason only below it."""

_ANSWERABILITY: Mapping[str, Mapping[str, bool]] = {
    "ANSWERABLE": {_EITHER: False, "unanswerable": False, "underspecified": False},
    "UNANSWERABLE": {_EITHER: True, "unanswerable": True},
    "UNDERSPECIFIED": {_EITHER: True, "underspecified": True},
}
"""The claims that each value of `answerability` in truth decides."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """How well one figure predicts a claim.

    Attributes:
        figure: Name of the figure.
        positives, negatives: Number of cases with the figure for which the claim holds, and does not hold.
        area: Area under the ROC curve: P(the figure is higher where the claim holds).
        average_precision: At chance level `positives / (positives + negatives)`.
        p: Two-sided p value of the hypothesis that the area is 0.5.
        corrected: `p` after Holm's correction over the figures of the table.
    """

    figure: str
    positives: int
    negatives: int
    area: Interval
    average_precision: Interval
    p: float
    corrected: float


@dataclass(frozen=True, slots=True)
class ClaimTable:
    """All figures as predictors of one claim.

    Attributes:
        holds, fails: Number of cases for which the claim holds, and does not hold.
        rows: One for each figure; empty when the claim has one value for all.
        contrasts: Each measure of the tree against each baseline of `PLAIN`, by area.
    """

    claim: str
    holds: int
    fails: int
    rows: tuple[Ranked, ...]
    contrasts: tuple[Contrast, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two figures and their correlation."""

    first: str
    second: str
    correlation: Correlation


def claim_tables(cases: Sequence[Case], claims: Sequence[str]) -> list[ClaimTable]:
    """Returns a table for each claim that is decided for some case, except claims that have the same answers as an
    earlier one."""
    tables = []
    earlier_answers: list[list[bool | None]] = []
    for claim in claims:
        answers = [case.claims.get(claim) for case in cases]
        holds, fails = answers.count(True), answers.count(False)
        if not holds + fails or answers in earlier_answers:
            continue
        earlier_answers.append(answers)
        cases_of_claim = _ClaimCases([case for case in cases if claim in case.claims], claim)
        tables.append(
            ClaimTable(claim, holds, fails, cases_of_claim.rows(), cases_of_claim.contrasts())
        )
    return tables


class _ClaimCases:
    """The cases for which one claim is decided; caches what several rows need."""

    def __init__(self, cases: Sequence[Case], claim: str) -> None:
        self._claim = claim
        self._holds = np.array([case.claims[claim] for case in cases])
        self._groups = [case.conversation for case in cases]
        first_case = cases[0]  # all have the same figures
        self._values: Mapping[str, list[float | None]] = {
            name: [case.figures[name] for case in cases] for name in first_case.figures
        }
        self._has_figure = {
            name: np.array([value is not None for value in values])
            for name, values in self._values.items()
        }
        self._resampling: Resampling | None = None
        self._ranking_cache: dict[tuple[str, bytes], Ranking] = {}
        self._placements_cache: dict[tuple[str, bytes], Placements] = {}

    def rows(self) -> tuple[Ranked, ...]:
        """Returns a row for each figure that both classes have."""
        rows = [
            self._rank(name)
            for name in self._values
            if self._has_both_classes(self._has_figure[name])
        ]
        corrected_ps = holm([row.p for row in rows])  # None only for a p that is None
        return tuple(
            replace(row, corrected=p)
            for row, p in zip(rows, corrected_ps, strict=True)
            if p is not None
        )

    def contrasts(self) -> tuple[Contrast, ...]:
        """Returns contrasts of each measure with each baseline of the same summary, over the cases that have both."""
        contrasts = [
            self._contrast(name, other)
            for name in self._values
            if FIGURES[name].is_measure
            for other in self._baselines_of(name)
            if self._has_both_classes(self._has_figure[name] & self._has_figure[other])
        ]
        return corrected(contrasts)

    def _baselines_of(self, name: str) -> list[str]:
        """Returns the baselines of `PLAIN` with the same summary as a figure, or without one where they have none."""
        summary = FIGURES[name].summary
        summarized_names = [Figure(plain, summary).name for plain in PLAIN]
        return [
            summarized if summarized in self._values else plain
            for plain, summarized in zip(PLAIN, summarized_names, strict=True)
            if {plain, summarized} & self._values.keys()
        ]

    def _has_both_classes(self, among: Bools) -> bool:
        """Whether the claim holds for some of these cases and not for others; `among` has shape (cases,)."""
        holds = self._holds[among]
        return bool(holds.any()) and not holds.all()

    def _rank(self, name: str) -> Ranked:
        """Returns how well a figure predicts the claim, over the cases that have the figure; p is not corrected yet."""
        among = self._has_figure[name]
        values, holds, groups = self._select(name, among)
        ranking = self._ranking(name, among)
        positives = sum(holds)
        p = p_above_chance(self._placements(name, among))
        return Ranked(
            figure=name,
            positives=positives,
            negatives=len(holds) - positives,
            area=auroc(values, holds, groups),
            average_precision=ranking.figure(_AP),
            p=p,
            corrected=p,
        )

    def _contrast(self, name: str, other: str) -> Contrast:
        """Returns how much better one figure predicts the claim than another, over the cases that have both."""
        among = self._has_figure[name] & self._has_figure[other]
        first, second = self._placements(name, among), self._placements(other, among)
        difference = self._ranking(name, among).difference(self._ranking(other, among), _AUROC)
        return Contrast(
            figure="AUROC",
            one=name,
            other=other,
            n=int(among.sum()),
            first=first.area,
            second=second.area,
            difference=Interval(difference.value, difference.low, difference.high),
            p=p_difference(first, second),
        )

    def _select(self, name: str, among: Bools) -> tuple[list[float], list[bool], list[int]]:
        """Returns the figure, whether the claim holds, and the id of the conversation, of each of these cases."""
        values = [v for v, has_figure in zip(self._values[name], among, strict=True) if has_figure]
        groups = [g for g, has_figure in zip(self._groups, among, strict=True) if has_figure]
        return [0.0 if v is None else v for v in values], self._holds[among].tolist(), groups

    def _ranking(self, name: str, among: Bools) -> Ranking:
        """Returns the rank figures of these cases in all bootstrap draws, which are the same for all figures."""
        key = name, among.tobytes()
        if key not in self._ranking_cache:
            self._resampling = self._resampling or Resampling(self._groups)
            # cases without the figure are not `among` those ranked, so that their 0 counts for nothing
            values = [0.0 if v is None else v for v in self._values[name]]
            self._ranking_cache[key] = self._resampling.rank(values, self._holds.tolist(), among)
        return self._ranking_cache[key]

    def _placements(self, name: str, among: Bools) -> Placements:
        """Returns what DeLong's test needs of these cases."""
        key = name, among.tobytes()
        if key not in self._placements_cache:
            self._placements_cache[key] = placements(*self._select(name, among))
        return self._placements_cache[key]


def pairs(cases: Sequence[Case]) -> list[Pair]:
    """Returns the correlation of every two figures that both vary, over the cases that have both."""
    correlated = []
    for first, second in combinations(cases[0].figures if cases else (), 2):
        value_pairs = [
            (x, y)
            for case in cases
            if (x := case.figures[first]) is not None and (y := case.figures[second]) is not None
        ]
        correlation = correlate([x for x, _ in value_pairs], [y for _, y in value_pairs])
        if correlation is not None:
            correlated.append(Pair(first, second, correlation))
    return correlated


# Claims that truth decides


def of_conversation(truth: Mapping[str, Any]) -> dict[str, bool]:
    """Returns the claims about a conversation that its truth decides."""
    claims: dict[str, bool] = {}
    reward, success = truth.get("reward"), truth.get("success")
    if _is_number(reward):
        claims["reward 0"] = reward <= 0
        claims["reward below 1"] = reward < 1
    if _is_number(success):
        claims["success below 1"] = success < 1
    complete = truth.get("complete")
    if isinstance(complete, bool):
        claims["not complete"] = not complete
    claims.update(_ANSWERABILITY.get(str(truth.get("answerability", "")).upper(), {}))
    return claims


def judges_answers(truth: Mapping[str, Any]) -> bool:
    """Whether truth has judgments of single answers."""
    return any(isinstance(truth.get(name), list) for name in _OF_ANSWERS)


def of_answers(truth: Mapping[str, Any], answers: int) -> list[dict[str, bool]]:
    """Returns the claims about each of a conversation's assistant messages, in order.

    Args:
        answers: Number of assistant messages. A list of judgments of another length is ignored, since it is unknown
            which answers it is about.
    """
    by_answer: list[dict[str, bool]] = [{} for _ in range(answers)]
    for name, read in _OF_ANSWERS.items():
        judgments = truth.get(name)
        if isinstance(judgments, list) and len(judgments) == answers:
            for claims, judgment in zip(by_answer, judgments, strict=True):
                claims.update(read(judgment))
    return by_answer


def _hallucinated(judgment: Any) -> dict[str, bool]:
    """Returns the claim that an answer holds something made up, where it was judged."""
    return {"hallucinated": judgment} if isinstance(judgment, bool) else {}


def _not_satisfied(rating: Any) -> dict[str, bool]:
    """Returns the claim that the user was not satisfied with an answer, where it was rated."""
    return {"not satisfied": rating < SATISFIED} if _is_number(rating) else {}


_OF_ANSWERS: Mapping[str, Callable[[Any], dict[str, bool]]] = {
    "hallucination": _hallucinated,
    "satisfaction": _not_satisfied,
}
"""Fields of truth with a value for each answer, and the claim made from a value."""


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value of truth is a number; a truth value is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
