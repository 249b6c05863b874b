"""Figures as SVG: readable in black and white, by a screen reader, and without any script.

All lengths are in the units of the view box, which is `WIDTH` wide; y grows downwards. Colors come from classes: `bar`
and `dot` are filled or outlined marks, `pale` is the paler part of a bar, `faint` a figure of few, `ink` lines of the
data, `line` a dashed mark, `rail` the ground.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from engine.base.text import one_line
from engine.results.document import Bars, Columns, Figure, Plot, Ranges

WIDTH = 640
"""Width of every drawing, in the units of its view box."""

_LABEL_WIDTH, _VALUE_WIDTH, _ROW_HEIGHT = 230, 150, 22
"""Widths of the label and of the value in a row of bars, and the height of the row."""

_LABEL_CELLS = 34
"""Most characters of a label beside a row."""

_TEXT_DROP = 15
"""Distance from the top of a row to the base line of its text."""

_COLUMNS_HEIGHT = 150
"""Height of the greatest of several columns."""

_MAX_COLUMN_NAMES = 14
"""Most names that fit under the columns; of more columns, every so many are named."""

_MIN_WIDTH_FOR_COUNT = 26
"""Width of a column above which there is room for its count."""

_PLOT_HEIGHT = 300
"""Height of a plot."""

_PLOT_MARGIN = 12
"""Room above a plot and at its right."""

_KEY_LINE_HEIGHT = 18
"""Height of a line of the key below a plot."""

_X_TITLE_Y = _PLOT_HEIGHT + 16
"""Base line of the title and the values of the horizontal axis."""

_AXIS_WIDTH = 52
"""Room at the left of a plot for its axis."""

DASHES = ("none", "7 4", "2 3", "9 3 2 3", "1 5", "14 5")
"""Dashes of the lines of a plot, in their order; they tell lines apart in black and white."""


class _Drawing(NamedTuple):
    """A figure as elements over `WIDTH` and a height, with its description in words."""

    description: str
    height: float
    elements: Sequence[str]


def svg_element(figure: Figure) -> str:
    """Returns a figure as an element for a page, whose style sheet colors it."""
    drawing = _drawing(figure)
    return _element(figure.title, drawing.description, drawing.height, drawing.elements)


def _element(title: str, description: str, height: float, elements: Iterable[str]) -> str:
    """Returns a drawing as an SVG element with title and description, which screen readers read."""
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(elements)}</svg>"
    )


def _drawing(figure: Figure) -> _Drawing:
    """Returns the drawing of a figure of any kind."""
    if isinstance(figure, Bars):
        return _bars(figure)
    if isinstance(figure, Columns):
        return _columns(figure)
    if isinstance(figure, Ranges):
        return _ranges(figure)
    return _plot(figure)


def _bars(figure: Bars) -> _Drawing:
    """Returns horizontal bars, a row each, with the value as text beside them."""
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    elements = []
    for row, (label, value, text, pale, faint) in enumerate(figure.values):
        y, name = row * _ROW_HEIGHT, escape(one_line(label, _LABEL_CELLS))
        length = max(0.0, min(1.0, value)) * room
        pale_length = max(0.0, min(1.0, value + pale)) * room - length
        tone = ' class="faint"' if faint else ""
        elements += [
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + _TEXT_DROP}" text-anchor="end">{name}</text>',
            f'<rect class="rail" x="{_LABEL_WIDTH}" y="{y + 4}" width="{room}" height="14"/>',
            f'<rect class="bar" x="{_LABEL_WIDTH}" y="{y + 4}" width="{length:.1f}" height="14"/>',
            f'<rect class="pale" x="{_LABEL_WIDTH + length:.1f}" y="{y + 4}" width="{pale_length:.1f}" height="14"/>'
            if pale
            else "",
            f'<text{tone} x="{_LABEL_WIDTH + room + 6}" y="{y + _TEXT_DROP}">{escape(text)}</text>',
        ]
    description = "; ".join(f"{bar.label}: {bar.text}" for bar in figure.values)
    return _Drawing(description, len(figure.values) * _ROW_HEIGHT + 4, elements)


def _columns(figure: Columns) -> _Drawing:
    """Returns vertical columns with their counts above them and a dashed line where one is asked for."""
    most = max((count for _, count in figure.values), default=0) or 1
    step = WIDTH / max(1, len(figure.values))
    named_every = max(1, math.ceil(len(figure.values) / _MAX_COLUMN_NAMES))
    foot = 20 + _COLUMNS_HEIGHT
    elements = []
    for number, (label, count) in enumerate(figure.values):
        height = _COLUMNS_HEIGHT * count / most
        x = number * step
        elements.append(
            f'<rect class="bar" x="{x + 2:.1f}" y="{foot - height:.1f}" width="{step - 4:.1f}" height="{height:.1f}"/>'
        )
        if count and step > _MIN_WIDTH_FOR_COUNT:
            elements.append(
                f'<text x="{x + step / 2:.1f}" y="{foot - 5 - height:.1f}" text-anchor="middle">{count:,}</text>'
            )
        if number % named_every == 0:
            name = escape(one_line(label, 12))
            elements.append(
                f'<text x="{x + step / 2:.1f}" y="{foot + 18}" text-anchor="middle">{name}</text>'
            )
    if figure.line is not None:
        share, words = figure.line
        x = share * WIDTH
        anchor = "end" if share > 0.6 else "start"  # on the side where there is room
        elements += [
            f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{foot}"/>',
            f'<text x="{x + (-5 if anchor == "end" else 5):.1f}" y="14" text-anchor="{anchor}">{escape(words)}</text>',
        ]
    description = "; ".join(f"{label}: {count}" for label, count in figure.values)
    return _Drawing(description, foot + 26, elements)


def _ranges(figure: Ranges) -> _Drawing:
    """Returns values as dots with their intervals as lines over one axis; 0 is a dashed line."""
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    low = min([0.0, *(row.low for row in figure.values)])
    high = max([0.0, *(row.high for row in figure.values)])
    span = (high - low) or 1.0

    def x_of(value: float) -> float:
        """Returns where a value lies on the axis, which has a margin of 4 at both ends."""
        return _LABEL_WIDTH + 4 + (value - low) / span * (room - 8)

    height = len(figure.values) * _ROW_HEIGHT + 4
    zero = x_of(0.0)
    elements = [f'<line class="line" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{height}"/>']
    for row, (label, least, value, most, text) in enumerate(figure.values):
        y = row * _ROW_HEIGHT + _ROW_HEIGHT // 2
        name = escape(one_line(label, _LABEL_CELLS))
        elements += [
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + 4}" text-anchor="end">{name}</text>',
            f'<line class="ink" x1="{x_of(least):.1f}" x2="{x_of(most):.1f}" y1="{y}" y2="{y}"/>',
            f'<circle class="bar" cx="{x_of(value):.1f}" cy="{y}" r="4"/>',
            f'<text x="{_LABEL_WIDTH + room + 6}" y="{y + 4}">{escape(text)}</text>',
        ]
    description = "; ".join(f"{row.label}: {row.text}" for row in figure.values)
    return _Drawing(description, height, elements)


class _Axes(NamedTuple):
    """The scales of a plot: the values at the ends of both axes."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @classmethod
    def of(cls, figure: Plot) -> _Axes:
        """Returns the axes over what is drawn, or from 0 to 1 where the figure says so."""
        points = [*figure.dots, *(point for _, line in figure.lines for point in line)]
        xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
        x_low, x_high = (0.0, 1.0) if figure.unit else (min(xs), max(xs))
        y_low, y_high = (0.0, 1.0) if figure.unit else (min(ys), max(ys))
        return cls(x_low, x_high, y_low, y_high)

    def x_of(self, x: float) -> float:
        """Returns where a value lies from left to right."""
        span = (self.x_high - self.x_low) or 1.0
        return _AXIS_WIDTH + (x - self.x_low) / span * _INNER_WIDTH

    def y_of(self, y: float) -> float:
        """Returns where a value lies from the top down."""
        span = (self.y_high - self.y_low) or 1.0
        return _PLOT_MARGIN + (self.y_high - y) / span * _INNER_HEIGHT


