"""Turns one line of text with styles and hits into segments, for widgets that draw their own lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from rich.segment import Segment
from rich.style import Style

from screens.widgets.text.finding import Hit
from screens.widgets.text.styles import Span

STYLE_CSS = """
{name} .text--heading {{ color: $tone-accent; text-style: bold; }}
{name} .text--strong {{ text-style: bold; }}
{name} .text--emphasis {{ text-style: italic; }}
{name} .text--code {{ color: $tone-call; }}
{name} .text--quote {{ color: $tone-muted; text-style: italic; }}
{name} .text--mark {{ color: $tone-muted; }}
{name} .code--key {{ color: $tone-accent; }}
{name} .code--string {{ color: $tone-call; }}
{name} .code--number {{ color: $tone-assistant; }}
{name} .code--keyword {{ color: $tone-assistant; text-style: bold; }}
{name} .code--comment {{ color: $tone-muted; text-style: italic; }}
"""
"""Looks of `text_styles.STYLES`, in a widget's `DEFAULT_CSS`: none is the hue of a state."""

HIT, HIT_NOW = "tone--found", "text--found-now"
HIT_STYLES = frozenset({HIT, HIT_NOW})
HIT_CSS = "{name} .text--found-now {{ color: $tone-borderline; text-style: bold reverse; }}"
"""Look of the hit where the cursor is, in a widget's `DEFAULT_CSS`; the others have theirs in `common.tcss`."""


def hit_spans(
    hits: Sequence[tuple[int, Hit]], current: int | None, start: int, end: int
) -> list[Span]:
    """The hits within a line that begins and ends at these characters, counted from its beginning."""
    return [
        (
            max(hit.start, start) - start,
            min(hit.end, end) - start,
            HIT_NOW if number == current else HIT,
        )
        for number, hit in hits
    ]


def paint(
    text: str,
    style: Style,
    layers: Sequence[Sequence[Span]],
    look: Callable[[str], Style],
) -> list[Segment]:
    """The text as segments; later layers are laid over earlier ones. `look` gives the style of a class."""
    edges = {0, len(text)}
    for layer in layers:
        for start, end, _ in layer:
            edges |= {start, end}
    if len(edges) <= 2 and not any(layers):
        return [Segment(text, style)]
    cuts = sorted(edge for edge in edges if 0 <= edge <= len(text))
    segments = []
    for start, end in pairwise(cuts):
        over = style
        for layer in layers:
            for a, b, name in layer:
                if a <= start and end <= b:
                    over = over + look(name)
        segments.append(Segment(text[start:end], over))
    return segments
