"""Computes how well each figure predicts each claim about conversations, and the correlations of figures.

A *claim* says that something went wrong in a conversation; truth decides whether it holds. A *figure* is a measure of
response trees, or a baseline that needs no tree; it grows with uncertainty, so it should be higher where a claim holds.
A *response tree* has the answers that a model could give, token by token; each *leaf* is the end of an answer, with its
probability. Log-probabilities are natural, entropies in bits. A figure whose name begins with a minus is negated so
that it grows with uncertainty too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeGuard

import numpy as np

from engine.base.arrays import Bools
from engine.base.number_format import figure
from engine.base.statistics.bootstrap import RANK_FIGURES, Resampling
from engine.base.statistics.intervals import Interval
from engine.base.statistics.ranking import (
    SIGNIFICANCE_LEVEL,
    Correlation,
    Placements,
    auroc,
    correlate,
    holm,
    p_against_chance,
    p_difference,
    placements,
)
from engine.trees.records import TreeRow

MEASURES: Mapping[str, str] = {
    "leaves": "leaves of the tree",
    "-max_logprob": "minus the log-probability of the best leaf",
    "entropy": "entropy at the tree's resolution, bits",
}
"""Description of each measure by its name."""

BASELINES: Mapping[str, str] = {
    "length": "characters of the conversation",
    "perplexity": "of the recorded answer: e to minus the mean log-probability of its tokens",
}
"""Description of each baseline by its name; perplexity is that of Jelinek et al. (1977). A measure is useful only if it
beats the baselines."""

_MAX_LOG_PERPLEXITY = 700.0
"""Greatest logarithm of a perplexity that is finite in double precision."""

_AP = RANK_FIGURES.index("average_precision")
"""Index of the average precision in `RANK_FIGURES`."""

_EITHER = "unanswerable or underspecified"
"""Name of the claim that holds where one of the two claims that follow it in `CLAIMS` does."""

JUDGED_FAILED = "verdict no"
"""Name of the claim, decided by a person, that the user did not get what they wanted."""

CLAIMS: Mapping[str, str] = {
    "reward 0": "the reward is 0, against more",
    "reward below 1": "the reward is below 1, against 1",
    "not complete": "the source says that the goal was not reached, against reached",
    "success below 1": "the success rate is below 1, against 1",
    _EITHER: "the last question cannot be answered or is not clear, against answerable",
    "unanswerable": "the last question cannot be answered, against answerable",
    "underspecified": "the last question is not clear, against answerable",
    JUDGED_FAILED: "a person said that the user did not get what they wanted, against did; people chose what to judge",
}
"""By the name of each claim, when it holds and when it fails; it is not decided for other conversations."""

_ANSWERABILITY: Mapping[str, Mapping[str, bool]] = {
    "ANSWERABLE": {_EITHER: False, "unanswerable": False, "underspecified": False},
    "UNANSWERABLE": {_EITHER: True, "unanswerable": True},
    "UNDERSPECIFIED": {_EITHER: True, "underspecified": True},
}
"""The claims that each value of `answerability` in truth decides."""


@dataclass(frozen=True, slots=True)
class Case:
    """A conversation with its figures and claims.

    Attributes:
        conversation: Id of the conversation.
        figures: Figures by name; None where the conversation has none.
        claims: The claims that are decided, by name, and whether they hold.
    """

    conversation: int
    figures: Mapping[str, float | None]
    claims: Mapping[str, bool]


@dataclass(frozen=True, slots=True)
class FigureRow:
    """How well one figure predicts a claim.

    Attributes:
        figure: Name of the figure.
        positives, negatives: Number of cases with the figure for which the claim holds, and fails.
        area: Area under the ROC curve: P(the figure is higher where the claim holds).
        average_precision: Average precision; its chance level is `positives / (positives + negatives)`.
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
        claim: The claim that is tested.
        holds, fails: Number of cases for which the claim holds, and fails.
        rows: A row for each figure; empty where the claim holds for all cases or for none.
        conclusions: A sentence on chance, and one that compares the best measure with the best baseline.
    """

    claim: str
    holds: int
    fails: int
    rows: tuple[FigureRow, ...]
    conclusions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two figures and their correlation."""

    first: str
    second: str
    correlation: Correlation


def figures_of(rows: Sequence[TreeRow], chars: int) -> dict[str, float | None]:
    """Returns the figures of a conversation by name; of several trees the greatest value.

    Args:
        rows: The trees of the conversation, at least one.
        chars: Length of the conversation in characters.
    """
    figures_by_tree = [
        {
            "leaves": row.leaves,
            "-max_logprob": None if row.max_log_prob is None else -row.max_log_prob,
            "entropy": row.entropy,
            "length": chars,
            "perplexity": _perplexity(row),
        }
        for row in rows
    ]
    first, *_ = figures_by_tree
    return {
        name: max(
            (value for figures in figures_by_tree if (value := figures[name]) is not None),
            default=None,
        )
        for name in first
    }


def _perplexity(row: TreeRow) -> float | None:
    """Returns the perplexity of the recorded answer; None where it was not scored."""
    if row.answer_log_prob is None or not row.answer_tokens:
        return None
    return math.exp(min(-row.answer_log_prob / row.answer_tokens, _MAX_LOG_PERPLEXITY))


