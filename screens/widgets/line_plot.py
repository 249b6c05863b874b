"""Plots of curves over steps, as lines of dots or as a sign at each point.

A cell of the terminal holds a braille character of two columns and four rows of dots, so a plot has twice as many
columns of dots as of cells, and four times as many rows. Rows of cells and dots are counted from the top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from engine.base import number_format
from screens.widgets.formatting import TONES

AXIS_CELLS = 6
"""Cells of the vertical axis: its numbers and its line."""
MAX_LINEAR_RATIO = 20.0
"""The vertical axis is logarithmic where the largest value is more than this many times the smallest."""
MIN_SHARE_SHOWN = 1e-6
"""A value smaller than this share of the largest one is drawn at this share, the end of a logarithmic axis."""
_FLOORS = (0.99, 0.95, 0.9, 0.8, 0.5)
"""The values at which an axis of shares may begin, if it does not begin at 0."""
MIN_PLOT_CELLS = 8
"""Fewest columns of cells in which a plot is drawn."""
MIN_PLOT_ROWS = 2
"""Fewest rows of cells in which a plot is drawn."""
MIN_ROWS_WITH_MIDDLE = 5
"""Rows from which on the vertical axis has a number in its middle."""
TITLE_AND_AXIS_LINES = 3
"""Lines of the widget that are not of the plot: title, axis, numbers of the axis."""

_FIRST_BRAILLE = 0x2800
"""Code point of the braille character without dots; the bits of its dots are added."""
_DOT_ROWS, _DOT_COLUMNS = 4, 2
"""Rows and columns of the dots of a cell."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character, by row and column of its dots."""

Cell = tuple[str, str]
"""A character, or a text, and its tone."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve.

    Attributes:
        points: Step and value of each point, in the order of steps.
        tone: A component class.
        sign: The sign that stands at each point; empty draws a line of dots through all points.
    """

    points: tuple[tuple[float, float], ...]
    tone: str = "tone--accent"
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """The vertical axis: it goes from `low` at the bottom to `high` at the top."""

    low: float
    high: float
    logarithmic: bool = False

    def at(self, share: float) -> float:
        """Returns the value at a share of the height."""
        if self.logarithmic:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def share(self, value: float) -> float:
        """Returns the height of a value, 0 at the bottom and 1 at the top."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def loss_scale(values: Sequence[float]) -> Scale:
    """Returns a scale from 0 to the largest value; a logarithmic one where small values would all be at the bottom."""
    finite = [value for value in values if math.isfinite(value)]
    high = max(finite, default=1.0)
    if high <= 0:
        return Scale(0.0, 1.0)
    low = max(min(value for value in finite or [high] if value > 0), high * MIN_SHARE_SHOWN)
    if low * MAX_LINEAR_RATIO < high:
        return Scale(low, high, logarithmic=True)
    return Scale(0.0, high)


def share_scale(values: Sequence[float]) -> Scale:
    """Returns a scale from the highest value of `_FLOORS` that is not above any of the values, or 0, to 1."""
    least = min((value for value in values if math.isfinite(value)), default=0.0)
    return Scale(next((floor for floor in _FLOORS if floor <= least), 0.0), 1.0)


def plot(
    lines: Sequence[Line], scale: Scale, steps: float, width: int, height: int
) -> list[list[Cell]]:
    """Returns `height` rows of `width` cells, the top row first; later curves are drawn over earlier ones.

    Args:
        steps: The step at the right end; the left end is step 0.
    """
    grid: list[list[Cell]] = [[(" ", "")] * width for _ in range(height)]
    if width < 2 or height < 1:
        return grid
    for line in lines:
        points = [(x, y) for x, y in line.points if math.isfinite(y) and 0 <= x <= steps]
        if line.sign:
            for x, y in points:
                row = height - 1 - _cell(scale.share(y), height)
                grid[row][_cell(x / steps if steps else 0.0, width)] = (line.sign, line.tone)
        else:
            _draw(grid, points, line.tone, scale, steps)
    return grid


def _cell(share: float, cells: int) -> int:
    """Returns in which of `cells` cells, or dots, a share of the width or height is, as its index."""
    return min(int(share * cells), cells - 1)


def _draw(
    grid: list[list[Cell]],
    points: Sequence[tuple[float, float]],
    tone: str,
    scale: Scale,
    steps: float,
) -> None:
    """Draws a line of dots into the grid; points that share a column of dots are drawn at their mean."""
    dot_columns, dot_rows = _DOT_COLUMNS * len(grid[0]), _DOT_ROWS * len(grid)
    shares_by_column: dict[int, list[float]] = {}
    for x, y in points:
        column = _cell(x / steps if steps else 0.0, dot_columns)
        shares_by_column.setdefault(column, []).append(scale.share(y))
    heights = sorted(
        (column, sum(shares) / len(shares)) for column, shares in shares_by_column.items()
    )
    masks: dict[tuple[int, int], int] = {}  # bits of the dots, by row and column of the cell
    last_dot: tuple[int, int] | None = None
    for dot_column, share in heights:
        dot = dot_column, dot_rows - 1 - _cell(share, dot_rows)
        for column, row in _dots_between(last_dot or dot, dot):
            cell = row // _DOT_ROWS, column // _DOT_COLUMNS
            bit = _DOTS[row % _DOT_ROWS][column % _DOT_COLUMNS]
            masks[cell] = masks.get(cell, 0) | bit
        last_dot = dot
    for (row, column), mask in masks.items():
        grid[row][column] = (chr(_FIRST_BRAILLE + mask), tone)


def _dots_between(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Returns the dots of a straight line, as column and row, both ends included."""
    (start_column, start_row), (end_column, end_row) = start, end
    columns, rows = end_column - start_column, end_row - start_row
    count = max(abs(columns), abs(rows), 1)
    return [
        (start_column + round(columns * index / count), start_row + round(rows * index / count))
        for index in range(count + 1)
    ]


