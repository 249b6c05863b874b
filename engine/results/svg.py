"""Charts as SVG: readable in black and white, by a screen reader, and without any script."""

from __future__ import annotations

from html import escape

from engine.base.text import one_line
from engine.results.document import Bars, Columns, Plot, Points, Ranges

WIDTH = 640
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LABEL, _VALUE, _ROW = 230, 106, 22
_HIGH = 300
_MARGIN = 52
DASHES = ("none", "7 4", "2 3", "9 3 2 3", "1 5", "14 5")
"""Of the lines of a plot, in their order; they tell lines apart in black and white."""


def bars(chart: Bars) -> str:
    """Horizontal bars, a row each, with the value as text beside them."""
    room = WIDTH - _LABEL - _VALUE
    parts = []
    for at, (label, value, text) in enumerate(chart.values):
        y = at * _ROW
        kind = "mark" if label == chart.marked else "bar"
        length = max(0.0, min(1.0, value)) * room
        parts += [
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(one_line(label, 34))}</text>',
            f'<rect class="rail" x="{_LABEL}" y="{y + 4}" width="{room}" height="14"/>',
            f'<rect class="{kind}" x="{_LABEL}" y="{y + 4}" width="{length:.1f}" height="14"/>',
            f'<text x="{_LABEL + room + 6}" y="{y + 15}">{escape(text)}</text>',
        ]
    said = "; ".join(f"{label}: {text}" for label, _, text in chart.values)
    return _svg(chart.title, said, len(chart.values) * _ROW + 4, parts)