def claim_tables(cases: Sequence[Case]) -> tuple[ClaimTable, ...]:
    """Returns a table for each claim that is decided for a case; one with the answers of an earlier claim gets none."""
    tables = []
    earlier_answers: list[list[bool | None]] = []
    for claim in CLAIMS:
        answers = [case.claims.get(claim) for case in cases]
        holds, fails = answers.count(True), answers.count(False)
        if not holds + fails or answers in earlier_answers:
            continue
        earlier_answers.append(answers)
        decided = [case for case in cases if claim in case.claims]
        rows = _figure_rows(decided, claim)
        conclusions = (_against_chance(rows), *_best_measure(decided, claim, rows)) if rows else ()
        tables.append(ClaimTable(claim, holds, fails, rows, conclusions))
    return tuple(tables)


def _figure_rows(cases: Sequence[Case], claim: str) -> tuple[FigureRow, ...]:
    """Returns a row for each figure, over the cases that have it, if the claim holds for some of them but not for
    all."""
    holds = np.array([case.claims[claim] for case in cases])
    resampling = Resampling([case.conversation for case in cases])
    rows = []
    for name in (*MEASURES, *BASELINES):
        has_figure = np.array([case.figures[name] is not None for case in cases])
        if not _has_both_classes(holds[has_figure]):
            continue
        with_figure = [case for case in cases if case.figures[name] is not None]
        values, labels, groups = _sample(with_figure, claim, name)
        all_values = [case.figures[name] or 0.0 for case in cases]
        ranking = resampling.rank(all_values, holds.tolist(), has_figure)
        p = p_against_chance(placements(values, labels, groups))
        rows.append(
            FigureRow(
                figure=name,
                positives=sum(labels),
                negatives=len(labels) - sum(labels),
                area=auroc(values, labels, groups),
                average_precision=ranking.figure(_AP),
                p=p,
                corrected=p,
            )
        )
    corrected_ps = holm([row.p for row in rows])  # None only for a p that is None
    return tuple(
        replace(row, corrected=p)
        for row, p in zip(rows, corrected_ps, strict=True)
        if p is not None
    )


def _has_both_classes(holds: Bools) -> bool:
    """Returns whether a claim holds for some cases and not for others; `holds` has shape (cases,)."""
    return bool(holds.any()) and not holds.all()


def _sample(
    cases: Sequence[Case], claim: str, name: str
) -> tuple[list[float], list[bool], list[int]]:
    """Returns three parallel lists of cases that all have a figure: the figure, whether a claim holds, and the id."""
    values = [case.figures[name] or 0.0 for case in cases]
    return values, [case.claims[claim] for case in cases], [case.conversation for case in cases]


def _against_chance(rows: Sequence[FigureRow]) -> str:
    """Returns a sentence on the figures that are significantly above and below chance."""
    significant = [row for row in rows if row.corrected < SIGNIFICANCE_LEVEL]
    above = [row.figure for row in significant if row.area.value > 0.5]
    below = [row.figure for row in significant if row.area.value < 0.5]
    if not above and not below:
        return f"None of {len(rows)} figures differs significantly from chance."
    parts = [f"above chance: {', '.join(above)}"] if above else []
    if below:
        parts.append(f"below chance: {', '.join(below)}")
    return f"{'; '.join(parts).capitalize()}; no other figure differs significantly from chance."


def _best_measure(cases: Sequence[Case], claim: str, rows: Sequence[FigureRow]) -> list[str]:
    """Returns a sentence that compares the best measure with the best baseline, over the cases that have both figures.

    The best is the one with the largest area. Returns an empty list where there is no such pair.
    """
    best = {
        is_measure: max(
            (row for row in rows if (row.figure in MEASURES) == is_measure),
            key=lambda row: row.area.value,
            default=None,
        )
        for is_measure in (True, False)
    }
    measure, baseline = best[True], best[False]
    if measure is None or baseline is None:
        return []
    names = measure.figure, baseline.figure
    shared = [case for case in cases if all(case.figures[name] is not None for name in names)]
    if not _has_both_classes(np.array([case.claims[claim] for case in shared])):
        return []
    first, second = (placements(*_sample(shared, claim, name)) for name in names)
    return [areas_in_words(names, (first, second))]


def areas_in_words(names: tuple[str, str], areas: tuple[Placements, Placements]) -> str:
    """Returns in words which of two areas over the same cases is larger, with the p value of DeLong's test."""
    first, second = areas
    p = p_difference(first, second)
    compared = f"{names[0]} {figure(first.area)} against {names[1]} {figure(second.area)}"
    if p is None:
        return f"{compared}: too few of one kind to test."
    p_text = "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".", 1)
    if p >= SIGNIFICANCE_LEVEL:
        return f"{compared}: no significant difference ({p_text})."
    return f"{compared}: {'better' if first.area > second.area else 'worse'} ({p_text})."


def claim_pairs(cases: Sequence[Case]) -> tuple[Pair, ...]:
    """Returns the correlations of figures with the length, and of the two measures that Soroka et al. compare.

    Each is over the cases that have both figures.
    """
    correlated = []
    for first, second in combinations((*MEASURES, *BASELINES), 2):
        if "length" not in (first, second) and (first, second) != ("leaves", "-max_logprob"):
            continue
        value_pairs = [
            (x, y)
            for case in cases
            if (x := case.figures[first]) is not None and (y := case.figures[second]) is not None
        ]
        correlation = correlate([x for x, _ in value_pairs], [y for _, y in value_pairs])
        if correlation is not None:
            correlated.append(Pair(first, second, correlation))
    return tuple(correlated)


def claims_of(truth: Mapping[str, Any]) -> dict[str, bool]:
    """Returns the claims that the truth of a conversation decides, and whether they hold."""
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


def _is_number(value: Any) -> TypeGuard[int | float]:
    """Returns whether a value of truth is a number; `True` and `False` are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)
