"""The keys of the screen in its last line."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

Shown = tuple[Binding, bool, str]


class KeyFooter(Footer):
    """Textual's footer in its compact form, composed anew only when another key is to be shown or one is disabled:
    Textual tells it of every change of the focus."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._shown: list[Shown] | None = None

    def compose(self) -> ComposeResult:
        """Each key with its class: Textual adds it once the key has its styles, which are then computed again."""
        for widget in super().compose():
            if isinstance(widget, FooterKey):
                widget.add_class("-compact", update=False)
            yield widget

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Composes the keys again if they changed."""
        if not screen.app.app_focus or not self.is_attached or screen is not self.screen:
            super().bindings_changed(screen)
            return
        shown = [
            (active.binding, active.enabled, active.tooltip)
            for active in screen.active_bindings.values()
            if active.binding.show
        ]
        if shown != self._shown:
            self._shown = shown
            super().bindings_changed(screen)