def columns(chart: Columns) -> str:
    """Vertical columns with their counts above them and a dashed line where one is asked for."""
    high, most = 150, max((count for _, count in chart.values), default=0) or 1
    step = WIDTH / max(1, len(chart.values))
    every = max(1, -(-len(chart.values) // 14))
    parts = []
    for at, (label, count) in enumerate(chart.values):
        tall = high * count / most
        x = at * step
        parts.append(
            f'<rect class="bar" x="{x + 2:.1f}" y="{20 + high - tall:.1f}" width="{step - 4:.1f}" height="{tall:.1f}"/>'
        )
        if count and step > 26:
            parts.append(
                f'<text x="{x + step / 2:.1f}" y="{15 + high - tall:.1f}" text-anchor="middle">{count:,}</text>'
            )
        if at % every == 0:
            name = escape(one_line(label, 12))
            parts.append(
                f'<text x="{x + step / 2:.1f}" y="{high + 38}" text-anchor="middle">{name}</text>'
            )
    if chart.line is not None:
        place, words = chart.line
        x = place * WIDTH
        anchor = "end" if place > 0.6 else "start"
        parts += [
            f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{20 + high}"/>',
            f'<text x="{x + (-5 if anchor == "end" else 5):.1f}" y="14" text-anchor="{anchor}">{escape(words)}</text>',
        ]
    said = "; ".join(f"{label}: {count}" for label, count in chart.values)
    return _svg(chart.title, said, high + 46, parts)


def points(chart: Points) -> str:
    """Points as the letters of their groups; a dot for none. The key follows as text."""
    high = 420
    xs = [x for x, _, _ in chart.places] or [0.0]
    ys = [y for _, y, _ in chart.places] or [0.0]
    wide, tall = (max(xs) - min(xs)) or 1.0, (max(ys) - min(ys)) or 1.0
    parts = []
    for x, y, group in chart.places:
        across = 10 + (x - min(xs)) / wide * (WIDTH - 20)
        down = 12 + (max(ys) - y) / tall * (high - 20)
        sign = LETTERS[group] if 0 <= group < len(LETTERS) else "·"
        parts.append(
            f'<text class="p{group % 6 if group >= 0 else "x"}" x="{across:.0f}" y="{down:.0f}">{sign}</text>'
        )
    said = f"{len(chart.places)} conversations; near ones want similar things"
    return _svg(chart.title, said, high, parts)


def ranges(chart: Ranges) -> str:
    """Values as dots with their intervals as lines over one axis; 0 is a dashed line."""
    room = WIDTH - _LABEL - _VALUE
    low = min((one[1] for one in chart.values), default=0.0)
    high = max((one[3] for one in chart.values), default=0.0)
    low, high = min(low, 0.0), max(high, 0.0)
    wide = (high - low) or 1.0

    def place(value: float) -> float:
        return _LABEL + 4 + (value - low) / wide * (room - 8)

    tall = len(chart.values) * _ROW + 4
    zero = place(0.0)
    parts = [f'<line class="line" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{tall}"/>']
    for at, (label, least, value, most, text) in enumerate(chart.values):
        y = at * _ROW + 11
        parts += [
            f'<text x="{_LABEL - 8}" y="{y + 4}" text-anchor="end">{escape(one_line(label, 34))}</text>',
            f'<line class="ink" x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{y}" y2="{y}"/>',
            f'<circle class="bar" cx="{place(value):.1f}" cy="{y}" r="4"/>',
            f'<text x="{_LABEL + room + 6}" y="{y + 4}">{escape(text)}</text>',
        ]
    said = "; ".join(f"{one[0]}: {one[4]}" for one in chart.values)
    return _svg(chart.title, said, tall, parts)


def plot(chart: Plot) -> str:
    """Lines, told apart by their dashes, and dots, over two axes with the ends of their scales."""
    every = [*chart.dots, *(point for _, line in chart.lines for point in line)]
    xs, ys = [x for x, _ in every] or [0.0], [y for _, y in every] or [0.0]
    ends = (0.0, 1.0, 0.0, 1.0) if chart.unit else (min(xs), max(xs), min(ys), max(ys))
    left, right, bottom, top = ends
    wide, tall = (right - left) or 1.0, (top - bottom) or 1.0
    room, rise = WIDTH - _MARGIN - 12, _HIGH - 12

    def at(x: float, y: float) -> tuple[float, float]:
        return _MARGIN + (x - left) / wide * room, 12 + (top - y) / tall * rise

    parts = [f'<rect class="rail" x="{_MARGIN}" y="12" width="{room}" height="{rise}"/>']
    for x, y in chart.dots:
        across, down = at(x, y)
        parts.append(f'<circle class="dot" cx="{across:.1f}" cy="{down:.1f}" r="3"/>')
    for number, (_, line) in enumerate(chart.lines):
        places = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in line)
        dash = DASHES[number % len(DASHES)]
        parts.append(f'<polyline class="ink" stroke-dasharray="{dash}" points="{places}"/>')
    middle = _MARGIN + room / 2
    parts += [
        f'<text x="{_MARGIN}" y="{_HIGH + 16}">{left:.3g}</text>',
        f'<text x="{WIDTH - 12}" y="{_HIGH + 16}" text-anchor="end">{right:.3g}</text>',
        f'<text x="{middle:.0f}" y="{_HIGH + 16}" text-anchor="middle">{escape(chart.across)}</text>',
        f'<text x="{_MARGIN - 6}" y="{_HIGH}" text-anchor="end">{bottom:.3g}</text>',
        f'<text x="{_MARGIN - 6}" y="22" text-anchor="end">{top:.3g}</text>',
        f'<text transform="translate(14 {_HIGH / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(chart.up)}</text>',
    ]
    for number, (label, _) in enumerate(chart.lines):
        y = _HIGH + 40 + number * 18
        dash = DASHES[number % len(DASHES)]
        parts += [
            f'<line class="ink" stroke-dasharray="{dash}" x1="{_MARGIN}" x2="{_MARGIN + 44}"'
            f' y1="{y - 4}" y2="{y - 4}"/>',
            f'<text x="{_MARGIN + 52}" y="{y}">{escape(one_line(label, 80))}</text>',
        ]
    return _svg(chart.title, chart.says, _HIGH + 26 + 18 * len(chart.lines), parts)


def key_of(chart: Points) -> list[str]:
    """The letters of the groups, in words."""
    return [f"{LETTERS[at]} {label}" for at, label in enumerate(chart.labels[: len(LETTERS)])]


def _svg(title: str, description: str, height: float, parts: list[str]) -> str:
    inner = "".join(parts)
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{inner}</svg>"
    )
