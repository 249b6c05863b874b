"""The pane of one tree: its covered, pruned and unexpanded mass, its measures, its segments, and the one under the
cursor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import one_line
from engine.trees.records import NodeKind, OpenTree, PropertyBounds, TreeRow
from screens.trees.formatting import format_bounds, format_growth, format_leaves, leaf_count
from screens.trees.layout import Folding, Segment
from screens.trees.tree_view import KIND_LOOKS, RECORDED, TreeView


class TreePane(Vertical):
    """Shows one stored tree; two panes side by side compare two trees."""

    DEFAULT_CSS = """
    TreePane { width: 1fr; }
    TreePane Static { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    TreePane TreeView { height: 1fr; }
    TreePane .who { display: none; }
    """

    def __init__(self, config_hash: str | None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.config_hash = config_hash
        self.opened: OpenTree | None = None
        self.bounds: PropertyBounds | None = None
        self.view = TreeView()

    def compose(self) -> ComposeResult:
        """The configuration when two trees are compared; probability, measures, tree, segment."""
        yield Static(classes="who")
        yield Static(classes="account")
        yield Static(classes="measures")
        yield self.view
        yield Static(classes="under")

    def show(self, opened: OpenTree, folding: Folding) -> None:
        """Shows a tree as `TreeView.lay_out` laid it out."""
        self.opened = opened
        self.config_hash = opened.item.row.config_hash
        row = opened.item.row
        self.query_one(".who", Static).update(Content.styled(format_growth(row), "bold"))
        self.query_one(".account", Static).update(account_content(row))
        self.view.show(folding)
        self._show_texts()

    def prove(self, bounds: PropertyBounds | None) -> None:
        """Shows the bounds on the probability of a property; None hides them."""
        self.bounds = bounds
        self._show_texts()

    def _show_texts(self) -> None:
        if self.opened is not None:
            self.query_one(".measures", Static).update(
                measures_content(self.opened.item.row, self.opened.nodes.kind, self.bounds)
            )

    def on_tree_view_highlighted(self) -> None:
        """Shows the figures of the segment under the cursor."""
        segment = self.view.segment
        content = Content("")
        if segment is not None:
            content = segment_content(segment, self.view.is_compared, self.view.there(segment))
        self.query_one(".under", Static).update(content)


def account_content(row: TreeRow) -> Content:
    """The configuration of the tree, and its covered, pruned and unexpanded mass."""
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


def measures_content(
    row: TreeRow, kinds: Sequence[NodeKind], bounds: PropertyBounds | None
) -> Content:
    """The figures of the tree on one line, given the kinds of its nodes; bounds on a property come first."""
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


def segment_content(segment: Segment, compared: bool, there: float | None) -> Content:
    """How a segment ends, and its figures with more digits than on its line; `there` is its probability in the other
    tree.
    """
    parts: list[str] = []
    if segment.forks:
        parts.append(f"fork · {leaf_count(segment.leaves)}")
    else:
        parts.append(KIND_LOOKS[segment.kind][2])
    if segment.entropy is not None:
        parts.append(f"next token {segment.entropy:.1f} bits")
    parts.append(f"P {segment.probability:.4f} (log {_log(segment.probability)})")
    if compared:
        parts.append("not in the other" if there is None else f"in the other {there:.4f}")
    parts.append(f"leaves below {segment.below:.4f}")
    parts.append(number_format.counted(len(segment.nodes), "token"))
    return Content.styled(" · ".join(parts), "$tone-muted")


def _log(probability: float) -> str:
    return number_format.log_probability(math.log(probability)) if probability > 0 else "−∞"
