"""Plots of the reproduction: Figures 6, 12 and 13 of Soroka et al. as SVG files beside the report.

All lengths are in the units of the view box, which is `WIDTH` wide; y grows downwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from engine.base.number_format import counted
from engine.base.text import one_line
from engine.trees.records import TreeItem

MAX_DOTS = 2_000
"""Most dots of a picture; of more trees, one in as many as needed is drawn."""

WIDTH = 640
"""Width of every drawing, in the units of its view box."""

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

_INNER_WIDTH, _INNER_HEIGHT = WIDTH - _AXIS_WIDTH - _PLOT_MARGIN, _PLOT_HEIGHT - _PLOT_MARGIN
"""Size of the frame in which a plot is drawn."""

DASHES = ("none", "7 4", "2 3", "9 3 2 3", "1 5", "14 5")
"""Dashes of the lines of a plot, in their order; they tell lines apart in black and white."""

_STYLE = (
    "svg { background: #fff; } text { font: 12px sans-serif; } .rail { fill: none; stroke: #d4d8de; }"
    " .ink { fill: none; stroke: #1b1d22; } .dot { fill: none; stroke: #3b5b8c; }"
)
"""The style sheet of every plot."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines and dots over two axes.

    Attributes:
        file: Name of the file.
        x_title, y_title: What the axes are.
        description: What is to be seen, in words.
        lines: The points of each line by its label.
        dots: Places of dots.
    """

    file: str
    title: str
    x_title: str
    y_title: str
    description: str
    lines: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = ()
    dots: tuple[tuple[float, float], ...] = ()


def leaves_against_log_prob(with_leaf: Sequence[TreeItem], data_set: str) -> Plot:
    """Returns Figure 12 of the trees of a data set that have a best leaf."""
    return _dots(
        f"figure-12-{data_set}.svg",
        "Leaves against the log-probability of the best leaf (Figure 12 of Soroka et al.)",
        data_set,
        x_title="log-probability of the best leaf",
        y_title="leaves",
        hint="unsure ones are at the upper left",
        points=[(item.row.max_log_prob or 0.0, float(item.row.leaves)) for item in with_leaf],
    )


def against_length(
    with_leaf: Sequence[TreeItem], lengths: Mapping[int, float], data_set: str
) -> Iterator[Plot]:
    """Yields Figure 13: both figures of trees that have a best leaf against the length of their conversation.

    Args:
        lengths: Characters of conversations by id.
        data_set: Name of the data set.
    """
    chars = [float(lengths[item.row.conversation_id]) for item in with_leaf]
    for part, (figure_name, values) in enumerate(
        (
            ("leaves", [float(item.row.leaves) for item in with_leaf]),
            (
                "log-probability of the best leaf",
                [item.row.max_log_prob or 0.0 for item in with_leaf],
            ),
        )
    ):
        capitalized = f"{figure_name[:1].upper()}{figure_name[1:]}"
        yield _dots(
            f"figure-13{'ab'[part]}-{data_set}.svg",
            f"{capitalized} against the length of the conversation (Figure 13 of Soroka et al.)",
            data_set,
            x_title="characters",
            y_title=figure_name,
            hint="Table 3 has the correlation",
            points=list(zip(chars, values, strict=True)),
        )


def _dots(
    file: str,
    title: str,
    data_set: str,
    *,
    x_title: str,
    y_title: str,
    hint: str,
    points: Sequence[tuple[float, float]],
) -> Plot:
    """Returns a picture of trees as dots.

    Args:
        file: Name of the file.
        data_set: Name of the data set.
        x_title, y_title: Titles of the horizontal and the vertical axis.
        hint: How the picture is to be read, a few words.
        points: Both figures of each tree.
    """
    interval = max(1, math.ceil(len(points) / MAX_DOTS))
    dots = tuple(points[::interval])
    description = f"{counted(len(dots), 'tree')}" + (f", one in {interval}" if interval > 1 else "")
    return Plot(
        file,
        f"{data_set}: {title}",
        x_title,
        y_title,
        f"{description}; {hint}.",
        dots=dots,
    )


class _Axes(NamedTuple):
    """The scales of a plot: the values at the ends of both axes."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @classmethod
    def of(cls, figure: Plot) -> _Axes:
        """Returns the axes over what is drawn."""
        points = [*figure.dots, *(point for _, line in figure.lines for point in line)]
        xs, ys = [x for x, _ in points] or [0.0], [y for _, y in points] or [0.0]
        return cls(min(xs), max(xs), min(ys), max(ys))

    def x_of(self, x: float) -> float:
        """Returns where a value lies from left to right."""
        span = (self.x_high - self.x_low) or 1.0
        return _AXIS_WIDTH + (x - self.x_low) / span * _INNER_WIDTH

    def y_of(self, y: float) -> float:
        """Returns where a value lies from the top down."""
        span = (self.y_high - self.y_low) or 1.0
        return _PLOT_MARGIN + (self.y_high - y) / span * _INNER_HEIGHT


def to_svg(figure: Plot) -> str:
    """Returns lines, told apart by their dashes, and dots, over two axes with the ends of their scales, as the text of
    a file."""
    axes = _Axes.of(figure)
    elements = [
        *_plot_marks(figure, axes),
        *_plot_scales(figure, axes),
        *_plot_key(figure, _X_TITLE_Y + 24),
    ]
    height = _X_TITLE_Y + 10 + _KEY_LINE_HEIGHT * len(figure.lines)
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg"><style>{_STYLE}</style>'
        f"<title>{escape(figure.title)}</title><desc>{escape(figure.description)}</desc>{''.join(elements)}</svg>\n"
    )


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
