"""What is said of trees on more than one screen; all of it display-safe."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from engine import number_format
from engine.records.trees import TreeRow
from engine.services.trees.records import Comparison, ConfigRow
from engine.text import one_line


def grown_words(of: TreeRow | ConfigRow) -> str:
    """What grew a tree, or a set of them."""
    adapter = f" + {of.adapter}" if of.adapter else ""
    return one_line(f"{of.model}{adapter} · alpha {of.alpha:g} · {of.mode}", 90)


def config_words(config: ConfigRow) -> str:
    """What grew a set of trees, and where in the conversations."""
    return f"{grown_words(config)} · {one_line(config.place)}"


def between_content(found: Comparison) -> Content:
    """How far apart two trees are."""
    low, high = number_format.probability(found.low), number_format.probability(found.high)
    return Content.assemble(
        ("total variation in ", "$tone-muted"),
        (f"[{low}, {high}]", "bold $tone-accent"),
        (" · ", "$tone-muted"),
        number_format.counted(found.answers, "answer") + " in both ",
        ("≡", "$tone-accent"),
        (" · last column: how much more probable here", "$tone-muted"),
    )


def tabs_content(rows: Sequence[TreeRow], front: int) -> Content:
    """The trees of which a narrow terminal shows one, with the key to the other."""
    tabs = [
        Content.styled(
            f" {one_line(grown_words(row), 30)} ",
            "bold $tone-tab on $tone-tab-back" if at == front else "$tone-muted",
        )
        for at, row in enumerate(rows)
    ]
    return Content.assemble(*tabs, ("  tab", "bold $tone-accent"), (" the other", "$tone-muted"))