_INNER_WIDTH, _INNER_HEIGHT = WIDTH - _AXIS_WIDTH - _PLOT_MARGIN, _PLOT_HEIGHT - _PLOT_MARGIN
"""Size of the frame in which a plot is drawn."""


def _plot(figure: Plot) -> _Drawing:
    """Returns lines, told apart by their dashes, and dots, over two axes with the ends of their scales."""
    axes = _Axes.of(figure)
    elements = [
        *_plot_marks(figure, axes),
        *_plot_scales(figure, axes),
        *_plot_key(figure, _X_TITLE_Y + 24),
    ]
    height = _X_TITLE_Y + 10 + _KEY_LINE_HEIGHT * len(figure.lines)
    return _Drawing(figure.description, height, elements)


def _plot_marks(figure: Plot, axes: _Axes) -> list[str]:
    """Returns the frame, the dots and the lines."""
    elements = [
        f'<rect class="rail" x="{_AXIS_WIDTH}" y="{_PLOT_MARGIN}" width="{_INNER_WIDTH}" height="{_INNER_HEIGHT}"/>'
    ]
    elements += [
        f'<circle class="dot" cx="{axes.x_of(x):.1f}" cy="{axes.y_of(y):.1f}" r="3"/>'
        for x, y in figure.dots
    ]
    for number, (_, line) in enumerate(figure.lines):
        coordinates = " ".join(f"{axes.x_of(x):.1f},{axes.y_of(y):.1f}" for x, y in line)
        dash = DASHES[number % len(DASHES)]
        elements.append(f'<polyline class="ink" stroke-dasharray="{dash}" points="{coordinates}"/>')
    return elements


