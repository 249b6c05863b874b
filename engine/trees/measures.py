"""Measures of a tree that grow or fall with the model's uncertainty about its response, the trees that stand out by
them, and both as JSON values and tables.

Leaves and the best log-probability are measures of Soroka et al., "Unsupervised Evaluation of Multi-Turn
Objective-Driven Interactions"; the entropy is this program's own. A tree stands out with many leaves, with an
improbable best response, or with both as in appendix C.2.2 of Soroka et al.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.base.number_format import counted
from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.trees.records import TreeItem, TreeRow
from engine.trees.tree import LEAVES, ROOT, Kind, Tree, restore


@dataclass(frozen=True, slots=True)
class Answer:
    """Leaves of equal text.

    Attributes:
        text: As read, without the stop text; bytes that are no UTF-8 are replaced.
        probability: Sum over its leaves.
        leaves: Node ids, most probable first.
        end: Kind of the most probable leaf.
    """

    text: str
    probability: float
    leaves: tuple[int, ...]
    end: Kind


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one tree.

    Attributes:
        leaves: Number of leaves; it is a measure of Soroka et al.
        answers: Number of distinct texts of leaves.
        max_log_prob: Natural log-probability of the most probable leaf; None without a leaf. It is the other measure
            of Soroka et al.
        covered, pruned, unexpanded: Probability masses, as in `Account`; they sum to 1.
        entropy: Entropy in bits when each leaf, each pruned child and each unread node is one outcome. It leaves
            out the entropy of what follows a cut or long leaf or a pruned child, so it is no upper bound.
        fork_entropy: Bits of the model's distribution at the first node with several children, over the whole
            vocabulary; None when the tree has one branch.
    """

    leaves: int
    answers: int
    max_log_prob: float | None
    covered: float
    pruned: float
    unexpanded: float
    entropy: float
    fork_entropy: float | None


def measure(tree: Tree) -> Measures:
    """Returns all measures of a tree, which may be unfinished."""
    account = tree.account()
    leaves = tree.leaves()
    best = tree.nodes[leaves[0]] if leaves else None
    leaf_entropy = math.fsum(entropy_term(tree.nodes[leaf].mass) for leaf in leaves)
    pruned_entropy = math.fsum(
        node.pruned_entropy for node in tree.nodes if node.kind is Kind.INNER
    )
    frontier_nodes = (node for node in tree.nodes if node.kind is Kind.FRONTIER)
    frontier_entropy = math.fsum(entropy_term(node.mass) for node in frontier_nodes)
    return Measures(
        leaves=len(leaves),
        answers=len(answers(tree)),
        max_log_prob=best.path_log_p if best else None,
        covered=account.covered,
        pruned=account.pruned,
        unexpanded=account.unexpanded,
        entropy=leaf_entropy + pruned_entropy + frontier_entropy,
        fork_entropy=_fork_entropy(tree),
    )


def _fork_entropy(tree: Tree) -> float | None:
    """Returns the entropy at the first node with several children on the way down from the root; None when the tree has
    one branch."""
    # Up to there each node has one child, so the way is the only one.
    node = tree.nodes[ROOT]
    while len(node.children) == 1:
        node = tree.nodes[node.children[0]]
    return node.entropy if node.children else None


def answers(tree: Tree) -> list[Answer]:
    """Returns the leaves of equal text as one answer each, since different tokens may spell the same; most probable
    first."""
    leaves_by_text: dict[str, list[int]] = {}
    for leaf in tree.leaves():
        leaves_by_text.setdefault(tree.text(leaf).decode("utf-8", "replace"), []).append(leaf)
    answer_list = [
        Answer(
            text=text,
            probability=math.fsum(tree.nodes[leaf].mass for leaf in ids),
            leaves=tuple(ids),
            end=tree.nodes[ids[0]].kind,
        )
        for text, ids in leaves_by_text.items()
    ]
    return sorted(answer_list, key=lambda answer: (-answer.probability, answer.leaves))


def subtree_mass(tree: Tree) -> list[float]:
    """Returns for each node the probability of the leaves at or below it."""
    masses = [node.mass if node.kind in LEAVES else 0.0 for node in tree.nodes]
    # From the last node to the first: a child has a higher id than its parent, so its sum is complete.
    for node_id in range(len(tree.nodes) - 1, ROOT, -1):
        masses[tree.nodes[node_id].parent] += masses[node_id]
    return masses


def entropy_term(mass: float) -> float:
    """Returns the term of one outcome in an entropy in bits: -p log2 p."""
    return -mass * math.log2(mass) if mass > 0 else 0.0


# Trees that stand out

TOP_DECILE = 0.9
"""Share of the trees that do not stand out by a figure: all but the top tenth."""

MIN_TREES_FOR_DECILES = 10
"""Smallest number of trees of which some stand out."""

_COLUMNS = (
    ReportColumn("conversation", "text"),
    ReportColumn("step", "count"),
    ReportColumn("branches", "count"),
    ReportColumn("max logprob", "number"),
    ReportColumn("state", "text"),
    ReportColumn("goal", "text"),
)
"""Columns of the table of unusual trees, in the order of the cells of `unusual_table`."""

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
            leaves=_top_decile_limit([row.leaves for row in grown]),
            surprise=_top_decile_limit(
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


def unusual_table(unusual_trees: Sequence[TreeItem], trees: int) -> ReportTable:
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


def unusual_lines(unusual_trees: Sequence[TreeItem]) -> list[dict[str, Any]]:
    """Returns trees that stand out as JSON values, one for each tree."""
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


def _top_decile_limit(values: Sequence[float]) -> float:
    """Returns the least value of the top tenth; infinite without values."""
    return sorted(values)[int(TOP_DECILE * len(values))] if values else math.inf


# Trees as JSON values


def tree_line(name: str, row: TreeRow, tree: Tree | None) -> dict[str, Any]:
    """Returns a tree with its measures and answers as JSON values; where there is no tree, `reason` says why.

    Probabilities are from 0 to 1, their logarithms are natural, and entropies are in bits.

    Args:
        name: The id of the conversation in its source.
        tree: The tree; None for no answers.
    """
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
        "entropy": row.entropy,
        "fork_entropy": row.fork_entropy,
        "answer_logprob": row.answer_log_prob,
        "answer_tokens": row.answer_tokens,
        "answer_held": row.answer_held,
        "seconds": row.seconds,
        "answers": [] if tree is None else _answer_lines(tree),
    }


def stored_tree_line(name: str, row: TreeRow, frame: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what `tree_line` does for a stored tree; `frame` is None where there is no tree."""
    return tree_line(name, row, None if frame is None else restore(frame))


def _answer_lines(tree: Tree) -> list[dict[str, Any]]:
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
