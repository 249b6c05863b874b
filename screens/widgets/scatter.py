"""A scatter of characters: how many points lie in each cell, which are marked, and where the cursor's is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from screens.widgets.states import TONES

CURSOR = "◆"
DENSITY = "·:▪■"
"""Signs for one, two or three, up to nine, and more points."""
AXIS = 6
"""Cells for the numbers of the upright axis."""

Cell = tuple[str, str]
"""Character and tone."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing; both values are at least 0, and `x` is drawn on a logarithmic scale."""

    x: float
    y: float
    marked: bool = False


def plot(
    points: Sequence[Point], width: int, height: int, cursor: int | None = None
) -> list[list[Cell]]:
    """Lines of cells, highest value first; the cursor's point lies over all others.

    Args:
        cursor: Index of a point.
    """
    grid: list[list[Cell]] = [[(" ", "")] * width for _ in range(height)]
    if not points or width < 1 or height < 1:
        return grid
    counts: dict[tuple[int, int], tuple[int, bool]] = {}
    left, right, top = bounds(points)
    for point in points:
        at = _cell(point, left, right, top, width, height)
        count, marked = counts.get(at, (0, False))
        counts[at] = count + 1, marked or point.marked
    for (row, column), (count, marked) in counts.items():
        sign = DENSITY[0 if count == 1 else 1 if count < 4 else 2 if count < 10 else 3]
        grid[row][column] = (sign, "tone--borderline" if marked else "")
    if cursor is not None:
        row, column = _cell(points[cursor], left, right, top, width, height)
        grid[row][column] = (CURSOR, "tone--accent")
    return grid


def bounds(points: Sequence[Point]) -> tuple[float, float, float]:
    """The smallest and largest `x` and the largest `y`."""
    xs = [point.x for point in points]
    return min(xs), max(xs), max(point.y for point in points)


def _cell(
    point: Point, left: float, right: float, top: float, width: int, height: int
) -> tuple[int, int]:
    span = math.log1p(right) - math.log1p(left)
    across = (math.log1p(point.x) - math.log1p(left)) / span if span else 0.5
    up = point.y / top if top else 0.0
    return height - 1 - round(up * (height - 1)), round(across * (width - 1))


class Scatter(Widget):
    """Draws points with their axes; `what` names them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = TONES

    def __init__(self, across: str, up: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._across, self._up = across, up
        self._points: Sequence[Point] = ()
        self._cursor: int | None = None
        self._plotted: tuple[Size, list[list[Cell]]] | None = None

    def show(self, points: Sequence[Point]) -> None:
        """Shows other points, without a cursor."""
        self._points, self._cursor = points, None
        self._plotted = None
        self.refresh()

    def point_to(self, index: int | None) -> None:
        """Puts the cursor on a point."""
        if index != self._cursor:
            self._cursor = index
            self._plotted = None
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the plot, or of the axes below it."""
        size, base = self.size, self.rich_style
        muted = base + self.get_component_rich_style("tone--muted", partial=True)
        width, height = size.width - AXIS, size.height - 3
        if not self._points or width < 8 or height < 2 or y >= size.height:
            return Strip.blank(size.width, base)
        left, right, top = bounds(self._points)
        if y == 0:
            return Strip([Segment(f" {self._up}", muted)]).crop_extend(0, size.width, base)
        if y == height + 1:
            line = " " * (AXIS - 1) + "└" + "─" * width
            return Strip([Segment(line, muted)]).crop_extend(0, size.width, base)
        if y > height + 1:
            ends = f"{left:,.0f}", f"{right:,.0f}"
            room = max(0, width - len(ends[0]) - len(ends[1]))
            line = " " * AXIS + ends[0] + self._across.center(room)[:room] + ends[1]
            return Strip([Segment(line, muted)]).crop_extend(0, size.width, base)
        if self._plotted is None or self._plotted[0] != size:
            self._plotted = size, plot(self._points, width, height, self._cursor)
        label = f"{top:.1f}" if y == 1 else "0" if y == height else ""
        cells = self._plotted[1][y - 1]
        strip = Strip(
            [
                Segment(f"{label:>{AXIS - 1}}│", muted),
                *[
                    Segment(
                        sign,
                        base + self.get_component_rich_style(tone, partial=True) if tone else base,
                    )
                    for sign, tone in cells
                ],
            ]
        )
        return strip.crop_extend(0, size.width, base)
