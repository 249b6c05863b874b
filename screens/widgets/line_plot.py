"""Plots curves over steps, or over a share in [0, 1], as lines of dots or as a sign at each point."""

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
"""Cells for the numbers of the upright axis, its line included."""
MAX_LINEAR_RATIO = 20.0
"""The axis is logarithmic where the largest value is more than this many times the smallest."""
MIN_SHARE_SHOWN = 1e-6
"""What is smaller than this share of the largest value is drawn there."""
_FLOORS = (0.99, 0.95, 0.9, 0.8, 0.5)
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character, by row and column of its dots."""

Cell = tuple[str, str]
"""Character and tone."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve.

    Attributes:
        points: Step and value, by step.
        sign: Stands at each point; empty draws a line of dots through all of them.
    """

    points: tuple[tuple[float, float], ...]
    tone: str = "tone--accent"
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the upright axis spans."""

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
    """Returns a scale from 0 to the largest value; logarithmic where that would press small values flat."""
    finite = [value for value in values if math.isfinite(value)]
    high = max(finite, default=1.0)
    if high <= 0:
        return Scale(0.0, 1.0)
    low = max(min(value for value in finite or [high] if value > 0), high * MIN_SHARE_SHOWN)
    if low * MAX_LINEAR_RATIO < high:
        return Scale(low, high, logarithmic=True)
    return Scale(0.0, high)


def share_scale(values: Sequence[float]) -> Scale:
    """Returns a scale up to 1, from the highest round number below all values."""
    least = min((value for value in values if math.isfinite(value)), default=0.0)
    return Scale(next((floor for floor in _FLOORS if floor <= least), 0.0), 1.0)


def plot(
    lines: Sequence[Line], scale: Scale, steps: float, width: int, height: int
) -> list[list[Cell]]:
    """Returns lines of cells, highest first; later curves lie over earlier ones.

    Args:
        steps: Step at the right end; the left end is 0.
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
    """Returns the cell of so many that a share of the width or height is in."""
    return min(int(share * cells), cells - 1)


def _draw(
    grid: list[list[Cell]],
    points: Sequence[tuple[float, float]],
    tone: str,
    scale: Scale,
    steps: float,
) -> None:
    """Draws a line of dots; points that share a column of dots are drawn at their mean."""
    width, height = len(grid[0]), len(grid)
    columns: dict[int, list[float]] = {}
    for x, y in points:
        columns.setdefault(_cell(x / steps if steps else 0.0, 2 * width), []).append(scale.share(y))
    heights = sorted((column, sum(shares) / len(shares)) for column, shares in columns.items())
    masks: dict[tuple[int, int], int] = {}
    before: tuple[int, int] | None = None
    for dot_column, share in heights:
        now = dot_column, 4 * height - 1 - _cell(share, 4 * height)
        for column, row in _between(before or now, now):
            cell = row // 4, column // 2
            masks[cell] = masks.get(cell, 0) | _DOTS[row % 4][column % 2]
        before = now
    for (row, column), mask in masks.items():
        grid[row][column] = (chr(0x2800 + mask), tone)


def _between(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Returns the dots of a straight line, both ends included."""
    count = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (
            start[0] + round((end[0] - start[0]) * index / count),
            start[1] + round((end[1] - start[1]) * index / count),
        )
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
    """A title, the curves, and below them the axis of steps."""

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
        self._across = ""
        self._plotted: tuple[Size, list[list[Cell]]] | None = None

    def show(
        self,
        title: Sequence[Cell],
        lines: Sequence[Line],
        scale: Scale,
        steps: float,
        *,
        marks: Sequence[int] = (),
        empty: str = "",
        across: str = "step",
    ) -> None:
        """Shows other curves.

        Args:
            title: Pieces of text and their tones, display-safe.
            steps: Step at the right end.
            marks: Steps that the axis marks.
            empty: Text shown while no curve has a point.
            across: What is counted from left to right.
        """
        self._across = across
        self._title, self._lines, self._scale = title, lines, scale
        self._steps, self._marks, self._empty = steps, marks, empty
        self._plotted = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Returns one line of the title, the plot or the axis."""
        size, base = self.size, self.rich_style
        if y == 0:
            parts = [Segment(text, self._style(tone)) for text, tone in self._title]
            return Strip(parts).crop_extend(0, size.width, base)
        width, height = size.width - AXIS_CELLS, size.height - 3
        if width < 8 or height < 2:
            return Strip.blank(size.width, base)
        if not any(line.points for line in self._lines):
            words = self._empty.center(size.width) if y == 1 + height // 2 else ""
            return Strip([Segment(words, self._style("tone--muted"))]).crop_extend(
                0, size.width, base
            )
        if y > height:
            return self._axis(y - height, width)
        if self._plotted is None or self._plotted[0] != size:
            grid = plot(self._lines, self._scale, self._steps, width, height)
            self._plotted = size, grid
        text = ""
        for row, share in ((1, 1.0), (1 + height // 2, 0.5), (height, 0.0)):
            if y == row and (share != 0.5 or height >= 5):
                text = label(self._scale.at(share))
        parts = [Segment(f"{text:>{AXIS_CELLS - 1}}│", self._style("tone--muted"))]
        parts += [Segment(sign, self._style(tone)) for sign, tone in self._plotted[1][y - 1]]
        return Strip(parts).crop_extend(0, size.width, base)

    def _axis(self, line: int, width: int) -> Strip:
        """Returns the line of the axis with its marks, or the numbers below it."""
        base, style = self.rich_style, self._style("tone--muted")
        if line == 1:
            line_cells = ["─"] * width
            for mark in self._marks:
                if 0 <= mark <= self._steps and self._steps:
                    line_cells[_cell(mark / self._steps, width)] = "┴"
            text = " " * (AXIS_CELLS - 1) + "└" + "".join(line_cells)
        else:
            last = f"{self._steps:,.0f}"
            log = " (logarithmic)" if self._scale.logarithmic else ""
            middle = f"{self._across}{log}"
            room = max(0, width - 1 - len(last))
            text = (
                " " * AXIS_CELLS
                + "0"
                + (middle.center(room) if room >= len(middle) else " " * room)
            )
            text += last
        return Strip([Segment(text, style)]).crop_extend(0, self.size.width, base)

    def _style(self, tone: str) -> Style:
        base = self.rich_style
        return base + self.get_component_rich_style(tone, partial=True) if tone else base
