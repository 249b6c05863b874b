"""A map: conversations as dots on a plane, colored by group, with a letter on each of the largest groups."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median_low
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from engine.base.text import one_line
from engine.goals.records import MapPoint
from screens.widgets.keyed import Keyed

LETTERS = "ABCDEFGH"
"""A letter for each group that has a colour of its own."""
_HUES = tuple(f"map--{number}" for number in range(len(LETTERS)))
"""Component classes of the colors of the groups with a letter."""
_OTHER, _HIGHLIGHTED, _MARK, _LABEL = "map--other", "map--here", "map--mark", "map--label"
"""Component classes of other groups, of the highlighted one and of its letter, and of a label in the legend."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column of its dots."""
LEGEND_WIDTH = 30
"""Cells of an entry of the legend."""

Cell = tuple[str, str]
"""Character and component class."""


def plot(
    dots: Sequence[MapPoint],
    lettered: Sequence[str],
    highlighted: str | None,
    width: int,
    height: int,
) -> list[list[Cell]]:
    """Returns the map as `height` lines of `width` cells, the top line first. A cell has the colour of the group with
    most dots in it; each cell has two by four dots.

    Args:
        lettered: Ids of the groups that have a colour and a letter, in order.
        highlighted: Id of the group that is highlighted in every cell with one of its dots.
    """
    grid: list[list[Cell]] = [[(" ", "")] * width for _ in range(height)]
    if width < 2 or height < 2:
        return grid
    masks: dict[tuple[int, int], int] = defaultdict(int)
    groups: dict[tuple[int, int], Counter[str | None]] = defaultdict(Counter)
    cells: dict[str, list[tuple[int, int]]] = defaultdict(list)
    left, right, low, high = _bounds(dots)
    for dot in dots:
        across = _scaled(dot.x, left, right, 2 * width)
        down = 4 * height - 1 - _scaled(dot.y, low, high, 4 * height)
        cell = down // 4, across // 2
        masks[cell] |= _DOTS[down % 4][across % 2]
        groups[cell][dot.group] += 1
        if dot.group is not None:
            cells[dot.group].append(cell)
    hue = dict(zip(lettered, _HUES, strict=False))
    for (row, column), mask in masks.items():
        counts = groups[row, column]
        tone = (
            _HIGHLIGHTED
            if highlighted in counts
            else hue.get(counts.most_common(1)[0][0] or "", _OTHER)
        )
        grid[row][column] = (chr(0x2800 + mask), tone)
    for letter, group in zip(LETTERS, lettered, strict=False):
        if own_cells := cells.get(group):
            row = median_low([cell[0] for cell in own_cells])
            column = median_low([cell[1] for cell in own_cells])
            grid[row][column] = (letter, _MARK if group == highlighted else hue[group])
    return grid


def _bounds(dots: Sequence[MapPoint]) -> tuple[float, float, float, float]:
    """Returns the least and the largest x, and the least and the largest y."""
    xs, ys = [dot.x for dot in dots] or [0.0], [dot.y for dot in dots] or [0.0]
    return min(xs), max(xs), min(ys), max(ys)


def _scaled(value: float, low: float, high: float, cells: int) -> int:
    """Returns the index of the cell that a value falls into, of as many between `low` and `high`."""
    share = (value - low) / (high - low) if high > low else 0.5
    return min(int(share * cells), cells - 1)


