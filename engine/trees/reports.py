"""Reports on trees that stand out: with many leaves, with an improbable best response, or with both as in appendix
C.2.2 of Soroka et al."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.number_format import counted
from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.trees.measures import answers
from engine.trees.records import TreeItem, TreeRow
from engine.trees.tree import Tree, TreeRecord, restore

TOP_DECILE = 0.9
"""Share of the trees that do not stand out by one figure."""

MIN_TREES_FOR_DECILES = 10
"""Smallest number of trees of which some stand out."""

_COLUMNS = (
    ReportColumn("conversation", "text"),
    ReportColumn("step", "count"),
    ReportColumn("branches", "count", description="Leaves of the tree."),
    ReportColumn(
        "max logprob", "number", description="Log-probability of the most probable response."
    ),
    ReportColumn("state", "text", description="Did the conversation end, by the scores in force."),
    ReportColumn("goal", "text", description="Group of the clustering that is shown."),
)
"""Columns of the table of unusual trees, in the order of the cells of `table`."""

_LONGEST_NAME = 40
"""Most characters of a name or goal in the table."""


@dataclass(frozen=True, slots=True)
class Deciles:
    """Limits at or above which a tree stands out; infinite where none does.

    Attributes:
        leaves: Least number of leaves of the top tenth.
        surprise: Least surprise of the top tenth: minus the natural log-probability of the best response.
    """

    leaves: float = math.inf
    surprise: float = math.inf

    @classmethod
    def from_items(cls, items: Sequence[TreeItem]) -> Deciles:
        """Returns the limits for the trees of a list; with few trees none stands out."""
        grown = [item.row for item in items if item.row.reason is None]
        if len(grown) < MIN_TREES_FOR_DECILES:
            return cls()
        return cls(
            leaves=_quantile([row.leaves for row in grown]),
            surprise=_quantile(
                [-row.max_log_prob for row in grown if row.max_log_prob is not None]
            ),
        )

    def has_many_leaves(self, row: TreeRow) -> bool:
        """Returns whether a tree is among those with the most leaves."""
        return row.reason is None and row.leaves >= self.leaves

    def is_unsure(self, row: TreeRow) -> bool:
        """Returns whether a tree is among those with the lowest best log-probability."""
        return row.max_log_prob is not None and -row.max_log_prob >= self.surprise

    def stands_out(self, row: TreeRow) -> bool:
        """Returns whether a tree stands out by both figures."""
        return self.has_many_leaves(row) and self.is_unsure(row)


def unusual(items: Sequence[TreeItem]) -> list[TreeItem]:
    """Returns the trees of a list that stand out by both figures, those with the most leaves first."""
    deciles = Deciles.from_items(items)
    return sorted(
        (item for item in items if deciles.stands_out(item.row)),
        key=lambda item: (-item.row.leaves, item.row.max_log_prob or 0.0),
    )


def table(unusual_trees: Sequence[TreeItem], trees: int) -> ReportTable:
    """Returns trees that stand out as the table of C.2.2; `trees` is the number of trees that they are of."""
    rows = [
        ReportRow(
            (
                one_line(tree.name, _LONGEST_NAME),
                tree.row.step,
                tree.row.leaves,
                tree.row.max_log_prob,
                tree.completed.word,
                one_line(tree.goal, _LONGEST_NAME) or "–",
            )
        )
        for tree in unusual_trees
    ]
    note = f"Of {counted(trees, 'tree')} those in the top tenth of branches and of −max logprob."
    if trees < MIN_TREES_FOR_DECILES:
        note = f"A top tenth takes {MIN_TREES_FOR_DECILES} trees; there are {trees}."
    return ReportTable("unusual trees", _COLUMNS, tuple(rows), (note,))


def lines(unusual_trees: Sequence[TreeItem]) -> list[dict[str, Any]]:
    """Returns trees that stand out as JSON values, for exports."""
    return [
        {
            "id": tree.name,
            "step": tree.row.step,
            "branches": tree.row.leaves,
            "max_logprob": tree.row.max_log_prob,
            "completed": tree.completed.value,
            "goal": tree.goal or None,
        }
        for tree in unusual_trees
    ]


def _quantile(values: Sequence[float]) -> float:
    """Returns the value that the top tenth of the values reach; infinite without values."""
    return sorted(values)[int(TOP_DECILE * len(values))] if values else math.inf


def tree_line(name: str, row: TreeRow, tree: Tree | None) -> dict[str, Any]:
    """Returns one tree with its measures and answers as JSON values; without a tree, `reason` says why.

    Probabilities are of 0 to 1, their logarithms natural, and entropies in bits.
    """
    fork = None
    if row.fork_depth is not None:
        fork = {"depth": row.fork_depth, "entropy": row.fork_entropy}
    return {
        "id": name,
        "step": row.step,
        "reason": row.reason,
        "alpha": row.alpha,
        "mode": row.mode,
        "leaves": row.leaves,
        "max_logprob": row.max_log_prob,
        "covered": row.covered,
        "pruned": row.pruned,
        "unexpanded": row.unexpanded,
        "nodes": row.nodes,
        "entropy_low": row.entropy_low,
        "entropy_high": row.entropy_high,
        "first_fork": fork,
        "answer_logprob": row.answer_log_prob,
        "answer_tokens": row.answer_tokens,
        "answer_held": row.answer_held,
        "seconds": row.seconds,
        "answers": [] if tree is None else _answers(tree),
    }


def stored_tree_line(name: str, row: TreeRow, frame: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns `tree_line` for a stored tree; `frame` is None when there is no tree."""
    return tree_line(name, row, None if frame is None else restore(TreeRecord.from_frame(frame)))


def _answers(tree: Tree) -> list[dict[str, Any]]:
    """Returns the answers of a tree as JSON values, most probable first."""
    return [
        {
            "text": answer.text,
            "logprob": math.log(answer.probability),
            "probability": answer.probability,
            "end": answer.end.name.lower(),
        }
        for answer in answers(tree)
    ]
