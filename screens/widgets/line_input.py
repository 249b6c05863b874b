"""A line that a person types."""

from __future__ import annotations

from typing import Any

from textual.widgets import Input

MOST_TYPED = 2_000
"""Characters that a line takes. A line of ten thousand combining marks took twenty seconds to draw, since rich cuts a
text at a cell in a time that grows with the square of its length; two thousand take a seventh of a second at worst."""


class LineInput(Input):
    """Textual's input for at most `MOST_TYPED` characters; what would be more is not taken, and a notice says so."""

    def __init__(self, value: str | None = None, **options: Any) -> None:
        """Takes the options of `textual.widgets.Input`."""
        super().__init__(value, max_length=MOST_TYPED, **options)

    def restricted(self) -> None:
        """Says why what was typed or pasted was not taken."""
        self.notify(
            f"A line takes at most {MOST_TYPED:,} characters; this was not added.",
            severity="warning",
            markup=False,
        )
