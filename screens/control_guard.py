"""The net under `display_safe`: no control byte leaves the app, whatever a widget was given.

Every widget makes untrusted text safe where it takes it in, before widths are measured. This filter sees
each line just before it goes to the terminal and catches what slipped through. Not covered: titles that the
terminal driver writes itself, and text that a person copies out.
"""

from __future__ import annotations

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from engine.text import display_safe

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class ControlGuard(LineFilter):
    """Rewrites segments that hold control characters."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with every control character replaced; the same list when there was none."""
        if not any(_CONTROL.search(segment.text) for segment in segments):
            return segments
        return [
            Segment(_flat(segment.text), segment.style, segment.control) for segment in segments
        ]


def _flat(text: str) -> str:
    return display_safe(text.replace("\n", " ").replace("\t", " "))
