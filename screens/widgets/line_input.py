"""A line that a person types."""

from __future__ import annotations

import time
from typing import Any

from textual.widgets import Input

MOST_TYPED = 2_000
"""Characters that a line takes. A line of ten thousand combining marks took twenty seconds to draw, since rich cuts a
text at a cell in a time that grows with the square of its length; two thousand take a seventh of a second at worst."""

SAID_SECONDS = 5.0
"""Least time between two notices that a line takes no more."""


class LineInput(Input):
    """Textual's input for at most `MOST_TYPED` characters; what would be more is not taken, and a notice says so."""

    def __init__(self, value: str | None = None, **options: Any) -> None:
        """Takes the options of `textual.widgets.Input`."""
        super().__init__(value, max_length=MOST_TYPED, **options)
        self._said_at = -SAID_SECONDS

    def replace(self, text: str, start: int, end: int) -> None:
        """As Textual; a longer value that was there before can be shortened."""
        self.max_length = max(MOST_TYPED, len(self.value))
        super().replace(text, start, end)

    def restricted(self) -> None:
        """Says why what was typed or pasted was not taken, once for a key that is held."""
        now = time.monotonic()
        if now - self._said_at > SAID_SECONDS:
            self._said_at = now
            self.notify(
                f"A line takes at most {MOST_TYPED:,} characters; this was not added.",
                severity="warning",
                markup=False,
            )
