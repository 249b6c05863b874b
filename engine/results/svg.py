"""Figures as SVG: readable in black and white, by a screen reader, and without any script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from engine.base.errors import UsageError
from engine.base.line_files import written_beside
from engine.base.text import one_line
from engine.results.document import Bars, Columns, Figure, Plot, Points, Ranges

WIDTH = 640
"""Width of every drawing, in the units of its view box."""

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The signs of groups in a picture of points."""

_LABEL_WIDTH, _VALUE_WIDTH, _ROW_HEIGHT = 230, 106, 22
"""Widths of the label and of the value in a row of bars, and the height of the row."""

_PLOT_HEIGHT = 300
"""Height of a plot."""

_AXIS_WIDTH = 52
"""Room at the left of a plot for its axis."""

DASHES = ("none", "7 4", "2 3", "9 3 2 3", "1 5", "14 5")
"""Dashes of the lines of a plot, in their order; they tell lines apart in black and white."""
_FILE_STYLE = (
    "text { font: 12px system-ui, sans-serif; fill: #1b1d22; } .head { font-weight: bold; }"
    " .rail { fill: none; stroke: #d4d8de; } .bar { fill: #3b5b8c; }"
    " .line { stroke: #b3541e; stroke-width: 2; stroke-dasharray: 5 3; }"
    " .ink { fill: none; stroke: #1b1d22; stroke-width: 1.5; }"
    " .dot { fill: none; stroke: #3b5b8c; stroke-width: 1.2; }"
)
"""Colors of a file of its own; a figure in a report has those of its page."""


class _Drawing(NamedTuple):
    """A figure as elements over `WIDTH` and a height, with its description in words."""

    description: str
    height: float
    elements: Sequence[str]


def svg_element(figure: Figure) -> str:
    """Returns a figure as an element for a page, whose style sheet colors it."""
    drawing = _drawing(figure)
    return _element(figure.title, drawing.description, drawing.height, drawing.elements)


def save_figures(path: Path, figures: Sequence[Figure]) -> None:
    """Writes figures, one below the other, into a file; an existing file is replaced.

    Raises:
        UsageError: The path does not end with `.svg`.
        ProjectError: The file cannot be written.
    """
    if path.suffix.lower() != ".svg":
        raise UsageError(f"{path.name} is no picture.", "End its name with .svg.")
    elements = [f"<style>{_FILE_STYLE}</style>", '<rect width="100%" height="100%" fill="#fff"/>']
    height = 0.0
    for figure in figures:
        drawing = _drawing(figure)
        elements += [
            f'<text class="head" x="4" y="{height + 18:.0f}">{escape(figure.title)}</text>',
            f'<g transform="translate(0 {height + 28:.0f})">{"".join(drawing.elements)}</g>',
        ]
        height += drawing.height + 44
    title = "; ".join(figure.title for figure in figures)
    description = "; ".join(_drawing(figure).description for figure in figures)
    with written_beside(path) as part:
        part.write_text(_element(title, description, height, elements) + "\n", encoding="utf-8")


def key_of(figure: Points) -> list[str]:
    """Returns the letters of the groups, in words."""
    return [f"{LETTERS[n]} {label}" for n, label in enumerate(figure.labels[: len(LETTERS)])]


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
    return _plot(figure) if isinstance(figure, Plot) else _points(figure)


def _bars(figure: Bars) -> _Drawing:
    """Returns horizontal bars, a row each, with the value as text beside them."""
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    elements = []
    for row, (label, value, text) in enumerate(figure.values):
        y = row * _ROW_HEIGHT
        length = max(0.0, min(1.0, value)) * room
        elements += [
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + 15}" text-anchor="end">{escape(one_line(label, 34))}</text>',
            f'<rect class="rail" x="{_LABEL_WIDTH}" y="{y + 4}" width="{room}" height="14"/>',
            f'<rect class="bar" x="{_LABEL_WIDTH}" y="{y + 4}" width="{length:.1f}" height="14"/>',
            f'<text x="{_LABEL_WIDTH + room + 6}" y="{y + 15}">{escape(text)}</text>',
        ]
    description = "; ".join(f"{bar.label}: {bar.text}" for bar in figure.values)
    return _Drawing(description, len(figure.values) * _ROW_HEIGHT + 4, elements)