class GroupMap(Keyed, Widget, can_focus=True):
    """Draws the dots and a legend of the letters."""

    PLACE = "map"
    COMPONENT_CLASSES: ClassVar[set[str]] = {*_HUES, _OTHER, _HIGHLIGHTED, _MARK, _LABEL}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "step(1)", "Next group", show=False),
        Binding("up,k", "step(-1)", "Previous group", show=False),
    ]
    DEFAULT_CSS = """
    GroupMap { height: 1fr; }
    GroupMap .map--other, GroupMap .map--label { color: $tone-muted; }
    GroupMap .map--here { color: $tone-bright; text-style: bold; }
    GroupMap .map--mark { color: $tone-bright; text-style: bold reverse; }
    GroupMap:dark .map--0 { color: #7fb2ff; }
    GroupMap:dark .map--1 { color: #f0a35e; }
    GroupMap:dark .map--2 { color: #c3a6f5; }
    GroupMap:dark .map--3 { color: #8fd16a; }
    GroupMap:dark .map--4 { color: #f28cb8; }
    GroupMap:dark .map--5 { color: #5fd0e0; }
    GroupMap:dark .map--6 { color: #d9cf6b; }
    GroupMap:dark .map--7 { color: #c99a78; }
    GroupMap:light .map--0 { color: #1d55b4; }
    GroupMap:light .map--1 { color: #a85400; }
    GroupMap:light .map--2 { color: #6a3cb5; }
    GroupMap:light .map--3 { color: #3c7412; }
    GroupMap:light .map--4 { color: #a82566; }
    GroupMap:light .map--5 { color: #0d6f80; }
    GroupMap:light .map--6 { color: #6e6300; }
    GroupMap:light .map--7 { color: #7a4b2b; }
    GroupMap:ansi .map--0 { color: ansi_blue; }
    GroupMap:ansi .map--1 { color: ansi_yellow; }
    GroupMap:ansi .map--2 { color: ansi_magenta; }
    GroupMap:ansi .map--3 { color: ansi_green; }
    GroupMap:ansi .map--4 { color: ansi_red; }
    GroupMap:ansi .map--5 { color: ansi_cyan; }
    GroupMap:ansi .map--6, GroupMap:ansi .map--7 { color: ansi_default; }
    """

    class Stepped(Message):
        """The person asks for the next group (1) or the one before (-1)."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._dots: Sequence[MapPoint] = ()
        self._groups: Sequence[tuple[str, str]] = ()
        self._highlighted: str | None = None
        self._drawn: tuple[Size, list[list[Cell]]] | None = None

    def show(self, dots: Sequence[MapPoint], groups: Sequence[tuple[str, str]]) -> None:
        """Shows other dots; `groups` are the (id, label) of the groups, those with a colour first."""
        self._dots, self._groups = dots, groups[: len(LETTERS)]
        self._drawn = None
        self.refresh()

    def point_to(self, group: str | None) -> None:
        """Makes a group stand out."""
        if group != self._highlighted:
            self._highlighted = group
            self._drawn = None
            self.refresh()

    def action_step(self, by: int) -> None:
        """Asks for another group."""
        self.post_message(self.Stepped(by))

    def render_line(self, y: int) -> Strip:
        """Returns one line of dots or of the legend."""
        size, base = self.size, self.rich_style
        across = max(1, size.width // LEGEND_WIDTH)
        legend = -(-len(self._groups) // across)
        height = max(2, size.height - legend)
        if y >= size.height or not self._dots:
            return Strip.blank(size.width, base)
        if y >= height:
            return self._legend(y - height, across, base).crop_extend(0, size.width, base)
        if self._drawn is None or self._drawn[0] != size:
            lettered = [group for group, _ in self._groups]
            self._drawn = size, plot(self._dots, lettered, self._highlighted, size.width, height)
        segments = [
            Segment(sign, base + self._look(tone) if tone else base)
            for sign, tone in self._drawn[1][y]
        ]
        return Strip(segments).crop_extend(0, size.width, base)

    def _look(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def _legend(self, line: int, across: int, base: Style) -> Strip:
        width = self.size.width // across
        segments: list[Segment] = []
        for index in range(line * across, min((line + 1) * across, len(self._groups))):
            group, label = self._groups[index]
            look = base + self._look(_MARK if group == self._highlighted else _HUES[index])
            name = Segment(f" {one_line(label, width - 4)}", base + self._look(_LABEL))
            entry = Strip([Segment(f" {LETTERS[index]}", look), name])
            segments += entry.crop_extend(0, width, base)
        return Strip(segments)
