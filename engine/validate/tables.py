"""Tables: each figure against each claim, and the figures against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from engine.validate.correlation import Correlation, correlate
from engine.validate.interval import Interval
from engine.validate.ranking import auroc, average_precision
from engine.validate.uncertainty import Case


@dataclass(frozen=True, slots=True)
class Ranked:
    """How well one figure finds what a claim holds for.

    Attributes:
        positives, negatives: Cases that have the figure, by whether the claim holds.
        area: P(the figure is higher where the claim holds).
        average_precision: Chance gives `positives / (positives + negatives)`.
    """

    figure: str
    positives: int
    negatives: int
    area: Interval
    average_precision: float


@dataclass(frozen=True, slots=True)
class ClaimTable:
    """All figures against one claim.

    Attributes:
        holds, fails: Cases for which it is known.
        rows: By figure; empty where the claim is the same for all.
    """

    claim: str
    holds: int
    fails: int
    rows: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two figures and how they go together."""

    first: str
    second: str
    found: Correlation


def claim_tables(cases: Sequence[Case], claims: Sequence[str]) -> list[ClaimTable]:
    """A table for each of the claims that is known of some case; one that says the same as an earlier one of every case
    is left out."""
    tables = []
    seen: list[list[bool | None]] = []
    for claim in claims:
        answers = [case.claims.get(claim) for case in cases]
        holds, fails = answers.count(True), answers.count(False)
        if not holds + fails or answers in seen:
            continue
        seen.append(answers)
        rows = _rows([case for case in cases if claim in case.claims], claim)
        tables.append(ClaimTable(claim, holds, fails, tuple(rows)))
    return tables


def _rows(cases: Sequence[Case], claim: str) -> list[Ranked]:
    rows = []
    for name in cases[0].figures:
        usable = [
            (value, case.claims[claim], case.conversation)
            for case in cases
            if (value := case.figures[name]) is not None
        ]
        positives = sum(holds for _, holds, _ in usable)
        negatives = len(usable) - positives
        if positives and negatives:
            values, labels, groups = zip(*usable, strict=True)
            area = auroc(values, labels, groups)
            precision = average_precision(values, labels)
            rows.append(Ranked(name, positives, negatives, area, precision))
    return rows


def pairs(cases: Sequence[Case]) -> list[Pair]:
    """Every two figures that both vary, over the cases that have both."""
    found = []
    for first, second in combinations(cases[0].figures if cases else (), 2):
        both = [
            (x, y)
            for case in cases
            if (x := case.figures[first]) is not None and (y := case.figures[second]) is not None
        ]
        correlation = correlate([x for x, _ in both], [y for _, y in both])
        if correlation is not None:
            found.append(Pair(first, second, correlation))
    return found
