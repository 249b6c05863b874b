"""Which trees stand out: many leaves, or an improbable best response, and both together as in appendix C.2.2 of Soroka
et al."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.number_format import counted
from engine.base.outcomes import (
    State,
)
from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.trees.records import TreeRow
from engine.trees.service.records import TreeItem

DECILE = 0.9
FEWEST = 10
"""Fewest trees of which the top tenth is told."""

_COLUMNS = (
    ReportColumn("conversation", "text"),
    ReportColumn("step", "count"),
    ReportColumn("branches", "count", means="Leaves of the tree."),
    ReportColumn("max logprob", "number", means="Log-probability of the most probable response."),
    ReportColumn("completed", "text", means="By the completeness scores in force."),
    ReportColumn("goal", "text", means="Group of the clustering that is shown."),
)
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Deciles:
    """Limits at or above which a tree stands out: the top tenth of leaves, and of the negative best log-probability."""

    leaves: float = math.inf
    surprise: float = math.inf

    @classmethod
    def of(cls, items: Sequence[TreeItem]) -> Deciles:
        """The limits for the trees of a list; with few trees none stands out."""
        grown = [item.row for item in items if item.row.reason is None]
        if len(grown) < FEWEST:
            return cls()
        return cls(
            _quantile([row.leaves for row in grown]),
            _quantile([-row.max_log_prob for row in grown if row.max_log_prob is not None]),
        )

    def many(self, row: TreeRow) -> bool:
        """Whether a tree is among those with the most leaves."""
        return row.reason is None and row.leaves >= self.leaves

    def unsure(self, row: TreeRow) -> bool:
        """Whether a tree is among those with the lowest best log-probability."""
        return row.max_log_prob is not None and -row.max_log_prob >= self.surprise

    def both(self, row: TreeRow) -> bool:
        """Whether a tree stands out by both figures."""
        return self.many(row) and self.unsure(row)


@dataclass(frozen=True, slots=True)
class UnusualTree:
    """A tree that stands out by both figures, as one row of C.2.2.

    Attributes:
        completed: State of its conversation by the completeness scores in force.
        goal: Label of its goal; "" without one.
    """

    conversation: str
    step: int
    branches: int
    max_logprob: float
    completed: State
    goal: str


def unusual(items: Sequence[TreeItem]) -> list[UnusualTree]:
    """Returns the trees of a list that stand out by both figures, those with the most leaves first."""
    deciles = Deciles.of(items)
    found = [
        UnusualTree(
            item.name,
            item.row.step,
            item.row.leaves,
            item.row.max_log_prob,
            item.completed,
            item.goal,
        )
        for item in items
        if deciles.both(item.row) and item.row.max_log_prob is not None
    ]
    return sorted(found, key=lambda one: (-one.branches, one.max_logprob))


def table(found: Sequence[UnusualTree], trees: int) -> ReportTable:
    """The rows as a table; `trees` is the number of trees that they are of."""
    rows = [
        ReportRow(
            (
                one_line(one.conversation, _LONGEST_NAME),
                one.step,
                one.branches,
                one.max_logprob,
                one.completed.value,
                one_line(one.goal, _LONGEST_NAME) or "–",
            )
        )
        for one in found
    ]
    note = f"Of {counted(trees, 'tree')} those in the top tenth of branches and of −max logprob."
    if trees < FEWEST:
        note = f"A top tenth takes {FEWEST} trees; there are {trees}."
    return ReportTable("unusual trees", _COLUMNS, tuple(rows), (note,))


def lines(found: Sequence[UnusualTree]) -> list[dict[str, Any]]:
    """The rows as JSON values, for exports."""
    return [
        {
            "id": one.conversation,
            "step": one.step,
            "branches": one.branches,
            "max_logprob": one.max_logprob,
            "completed": one.completed.value,
            "goal": one.goal or None,
        }
        for one in found
    ]


def _quantile(values: Sequence[float]) -> float:
    """The value that the top tenth of the values reach."""
    return sorted(values)[int(DECILE * len(values))] if values else math.inf