def _columns(figure: Columns) -> _Drawing:
    """Returns vertical columns with their counts above them and a dashed line where one is asked for."""
    high, most = 150, max((count for _, count in figure.values), default=0) or 1
    step = WIDTH / max(1, len(figure.values))
    every = max(1, -(-len(figure.values) // 14))
    elements = []
    for number, (label, count) in enumerate(figure.values):
        tall = high * count / most
        x = number * step
        elements.append(
            f'<rect class="bar" x="{x + 2:.1f}" y="{20 + high - tall:.1f}" width="{step - 4:.1f}" height="{tall:.1f}"/>'
        )
        if count and step > 26:
            elements.append(
                f'<text x="{x + step / 2:.1f}" y="{15 + high - tall:.1f}" text-anchor="middle">{count:,}</text>'
            )
        if number % every == 0:
            name = escape(one_line(label, 12))
            elements.append(
                f'<text x="{x + step / 2:.1f}" y="{high + 38}" text-anchor="middle">{name}</text>'
            )
    if figure.line is not None:
        share, words = figure.line
        x = share * WIDTH
        anchor = "end" if share > 0.6 else "start"
        elements += [
            f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{20 + high}"/>',
            f'<text x="{x + (-5 if anchor == "end" else 5):.1f}" y="14" text-anchor="{anchor}">{escape(words)}</text>',
        ]
    description = "; ".join(f"{label}: {count}" for label, count in figure.values)
    return _Drawing(description, high + 46, elements)


def _points(figure: Points) -> _Drawing:
    """Returns points as the letters of their groups; a dot for none. The key follows as text."""
    high = 420
    xs = [x for x, _, _ in figure.places] or [0.0]
    ys = [y for _, y, _ in figure.places] or [0.0]
    wide, tall = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    elements = []
    for x, y, group in figure.places:
        across = 10 + (x - min(xs)) / wide * (WIDTH - 20)
        down = 12 + (max(ys) - y) / tall * (high - 20)
        sign = LETTERS[group] if 0 <= group < len(LETTERS) else "·"
        elements.append(
            f'<text class="p{group % 6 if group >= 0 else "x"}" x="{across:.0f}" y="{down:.0f}">{sign}</text>'
        )
    description = f"{len(figure.places)} conversations; near ones want similar things"
    return _Drawing(description, high, elements)


def _ranges(figure: Ranges) -> _Drawing:
    """Returns values as dots with their intervals as lines over one axis; 0 is a dashed line."""
    room = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    low = min([0.0, *(row.low for row in figure.values)])
    high = max([0.0, *(row.high for row in figure.values)])
    wide = (high - low) or 1.0

    def place(value: float) -> float:
        return _LABEL_WIDTH + 4 + (value - low) / wide * (room - 8)

    tall = len(figure.values) * _ROW_HEIGHT + 4
    zero = place(0.0)
    elements = [f'<line class="line" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{tall}"/>']
    for row, (label, least, value, most, text) in enumerate(figure.values):
        y = row * _ROW_HEIGHT + 11
        elements += [
            f'<text x="{_LABEL_WIDTH - 8}" y="{y + 4}" text-anchor="end">{escape(one_line(label, 34))}</text>',
            f'<line class="ink" x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{y}" y2="{y}"/>',
            f'<circle class="bar" cx="{place(value):.1f}" cy="{y}" r="4"/>',
            f'<text x="{_LABEL_WIDTH + room + 6}" y="{y + 4}">{escape(text)}</text>',
        ]
    description = "; ".join(f"{row.label}: {row.text}" for row in figure.values)
    return _Drawing(description, tall, elements)


def _plot(figure: Plot) -> _Drawing:
    """Returns lines, told apart by their dashes, dots and whiskers, over two axes with the ends of their scales."""
    points = [*figure.dots, *(point for _, line in figure.lines for point in line)]
    xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
    x_low, x_high = (0.0, 1.0) if figure.unit else (min(xs), max(xs))
    y_low, y_high = (0.0, 1.0) if figure.unit or figure.shares else (min(ys), max(ys))
    x_span, y_span = (x_high - x_low) or 1.0, (y_high - y_low) or 1.0
    width, height = WIDTH - _AXIS_WIDTH - 12, _PLOT_HEIGHT - 12

    def x_of(x: float) -> float:
        return _AXIS_WIDTH + (x - x_low) / x_span * width

    def y_of(y: float) -> float:
        return 12 + (y_high - y) / y_span * height

    elements = [f'<rect class="rail" x="{_AXIS_WIDTH}" y="12" width="{width}" height="{height}"/>']
    elements += [
        f'<line class="ink" x1="{x_of(x):.1f}" x2="{x_of(x):.1f}" y1="{y_of(low):.1f}" y2="{y_of(high):.1f}"/>'
        for x, low, high in figure.whiskers
    ]
    elements += [
        f'<circle class="dot" cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3"/>' for x, y in figure.dots
    ]
    for number, (_, line) in enumerate(figure.lines):
        coordinates = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in line)
        dash = DASHES[number % len(DASHES)]
        elements.append(f'<polyline class="ink" stroke-dasharray="{dash}" points="{coordinates}"/>')
    if figure.ticks:
        elements += [
            f'<text x="{x_of(x):.1f}" y="{_PLOT_HEIGHT + 16}" text-anchor="middle">{escape(label)}</text>'
            for x, label in figure.ticks
        ]
    else:
        elements += [
            f'<text x="{_AXIS_WIDTH}" y="{_PLOT_HEIGHT + 16}">{x_low:.3g}</text>',
            f'<text x="{WIDTH - 12}" y="{_PLOT_HEIGHT + 16}" text-anchor="end">{x_high:.3g}</text>',
        ]
    middle = _AXIS_WIDTH + width / 2
    x_title_y = _PLOT_HEIGHT + (32 if figure.ticks else 16)
    elements += [
        f'<text x="{middle:.0f}" y="{x_title_y}" text-anchor="middle">{escape(figure.x_title)}</text>',
        f'<text x="{_AXIS_WIDTH - 6}" y="{_PLOT_HEIGHT}" text-anchor="end">{y_low:.3g}</text>',
        f'<text x="{_AXIS_WIDTH - 6}" y="22" text-anchor="end">{y_high:.3g}</text>',
        f'<text transform="translate(14 {_PLOT_HEIGHT / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(figure.y_title)}</text>",
    ]
    for number, (label, _) in enumerate(figure.lines):
        y = x_title_y + 24 + number * 18
        dash = DASHES[number % len(DASHES)]
        elements += [
            f'<line class="ink" stroke-dasharray="{dash}" x1="{_AXIS_WIDTH}" x2="{_AXIS_WIDTH + 44}"'
            f' y1="{y - 4}" y2="{y - 4}"/>',
            f'<text x="{_AXIS_WIDTH + 52}" y="{y}">{escape(one_line(label, 80))}</text>',
        ]
    return _Drawing(figure.description, x_title_y + 10 + 18 * len(figure.lines), elements)
