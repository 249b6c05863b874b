"""Copies text to the clipboard, and notifies how many characters were copied."""

from __future__ import annotations

from textual.app import App
from textual.widget import Widget

from engine.conversation import without_surrogates

TERMINAL_LIMIT = 74_000
"""Characters that every common terminal accepts; some silently drop a longer text."""


def copy(widget: Widget, text: str, what: str) -> None:
    """Copies a text unchanged and notifies; `what` names it in the notice, as in `message 4`."""
    app: App[object] = widget.app
    app.copy_to_clipboard(without_surrogates(text))
    size = f"{len(text):,} character{'s' if len(text) != 1 else ''}"
    message = f"Copied {what}: {size}."
    if len(text) > TERMINAL_LIMIT:
        message += f" Some terminals take no more than {TERMINAL_LIMIT:,}."
    widget.notify(message, markup=False)