def label(value: float) -> str:
    """Returns a number of the axis in at most five characters."""
    if value >= 100:
        return number_format.amount(value)
    if value >= 1:
        return f"{value:.1f}"
    return number_format.probability(value, 2 if value >= 0.1 or value == 0 else 3)


class LinePlot(Widget):
    """Shows a title, the curves with a vertical axis, and below them the axis of steps."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    DEFAULT_CSS = "LinePlot { height: 9; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title: Sequence[Cell] = ()
        self._lines: Sequence[Line] = ()
        self._scale = Scale(0.0, 1.0)
        self._steps = 0.0
        self._marks: Sequence[int] = ()
        self._empty = ""
        # The drawn plot, and the size of the widget that it is drawn for.
        self._grid: tuple[Size, list[list[Cell]]] | None = None

    def show(
        self,
        title: Sequence[Cell],
        lines: Sequence[Line],
        scale: Scale,
        steps: float,
        *,
        marks: Sequence[int] = (),
        empty: str = "",
    ) -> None:
        """Shows other curves.

        Args:
            title: Pieces of text with their tones, display-safe.
            steps: The step at the right end.
            marks: Steps that are marked on the axis.
            empty: The text that is shown while no curve has a point.
        """
        self._title, self._lines, self._scale = title, lines, scale
        self._steps, self._marks, self._empty = steps, marks, empty
        self._grid = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Returns one line of the title, the plot or the axis."""
        size, base = self.size, self.rich_style
        if y == 0:
            parts = [Segment(text, self._style(tone)) for text, tone in self._title]
            return Strip(parts).crop_extend(0, size.width, base)
        width, height = size.width - AXIS_CELLS, size.height - TITLE_AND_AXIS_LINES
        if width < MIN_PLOT_CELLS or height < MIN_PLOT_ROWS:
            return Strip.blank(size.width, base)
        if not any(line.points for line in self._lines):
            words = self._empty.center(size.width) if y == 1 + height // 2 else ""
            return Strip([Segment(words, self._style("tone--muted"))]).crop_extend(
                0, size.width, base
            )
        if y > height:
            return self._axis(y - height, width)
        if self._grid is None or self._grid[0] != size:
            self._grid = size, plot(self._lines, self._scale, self._steps, width, height)
        text = ""
        for row, share in ((1, 1.0), (1 + height // 2, 0.5), (height, 0.0)):
            if y == row and (share != 0.5 or height >= MIN_ROWS_WITH_MIDDLE):
                text = label(self._scale.at(share))
        parts = [Segment(f"{text:>{AXIS_CELLS - 1}}│", self._style("tone--muted"))]
        parts += [Segment(sign, self._style(tone)) for sign, tone in self._grid[1][y - 1]]
        return Strip(parts).crop_extend(0, size.width, base)

    def _axis(self, line: int, width: int) -> Strip:
        """Returns line 1 of the axis of steps, which has the marks, or line 2, which has the numbers."""
        base, style = self.rich_style, self._style("tone--muted")
        if line == 1:
            line_cells = ["─"] * width
            for mark in self._marks:
                if 0 <= mark <= self._steps and self._steps:
                    line_cells[_cell(mark / self._steps, width)] = "┴"
            text = " " * (AXIS_CELLS - 1) + "└" + "".join(line_cells)
        else:
            last = f"{self._steps:,.0f}"
            name = "step (logarithmic)" if self._scale.logarithmic else "step"
            room = max(0, width - 1 - len(last))
            middle = name.center(room) if room >= len(name) else " " * room
            text = " " * AXIS_CELLS + "0" + middle + last
        return Strip([Segment(text, style)]).crop_extend(0, self.size.width, base)

    def _style(self, tone: str) -> Style:
        """Returns the style of a tone, the plain one for an empty name."""
        base = self.rich_style
        return base + self.get_component_rich_style(tone, partial=True) if tone else base
