"""The pane of one tree, and the line that shows how sure the model was along the conversation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment as StyledText
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import one_line
from engine.trees.records import OpenTree, PropertyBounds, TreeRow
from engine.trees.tree import Kind
from screens.trees.columns import (
    format_bounds,
    format_growth,
    format_leaves,
    leaf_count,
    turn_blocks,
)
from screens.trees.layout import Folding, Segment
from screens.trees.tree_view import KIND_LOOKS, RECORDED, TreeView
from screens.widgets.curve import spread
from screens.widgets.formatting import TONES


class TreePane(Vertical):
    """Shows one stored tree with its figures."""

    DEFAULT_CSS = """
    TreePane { width: 1fr; }
    TreePane Static { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    TreePane TreeView { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened: OpenTree | None = None
        self.bounds: PropertyBounds | None = None
        self.view = TreeView()

    def compose(self) -> ComposeResult:
        """Yields the probability, measures, tree and segment."""
        yield Static(classes="account")
        yield Static(classes="measures")
        yield self.view
        yield Static(classes="under")

    def show(self, opened: OpenTree, folding: Folding) -> None:
        """Shows a tree as `TreeView.lay_out` laid it out."""
        self.opened = opened
        self.query_one(".account", Static).update(account_content(opened.item.row))
        self.view.show(folding)
        self._show_texts()

    def prove(self, bounds: PropertyBounds | None) -> None:
        """Shows the bounds on the probability of a property; None hides them."""
        self.bounds = bounds
        self._show_texts()

    def _show_texts(self) -> None:
        """Shows the figures of the tree, and the bounds on a property."""
        if self.opened is not None:
            self.query_one(".measures", Static).update(
                measures_content(self.opened.item.row, self.opened.nodes.kind, self.bounds)
            )

    def on_tree_view_highlighted(self) -> None:
        """Shows the figures of the segment under the cursor."""
        segment = self.view.segment
        self.query_one(".under", Static).update(
            Content("") if segment is None else segment_content(segment)
        )


def account_content(row: TreeRow) -> Content:
    """Returns the configuration of the tree, and its covered, pruned and unexpanded mass."""
    return Content.assemble(
        ("covered ", "$tone-muted"),
        (number_format.probability(row.covered), "bold $tone-complete"),
        ("  pruned ", "$tone-muted"),
        (number_format.probability(row.pruned), "bold"),
        ("  unexpanded ", "$tone-muted"),
        (
            number_format.probability(row.unexpanded),
            "bold $tone-accent" if row.unexpanded else "bold",
        ),
        (f"   {format_growth(row)}", "$tone-muted"),
        (f" · {one_line(row.note, 60)}" if row.note else "", "$tone-borderline"),
    )


def measures_content(row: TreeRow, kinds: Sequence[Kind], bounds: PropertyBounds | None) -> Content:
    """Returns the figures of the tree on one line, given the kinds of its nodes; bounds on a property come first."""
    proved: list[Content | tuple[str, str] | str] = []
    if bounds is not None:
        proved = [(format_bounds(bounds), "bold $tone-accent"), " · "]
    parts = [
        format_leaves(row.leaves, kinds),
        f"best log P {number_format.log_probability(row.max_log_prob)}",
        number_format.counted(row.answers, "distinct text"),
        f"entropy {number_format.between(row.entropy_low, row.entropy_high)} bits",
    ]
    if row.answer_log_prob is not None:
        parts.append(
            f"{RECORDED[2:]} {number_format.log_probability(row.answer_log_prob)}, {row.answer_held:,} of "
            f"{row.answer_tokens:,} tokens in the tree"
        )
    parts.append(f"{row.nodes:,} nodes")
    return Content.assemble(*proved, " · ".join(parts))


def segment_content(segment: Segment) -> Content:
    """Returns how a segment ends, and its figures with more digits than on its line."""
    parts: list[str] = []
    if segment.forks:
        parts.append(f"fork · {leaf_count(segment.leaves)}")
    else:
        parts.append(KIND_LOOKS[segment.kind][2])
    if segment.entropy is not None:
        parts.append(f"next token {segment.entropy:.1f} bits")
    parts.append(f"P {segment.probability:.4f} (log {_log(segment.probability)})")
    parts.append(f"leaves below {segment.below:.4f}")
    parts.append(number_format.counted(len(segment.nodes), "token"))
    return Content.styled(" · ".join(parts), "$tone-muted")


def _log(probability: float) -> str:
    return number_format.log_probability(math.log(probability)) if probability > 0 else "−∞"


class TurnLine(Widget):
    """Shown where a conversation has trees at more than one step."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = """
    TurnLine { display: none; height: 1; padding: 0 1; }
    TurnLine.-several { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[TreeRow] = ()
        self._at = 0

    def show(self, rows: Sequence[TreeRow], step: int) -> None:
        """Shows the trees of a conversation by step, the cursor on one of them."""
        self._rows = [row for row in rows if row.reason is None]
        self._at = next((index for index, row in enumerate(self._rows) if row.step == step), 0)
        self.set_class(len(self._rows) > 1, "-several")
        self.refresh()

    def beside(self, delta: int) -> int | None:
        """Returns the step `delta` trees after the current one; None where there is none."""
        index = self._at + delta
        return self._rows[index].step if 0 <= index < len(self._rows) else None

    def render_line(self, y: int) -> Strip:
        """Returns the blocks, and the figures of the current step."""
        width, base = self.size.width, self.rich_style
        if y or not self._rows:
            return Strip.blank(width, base)
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        bright = base + self.get_component_rich_style("tone--bright", partial=True)
        cursor = bright + self.get_component_rich_style("tone--cursor", partial=True)
        accent_colour = self.get_component_rich_style("tone--accent", partial=True)
        row = self._rows[self._at]
        columns = spread(len(self._rows), max(8, width // 3))
        blocks = turn_blocks(self._rows, columns)
        cells = [
            StyledText(block, cursor if self._at in column else base + accent_colour)
            for block, column in zip(blocks, columns, strict=True)
        ]
        words = [
            StyledText(f"  step {row.step}", bright),
            StyledText(f" · {self._at + 1:,} of {len(self._rows):,}", muted),
            StyledText("  [ ]", bright + accent_colour),
            StyledText(f"   best {number_format.log_probability(row.max_log_prob)}", base),
            StyledText(f" · {row.leaves:,} leaves", base),
        ]
        return Strip([*cells, *words]).crop_extend(0, width, base)
