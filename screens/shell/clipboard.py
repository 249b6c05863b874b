"""Copies text to the clipboard, and notifies what was copied."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import App
from textual.widget import Widget

from engine.base import number_format
from engine.base.text import one_line

TERMINAL_LIMIT = 74_000
"""Characters that every common terminal accepts; some silently drop a longer text."""


def copy(widget: Widget, text: str, what: str) -> None:
    """Copies a text unchanged and notifies; `what` names it in the notice, as in `message 4`."""
    app: App[object] = widget.app
    app.copy_to_clipboard(text)
    size = number_format.counted(len(text), "character")
    message = f"Copied {what}: {size}."
    if len(text) > TERMINAL_LIMIT:
        message += f" Some terminals take no more than {TERMINAL_LIMIT:,}."
    widget.notify(message, markup=False)


def copy_names(widget: Widget, names: Sequence[str]) -> None:
    """Copies the names of conversations, a line each, and notifies."""
    app: App[object] = widget.app
    app.copy_to_clipboard("\n".join(names))
    what = one_line(names[0], 60) if len(names) == 1 else f"{len(names):,} names"
    widget.notify(f"Copied {what}.", markup=False)
