"""Texts about trees that several screens show; all are display-safe."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine import number_format
from engine.records.trees import TreeRow
from engine.services.trees.records import ConfigRow
from engine.text import one_line
from engine.trees.compare import TreeComparison


def format_growth(of: TreeRow | ConfigRow) -> str:
    """The alpha, mode, model and adapter that grew a tree or a set of trees."""
    adapter = f" + {of.adapter}" if of.adapter else ""
    return one_line(f"{of.model}{adapter} · alpha {of.alpha:g} · {of.mode}", 90)


def format_config(config: ConfigRow) -> str:
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