def _plot_scales(figure: Plot, axes: _Axes) -> list[str]:
    """Returns the titles of both axes and the values at their ends."""
    middle = _AXIS_WIDTH + _INNER_WIDTH / 2
    return [
        f'<text x="{_AXIS_WIDTH}" y="{_X_TITLE_Y}">{axes.x_low:.3g}</text>',
        f'<text x="{WIDTH - _PLOT_MARGIN}" y="{_X_TITLE_Y}" text-anchor="end">{axes.x_high:.3g}</text>',
        f'<text x="{middle:.0f}" y="{_X_TITLE_Y}" text-anchor="middle">{escape(figure.x_title)}</text>',
        f'<text x="{_AXIS_WIDTH - 6}" y="{_PLOT_HEIGHT}" text-anchor="end">{axes.y_low:.3g}</text>',
        f'<text x="{_AXIS_WIDTH - 6}" y="22" text-anchor="end">{axes.y_high:.3g}</text>',
        f'<text transform="translate(14 {_PLOT_HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(figure.y_title)}</text>",
    ]


def _plot_key(figure: Plot, top: int) -> list[str]:
    """Returns a piece of each line with its label beside it, from a height downwards."""
    elements = []
    for number, (label, _) in enumerate(figure.lines):
        y = top + number * _KEY_LINE_HEIGHT
        dash = DASHES[number % len(DASHES)]
        elements += [
            f'<line class="ink" stroke-dasharray="{dash}" x1="{_AXIS_WIDTH}" x2="{_AXIS_WIDTH + 44}"'
            f' y1="{y - 4}" y2="{y - 4}"/>',
            f'<text x="{_AXIS_WIDTH + 52}" y="{y}">{escape(one_line(label, 80))}</text>',
        ]
    return elements
