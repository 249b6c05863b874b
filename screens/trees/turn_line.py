"""How sure the model was along a conversation: a line with a block for each step that has a tree, and the
figures of the current step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from engine.base import number_format
from engine.trees.records import TreeRow
from screens.widgets.curve import block_rows, spread
from screens.widgets.formatting import TONES


@dataclass(frozen=True, slots=True)
class TurnMeasure:
    """A measure that the blocks show: its name, and its value for a tree, higher where the model was less sure."""

    name: str
    value: Callable[[TreeRow], float]


MEASURES = (
    TurnMeasure("−log P of the best answer", lambda row: -(row.max_log_prob or 0.0)),
    TurnMeasure("leaves", lambda row: float(row.leaves)),
    TurnMeasure("bits", lambda row: row.entropy_high),
)


def turn_blocks(rows: Sequence[TreeRow], columns: Sequence[range], measure: TurnMeasure) -> str:
    """One block for each column, for its least sure tree; the lowest block is the surest tree of all, the highest the
    least sure: the steps of a conversation differ little against what they have in common.
    """
    values = [measure.value(row) for row in rows]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if low == high:
        return "▄" * len(columns)
    highest = [(max(values[at] for at in column) - low) / (high - low) for column in columns]
    return block_rows(highest, 1)[0]


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
        self._measure = 0

    def show(self, rows: Sequence[TreeRow], step: int) -> None:
        """Shows the trees of a conversation by step, the cursor on one of them."""
        self._rows = [row for row in rows if row.reason is None]
        self._at = next((at for at, row in enumerate(self._rows) if row.step == step), 0)
        self.set_class(len(self._rows) > 1, "-several")
        self.refresh()

    def beside(self, delta: int) -> int | None:
        """The step `delta` trees after the current one; None where there is none."""
        at = self._at + delta
        return self._rows[at].step if 0 <= at < len(self._rows) else None

    def measure_next(self) -> None:
        """Shows another measure."""
        self._measure = (self._measure + 1) % len(MEASURES)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The blocks, and the figures of the current step."""
        width, base = self.size.width, self.rich_style
        if y or not self._rows:
            return Strip.blank(width, base)
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        bright = base + self.get_component_rich_style("tone--bright", partial=True)
        cursor = bright + self.get_component_rich_style("tone--cursor", partial=True)
        accent_colour = self.get_component_rich_style("tone--accent", partial=True)
        measure, row = MEASURES[self._measure], self._rows[self._at]
        columns = spread(len(self._rows), max(8, width // 3))
        blocks = turn_blocks(self._rows, columns, measure)
        cells = [
            Segment(block, cursor if self._at in column else base + accent_colour)
            for block, column in zip(blocks, columns, strict=True)
        ]
        words = [
            Segment(f"  step {row.step}", bright),
            Segment(f" · {self._at + 1:,} of {len(self._rows):,}", muted),
            Segment("  [ ]", bright + accent_colour),
            Segment(f"   best {number_format.log_probability(row.max_log_prob)}", base),
            Segment(f" · {row.leaves:,} leaves", base),
            Segment(f"   blocks: {measure.name}", muted),
            Segment("  m", bright + accent_colour),
        ]
        return Strip([*cells, *words]).crop_extend(0, width, base)
