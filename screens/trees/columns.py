"""The columns and orders of the list of trees, which trees are marked as unusual, and their texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from engine.base import number_format
from engine.base.text import one_line
from engine.trees.guarantee import MIN_USELESS_WIDTH
from engine.trees.records import PropertyBounds, TreeConfig, TreeItem, TreeRow
from engine.trees.reports import Deciles
from engine.trees.tree import Kind
from screens.widgets.curve import block_rows, spread
from screens.widgets.row_table import Column, Piece

NAME_WIDTH = 24
"""Least cells of the name of a conversation."""
TURNS_WIDTH = 12
"""Cells of the blocks that stand for the trees of one conversation."""
GOAL_WIDTH = 24
"""Cells of a goal."""
UNUSUAL_SIGN = "▲"
"""The sign before a tree that stands out."""

_NONE: Sequence[Piece] = [("–", "tone--muted")]
"""The cell of a figure that does not exist."""


def worst_turns(items: Sequence[TreeItem]) -> list[TreeItem]:
    """Returns the tree with the least probable best answer of each conversation, in the order of the conversations."""
    worst_by_conversation: dict[int, TreeItem] = {}
    for item in items:
        key = item.row.conversation_id
        if key not in worst_by_conversation or _surprise(item.row) > _surprise(
            worst_by_conversation[key].row
        ):
            worst_by_conversation[key] = item
    return list(worst_by_conversation.values())


def by_conversation(items: Sequence[TreeItem]) -> dict[int, list[TreeRow]]:
    """Returns the trees of each conversation that has several, by step."""
    rows_by_conversation: dict[int, list[TreeRow]] = {}
    for item in items:
        if item.row.reason is None:
            rows_by_conversation.setdefault(item.row.conversation_id, []).append(item.row)
    return {
        key: sorted(rows, key=lambda row: row.step)
        for key, rows in rows_by_conversation.items()
        if len(rows) > 1
    }


def _surprise(row: TreeRow) -> float:
    """Returns minus the log-probability of the best answer; without a tree the least possible value."""
    return -math.inf if row.max_log_prob is None else -row.max_log_prob


def held_share(row: TreeRow) -> float | None:
    """Returns the share of the recorded answer's tokens that is in the tree."""
    return row.answer_held / row.answer_tokens if row.answer_tokens else None


def columns(
    deciles: Callable[[], Deciles], turns: Mapping[int, Sequence[TreeRow]]
) -> list[Column[TreeItem]]:
    """Returns the columns; `deciles` gives the present limits, `turns` the trees of conversations with several
    trees.
    """

    def name(item: TreeItem) -> Sequence[Piece]:
        """Returns the name of the conversation, and why there is no tree."""
        text = one_line(item.name)
        if len(text) > NAME_WIDTH:  # long names of one source begin alike
            text = "…" + text[1 - NAME_WIDTH :]
        reason = item.row.reason
        return [(text, ""), (f"  {one_line(reason, 80)}" if reason else "", "tone--muted")]

    def leaves(item: TreeItem) -> Sequence[Piece]:
        """Returns the number of leaves."""
        return _number(item, f"{item.row.leaves:,}", deciles().has_many_leaves(item.row))

    def best(item: TreeItem) -> Sequence[Piece]:
        """Returns the log-probability of the best answer."""
        return _number(
            item,
            number_format.log_probability(item.row.max_log_prob),
            deciles().is_unsure(item.row),
        )

    def covered(item: TreeItem) -> Sequence[Piece]:
        """Returns the mass of the leaves as a bar and a number."""
        if item.row.reason is not None:
            return _NONE
        p = item.row.covered
        return [(number_format.bar(p), "tone--complete"), (f" {number_format.probability(p)}", "")]

    def fork(item: TreeItem) -> Sequence[Piece]:
        """Returns the depth of the first fork and its bits."""
        row = item.row
        if row.fork_depth is None or row.fork_entropy is None:
            return _NONE
        return [(f"{row.fork_depth:,}", ""), (f" · {row.fork_entropy:.1f} bits", "tone--muted")]

    def held(item: TreeItem) -> Sequence[Piece]:
        """Returns how many tokens of the recorded answer are in the tree."""
        row = item.row
        if not row.answer_tokens:
            return _NONE
        return [(f"{row.answer_held:,}", ""), (f"/{row.answer_tokens:,}", "tone--muted")]

    def completed(item: TreeItem) -> Sequence[Piece]:
        """Returns the state of the conversation."""
        return [(item.completed.word, "tone--muted")]

    def goal(item: TreeItem) -> Sequence[Piece]:
        """Returns the goal of the conversation."""
        return [(one_line(item.goal, GOAL_WIDTH), "tone--muted")] if item.goal else _NONE

    def along(item: TreeItem) -> Sequence[Piece]:
        """Returns the blocks of the trees of the conversation, with that of this tree bright."""
        rows = turns.get(item.row.conversation_id, ())
        cells = spread(len(rows), TURNS_WIDTH)
        return [
            (block, "tone--bright" if item.row in rows[cell.start : cell.stop] else "tone--accent")
            for block, cell in zip(turn_blocks(rows, cells), cells, strict=True)
        ]

    list_columns = [
        Column("name", "conversation", NAME_WIDTH, name, flexible=True, value=lambda item: item.name, order="name"),
        Column("step", "step", 5, lambda item: [(str(item.row.step), "tone--muted")], right=True,
               value=lambda item: item.row.step, keep=9 if turns else 4),
        Column("leaves", "leaves", 8, leaves, right=True,
               value=lambda item: _grown(item.row, item.row.leaves), descending=True),
        Column("best", "log P", 9, best, right=True,
               value=lambda item: item.row.max_log_prob, order="best log-probability, least sure first"),
        Column("covered", "covered", number_format.BAR_WIDTH + 4, covered,
               value=lambda item: _grown(item.row, item.row.covered), keep=6),
        Column("entropy", "entropy", 9, lambda item: _bits_cell(item.row), right=True,
               value=lambda item: _grown(item.row, item.row.entropy_high), descending=True, keep=7),
        Column("completed", "state", 10, completed,
               value=lambda item: item.completed.word, order="did the conversation end", keep=3),
        Column("goal", "goal", GOAL_WIDTH, goal, value=lambda item: item.goal or None, keep=2),
        Column("fork", "first fork", 15, fork, value=lambda item: item.row.fork_depth, keep=0),
        Column("said", "said", 9, lambda item: _recorded_cell(item.row), right=True,
               value=lambda item: item.row.answer_log_prob, order="log-probability of the recorded answer", keep=5),
        Column("held", "in the tree", 11, held, right=True, value=lambda item: held_share(item.row),
               order="share of the recorded answer that is in the tree", keep=1),
    ]  # fmt: skip
    if turns:
        list_columns.insert(1, Column("turns", "turns", TURNS_WIDTH, along, keep=8))
    return list_columns


