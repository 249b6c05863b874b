"""The keys of the screen in its last line: as many as there is room for, and always the last one, which is help."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

Shown = tuple[Binding, bool, str]


class KeyFooter(Footer):
    """Textual's footer in its compact form, composed anew only when another key is to be shown or one is disabled:
    Textual tells it of every change of the focus. It cuts no key in two; help lists those that do not fit."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._shown: list[Shown] | None = None
        self._width = 0

    def compose(self) -> ComposeResult:
        """Each key with its class: Textual adds it once the key has its styles, which are then computed again."""
        keys = [widget for widget in super().compose() if isinstance(widget, FooterKey)]
        widths = [cell_len(key.key_display) + cell_len(key.description) + 2 for key in keys]
        for at in fitting(widths, self.screen.size.width + 1):
            keys[at].add_class("-compact", update=False)
            yield keys[at]

    def on_resize(self, event: events.Resize) -> None:
        """Composes the keys again: another width has room for others."""
        if self._width not in (0, event.size.width):
            self.call_after_refresh(self.recompose)
        self._width = event.size.width

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


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """Indices of the first items that fit into `room` together with the last one, and the last one."""
    if not widths:
        return []
    kept: list[int] = []
    left = room - widths[-1]
    for at, width in enumerate(widths[:-1]):
        if width > left:
            break
        left -= width
        kept.append(at)
    return [*kept, len(widths) - 1]
