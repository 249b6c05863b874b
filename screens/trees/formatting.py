"""Texts about trees that several screens show; all are display-safe."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine.base import number_format
from engine.base.text import one_line
from engine.trees.compare import TreeComparison
from engine.trees.guarantee import PROVES_NOTHING
from engine.trees.records import NodeKind, PropertyBounds, TreeConfig, TreeRow


def format_bounds(bounds: PropertyBounds) -> str:
    """The bounds on the probability of a property, or that the tree proves nothing of it."""
    text = one_line(bounds.text, 40)
    if bounds.high - bounds.low >= PROVES_NOTHING:
        return f"nothing is proved of “{text}”: no whole answer settles it (g grows the tree)"
    return f"P({text}) in {number_format.ends(bounds.low, bounds.high)}"


def format_leaves(leaves: int, kinds: Sequence[NodeKind]) -> str:
    """The number of leaves, and how many are whole answers; the others only begin one.

    Args:
        kinds: The kinds of all nodes.
    """
    return f"{leaf_count(leaves)}, {whole_count(kinds.count('ended'))}"


def leaf_count(number: int) -> str:
    """`1 leaf`, `9 leaves`."""
    return number_format.counted(number, "leaf").replace("leafs", "leaves")


def whole_count(number: int) -> str:
    """`no whole answer`, `1 whole answer`, `3 whole answers`."""
    return number_format.counted(number, "whole answer") if number else "no whole answer"


def format_growth(of: TreeRow | TreeConfig) -> str:
    """The alpha, mode, model and adapter that grew a tree or a set of trees."""
    adapter = f" + {of.adapter}" if of.adapter else ""
    return one_line(f"{of.model}{adapter} · alpha {of.alpha:g} · {of.mode}", 90)


def format_config(config: TreeConfig) -> str:
    """The configuration of a set of trees, with the place in the conversations."""
    return f"{format_growth(config)} · {one_line(config.place)}"


def between_content(found: TreeComparison) -> Content:
    """The bounds on the distance of two trees, and how many answers they share."""
    return Content.assemble(
        ("total variation in ", "$tone-muted"),
        (number_format.ends(found.low, found.high), "bold $tone-accent"),
        (" · ", "$tone-muted"),
        number_format.counted(found.answers, "answer") + " in both ",
        ("≡", "$tone-accent"),
        (" · last column: how much more probable here", "$tone-muted"),
    )


def tabs_content(rows: Sequence[TreeRow], front: int) -> Content:
    """The names of both trees with the key that changes between them, for a narrow terminal that shows one."""
    tabs = [
        Content.styled(
            f" {one_line(format_growth(row), 30)} ",
            "bold $tone-tab on $tone-tab-back" if at == front else "$tone-muted",
        )
        for at, row in enumerate(rows)
    ]
    return Content.assemble(*tabs, ("  tab", "bold $tone-accent"), (" the other", "$tone-muted"))
