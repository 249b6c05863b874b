"""The reliability diagram: the share of complete conversations by score."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from engine.base import number_format
from engine.questions.records.calibration import ReliabilityBin

Cell = tuple[str, str]
_DIAGONAL: Cell = ("·", "$tone-muted")
_THRESHOLD: Cell = ("┊", "$tone-borderline")
_INTERVAL: Cell = ("│", "$tone-accent")
_POINT: Cell = ("●", "bold $tone-bright")
_EMPTY: Cell = (" ", "")
AXIS = 5
"""Cells left of the plot, for the axis."""


def plot_cells(
    bins: Sequence[ReliabilityBin], threshold: float | None, width: int, height: int
) -> list[list[Cell]]:
    """The plot, top row first: mean score to the right, share complete upwards, both from 0 to 1.

    The diagonal is where a score would be a probability; a point off it with an interval that leaves it out is
    evidence that it is not.
    """
    rows = [[_EMPTY] * width for _ in range(height)]

    def column(value: float) -> int:
        return min(width - 1, int(value * width))

    def row(value: float) -> int:
        return height - 1 - min(height - 1, int(value * height))

    for x in range(width):
        rows[row((x + 0.5) / width)][x] = _DIAGONAL
    if threshold is not None:
        for y in range(height):
            rows[y][column(threshold)] = _THRESHOLD
    for one in bins:
        x = column(one.predicted)
        for y in range(row(one.observed.high), row(one.observed.low) + 1):
            rows[y][x] = _INTERVAL
    for one in bins:
        rows[row(one.observed.part / one.observed.of)][column(one.predicted)] = _POINT
    return rows


class Reliability(Widget):
    """Draws the plot as large as the widget is, with its axes."""

    DEFAULT_CSS = "Reliability { height: 12; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._bins: Sequence[ReliabilityBin] = ()
        self._threshold: float | None = None

    def show(self, bins: Sequence[ReliabilityBin], threshold: float | None) -> None:
        """Draws these bins; `threshold` is marked."""
        self._bins, self._threshold = bins, threshold
        self.refresh()

    def render(self) -> RenderResult:
        """Rows of the plot, and below them the axis of the score."""
        width, height = self.content_size.width - AXIS, self.content_size.height - 1
        if width < 10 or height < 4:
            return Content("")
        lines: list[Content] = []
        cells = plot_cells(self._bins, self._threshold, width, height)
        for y, row in enumerate(cells):
            label = {0: "100%", height // 2: " 50%", height - 1: "  0%"}.get(y, "    ")
            lines.append(Content.assemble((label + "▏", "$tone-muted"), *row))
        lines.append(Content.styled(" " * AXIS + axis_line(self._threshold, width), "$tone-muted"))
        return Content("\n").join(lines)


def axis_line(threshold: float | None, width: int) -> str:
    """The ends of the score, its name, and the mark of the threshold."""
    line = [" "] * width

    def put(text: str, at: int) -> None:
        at = max(0, min(width - len(text), at))
        line[at : at + len(text)] = text

    put("0", 0)
    put("1", width - 1)
    put("score", width // 4 - 2 if threshold is None or threshold >= 0.5 else 3 * width // 4 - 2)
    if threshold is not None:
        put(f" {number_format.probability(threshold)} ", int(threshold * width) - 1)
    return "".join(line)
