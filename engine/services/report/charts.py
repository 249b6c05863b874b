"""Charts as SVG: readable in black and white, by a screen reader, and without any script."""

from __future__ import annotations

from html import escape

from engine.services.report.document import Bars, Columns, Points
from engine.text import one_line

WIDTH = 640
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LABEL, _VALUE, _ROW = 230, 90, 22


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


def key_of(chart: Points) -> list[str]:
    """The letters of the groups, in words."""
    return [f"{LETTERS[at]} {label}" for at, label in enumerate(chart.labels[: len(LETTERS)])]


def _svg(title: str, description: str, height: float, parts: list[str]) -> str:
    inner = "".join(parts)
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{inner}</svg>"
    )
