"""A histogram of the normalised scores, with the threshold and the borderline band marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from engine.base import number_format
from engine.completeness.records.scores import DecisionRule
from screens.widgets.states import STATE_LOOKS, TONES

BINS = 40
_EIGHTHS = " ▁▂▃▄▅▆▇█"


def column_heights(counts: Sequence[int], rows: int) -> list[int]:
    """The heights of the bins in eighths of a row; a bin that is not empty has a height of at least one."""
    most = max(counts, default=0)
    return [max(1, round(count * rows * 8 / most)) if count else 0 for count in counts]


class Histogram(Widget):
    """Columns in the colours of the states, below them an axis with the threshold's mark and its figure."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = "Histogram { height: 4; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bins: Sequence[int] = ()
        self._rule = DecisionRule()

    def show(self, bins: Sequence[int], rule: DecisionRule) -> None:
        """Draws the counts of equal bins of [0, 1], lowest first."""
        self._bins, self._rule = bins, rule
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row of the chart, or the axis."""
        width, height = self.size
        base = self.rich_style
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        if not any(self._bins):
            text = "nothing has been scored" if y == 0 else ""
            return Strip([Segment(text, muted)]).crop_extend(0, width, base)
        wide = max(1, width // len(self._bins))
        if y == height - 1:
            return self._axis(wide).crop_extend(0, width, base)
        rows = height - 1
        level = rows - 1 - y
        segments = []
        for index, eighths in enumerate(column_heights(self._bins, rows)):
            middle = (index + 0.5) / len(self._bins)
            tone = STATE_LOOKS[self._rule.state(middle)].tone_class
            block = _EIGHTHS[min(8, max(0, eighths - 8 * level))]
            style = base + self.get_component_rich_style(tone, partial=True)
            segments.append(Segment(block * wide, style))
        return Strip(segments).crop_extend(0, width, base)

    def _axis(self, wide: int) -> Strip:
        """The borderline band as a thick part of a thin line, the threshold as a mark in it."""
        base = self.rich_style
        looks = {
            name: base + self.get_component_rich_style(name, partial=True)
            for name in ("tone--muted", "tone--borderline", "tone--bright")
        }
        cells = wide * len(self._bins)
        mark = min(cells - 1, int(self._rule.threshold * cells))
        segments = []
        for cell in range(cells):
            p = (cell + 0.5) / cells
            if cell == mark:
                segments.append(Segment("▲", looks["tone--bright"]))
            elif abs(p - self._rule.threshold) < self._rule.band:
                segments.append(Segment("━", looks["tone--borderline"]))
            else:
                segments.append(Segment("─", looks["tone--muted"]))
        segments.append(
            Segment(f" ▲ {number_format.probability(self._rule.threshold)}", looks["tone--bright"])
        )
        return Strip(segments)
