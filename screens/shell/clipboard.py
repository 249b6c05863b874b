"""Copies text to the clipboard, and says how much."""

from __future__ import annotations

from textual.app import App
from textual.widget import Widget

from engine.conversation import without_surrogates

TERMINAL_LIMIT = 74_000
"""Characters that every common terminal accepts; some silently drop a longer text."""


def copy(widget: Widget, text: str, what: str) -> None:
    """Copies a text as it is, and says so; `what` names it, as in `message 4`."""
    app: App[object] = widget.app
    app.copy_to_clipboard(without_surrogates(text))
    size = f"{len(text):,} character{'s' if len(text) != 1 else ''}"
    said = f"Copied {what}: {size}."
    if len(text) > TERMINAL_LIMIT:
        said += f" Some terminals take no more than {TERMINAL_LIMIT:,}."
    widget.notify(said, markup=False)
