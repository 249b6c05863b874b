"""A second guard after `display_safe`: no control byte reaches the terminal, whatever a widget was given.

Every widget makes untrusted text safe where it takes it in, before widths are measured. This filter sees
each line just before it goes to the terminal and catches what slipped through. Not covered: titles that the
terminal driver writes itself, and text that a person copies out.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from engine.base.text import MAX_COMBINING_MARKS, display_safe


class ControlGuard(LineFilter):
    """Rewrites segments that hold control characters."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with every control character replaced; the same list when there was none."""
        if not any(_suspect(segment.text) for segment in segments):
            return segments
        return [
            Segment(_flat(segment.text), segment.style, segment.control)
            if _suspect(segment.text)
            else segment
            for segment in segments
        ]


CONTROL_GUARD = ControlGuard()
"""The only one: Textual keeps each filtered line by the filter, and a new filter would find none of them."""


def _suspect(text: str) -> bool:
    if not text.isprintable():
        return True
    return not text.isascii() and len(text) - cell_len(text) > MAX_COMBINING_MARKS


def _flat(text: str) -> str:
    """The text made safe, in as many cells as were measured for it, so that the rest of the line does not shift."""
    return set_cell_size(display_safe(text.replace("\n", " ").replace("\t", " ")), cell_len(text))