def _number(item: TreeItem, text: str, stands_out: bool) -> Sequence[Piece]:
    """Returns a figure of a tree, with a sign if it stands out."""
    if item.row.reason is not None:
        return _NONE
    return [(f"{UNUSUAL_SIGN} ", "tone--borderline"), (text, "")] if stands_out else [(text, "")]


def _bits_cell(row: TreeRow) -> Sequence[Piece]:
    """Returns the bounds on the entropy in bits."""
    if row.reason is not None:
        return _NONE
    return [(number_format.between(row.entropy_low, row.entropy_high), "")]


def _recorded_cell(row: TreeRow) -> Sequence[Piece]:
    """Returns the log-probability of the recorded answer."""
    return [(number_format.log_probability(row.answer_log_prob), "tone--muted")]


def _grown(row: TreeRow, value: float) -> float | None:
    """Returns a figure of a tree; None where there is no tree."""
    return None if row.reason is not None else value


def turn_blocks(rows: Sequence[TreeRow], columns: Sequence[range]) -> str:
    """Returns one block for each column, for its least sure tree by −log P of the best answer.

    The lowest block is the surest tree of all, the highest the least sure: the steps of a conversation differ little
    against what they have in common.
    """
    values = [-(row.max_log_prob or 0.0) for row in rows]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low == high:
        return "▄" * len(columns)
    highest = [(max(values[index] for index in column) - low) / (high - low) for column in columns]
    return block_rows(highest, 1)[0]


def format_bounds(bounds: PropertyBounds) -> str:
    """Returns the bounds on the probability of a property, or that the tree proves nothing of it."""
    text = one_line(bounds.text, 40)
    if bounds.high - bounds.low >= MIN_USELESS_WIDTH:
        return f"nothing is proved of “{text}”: no whole answer settles it (g grows the tree)"
    return f"P({text}) in {number_format.ends(bounds.low, bounds.high)}"


def format_leaves(leaves: int, kinds: Sequence[Kind]) -> str:
    """Returns the number of leaves, and how many are whole answers; the others only begin one.

    Args:
        kinds: The kinds of all nodes.
    """
    return f"{leaf_count(leaves)}, {whole_count(kinds.count(Kind.ENDED))}"


def leaf_count(number: int) -> str:
    """Returns `1 leaf`, `9 leaves`."""
    return number_format.counted(number, "leaf", "leaves")


def whole_count(number: int) -> str:
    """Returns `no whole answer`, `1 whole answer`, `3 whole answers`."""
    return number_format.counted(number, "whole answer") if number else "no whole answer"


def format_growth(of: TreeRow | TreeConfig) -> str:
    """Returns the alpha, mode, model and adapter that grew a tree or a set of trees."""
    adapter = f" + {of.adapter}" if of.adapter else ""
    return one_line(f"{of.model}{adapter} · alpha {of.alpha:g} · {of.mode}", 90)


def format_config(config: TreeConfig) -> str:
    """Returns the configuration of a set of trees, with the place in the conversations."""
    return f"{format_growth(config)} · {one_line(config.place)}"
