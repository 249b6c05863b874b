"""Jump mode: a letter on everything that can be focused; the letter goes there."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from screens.shell.dialogs.basic import Dialog

LETTERS = "asdfjklghqwertyuiopzxcvbnm"


def targets(screen: Screen[Any]) -> list[Widget]:
    """The visible widgets that can be focused, from top to bottom, at most as many as there are letters."""
    seen = screen.region
    found = [widget for widget in screen.focus_chain if seen.overlaps(widget.region)]
    found.sort(key=lambda widget: (widget.region.y, widget.region.x))
    return found[: len(LETTERS)]


class JumpScreen(Dialog[Widget | None]):
    """Shown over a screen; answers with the chosen widget, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,semicolon", "dismiss(None)", "Stay here")
    ]
    DEFAULT_CSS = """
    JumpScreen .letter {
        position: absolute;
        width: 3;
        height: 1;
        color: $tone-tab;
        background: $tone-tab-back;
        text-style: bold;
    }
    """

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self._targets = dict(zip(LETTERS, targets(screen), strict=False))

    def compose(self) -> ComposeResult:
        """A letter at the upper left corner of each target."""
        for letter, widget in self._targets.items():
            label = Static(Content(f" {letter} "), classes="letter")
            label.styles.offset = (max(0, widget.region.x), max(0, widget.region.y))
            yield label

    def on_key(self, event: events.Key) -> None:
        """A letter goes there; any other key leaves everything as it is."""
        event.stop()
        if self.is_current:
            self.dismiss(self._targets.get(event.character or ""))
