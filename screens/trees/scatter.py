"""A scatter plot of characters. Each cell shows how many points lie in it; the cursor moves from point to point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from screens.widgets.formatting import TONES
from screens.widgets.keyed import Keyed

CURSOR = "◆"
"""Sign of the point under the cursor."""
DENSITY = "·:▪■"
"""Signs for one, two or three, up to nine, and more points."""
AXIS = 6
"""Cells for the numbers of the vertical axis."""

Cell = tuple[str, str]
"""Character and tone."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point. Both values are at least 0; `x` is drawn on a logarithmic scale."""

    x: float
    y: float
    marked: bool = False


def plot(
    points: Sequence[Point], width: int, height: int, cursor: int | None = None
) -> list[list[Cell]]:
    """Returns lines of cells, highest value first; the cursor's point lies over all others.

    Args:
        cursor: Index of a point.
    """
    grid: list[list[Cell]] = [[(" ", "")] * width for _ in range(height)]
    if not points or width < 1 or height < 1:
        return grid
    counts: dict[tuple[int, int], tuple[int, bool]] = {}
    left, right, top = bounds(points)
    for point in points:
        cell = _cell(point, left, right, top, width, height)
        count, marked = counts.get(cell, (0, False))
        counts[cell] = count + 1, marked or point.marked
    for (row, column), (count, marked) in counts.items():
        sign = DENSITY[0 if count == 1 else 1 if count < 4 else 2 if count < 10 else 3]
        grid[row][column] = (sign, "tone--borderline" if marked else "")
    if cursor is not None:
        row, column = _cell(points[cursor], left, right, top, width, height)
        grid[row][column] = (CURSOR, "tone--accent")
    return grid


def nearest(places: Sequence[tuple[int, int]], at: int, down: int, across: int) -> int | None:
    """Returns the index of the nearest point in a direction; None where there is none.

    Args:
        places: Line and column of each point.
        at: Index of the point to go on from.
        down, across: One of them 1 or -1, the other 0.
    """
    line, column = places[at]

    def far(index: int) -> tuple[int, int]:
        """Returns the distance of a point along the direction, and across it."""
        offset = places[index][0] - line, places[index][1] - column
        ahead, aside = offset if down else offset[::-1]
        return ahead * (down or across), abs(aside)

    ahead = [index for index in range(len(places)) if far(index)[0] > 0]
    return min(ahead, key=far, default=None)


def bounds(points: Sequence[Point]) -> tuple[float, float, float]:
    """Returns the smallest and largest `x` and the largest `y`."""
    xs = [point.x for point in points]
    return min(xs), max(xs), max(point.y for point in points)


def _cell(
    point: Point, left: float, right: float, top: float, width: int, height: int
) -> tuple[int, int]:
    """Returns the line and column of a point in a plot of this size."""
    span = math.log1p(right) - math.log1p(left)
    across = (math.log1p(point.x) - math.log1p(left)) / span if span else 0.5
    up = point.y / top if top else 0.0
    return height - 1 - round(up * (height - 1)), round(across * (width - 1))


class Scatter(Keyed, Widget, can_focus=True, inherit_bindings=False):
    """Draws points with their axes; the cursor goes through them."""

    PLACE = "scatter"
    COMPONENT_CLASSES: ClassVar[set[str]] = TONES
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "go(0, -1)", "Point left", show=False),
        Binding("right", "go(0, 1)", "Point right", show=False),
        Binding("up,k", "go(-1, 0)", "Point above", show=False),
        Binding("down,j", "go(1, 0)", "Point below", show=False),
        Binding("n", "same", "Next here", tooltip="The next point in the same place"),
        Binding("enter", "open", "Open"),
    ]

    class Pointed(Message):
        """The cursor was put on another point."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    class Opened(Pointed):
        """A point was opened."""

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

    # Keys

    def _places(self) -> list[tuple[int, int]]:
        """Returns the line and column of each point."""
        width, height = self._room
        ends = bounds(self._points)
        return [_cell(point, *ends, width, height) for point in self._points]

    @property
    def _room(self) -> tuple[int, int]:
        """Columns and lines of the plot itself."""
        return max(1, self.size.width - AXIS), max(1, self.size.height - 3)

    def action_go(self, down: int, across: int) -> None:
        """Goes to the next point in a direction."""
        if self._points:
            self._put(
                0 if self._cursor is None else nearest(self._places(), self._cursor, down, across)
            )

    def action_same(self) -> None:
        """Goes to the next of the points that lie in one cell."""
        if self._cursor is not None:
            places = self._places()
            here = [index for index, place in enumerate(places) if place == places[self._cursor]]
            self._put(here[(here.index(self._cursor) + 1) % len(here)])

    def action_open(self) -> None:
        """Opens the point under the cursor."""
        if self._cursor is not None:
            self.post_message(self.Opened(self._cursor))

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor on the nearest point; one on the cursor's own opens it."""
        if not self._points:
            return
        line, column = event.y - 1, event.x - AXIS
        places = self._places()
        point = min(
            range(len(places)),
            key=lambda index: abs(places[index][0] - line) * 2 + abs(places[index][1] - column),
        )
        if self._cursor is not None and places[point] == places[self._cursor]:
            self.action_open()
        else:
            self._put(point)

    def _put(self, index: int | None) -> None:
        """Puts the cursor on a point, and tells the screen."""
        if index is not None and index != self._cursor:
            self.point_to(index)
            self.post_message(self.Pointed(index))

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Returns one line of the plot, or of the axes below it."""
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
