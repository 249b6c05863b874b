"""What a screen does with keys and clicks that come late."""

from __future__ import annotations

from typing import Any

from textual.await_complete import AwaitComplete
from textual.geometry import Offset
from textual.widget import Widget


class IgnoresLateEvents:
    """To be listed before a screen class. A second key that closes the screen does nothing, and neither does a click on
    a widget that was just removed, such as a notice; Textual ends the program at either."""

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Closes the screen with a result, if it is still in front."""
        closed: AwaitComplete
        closed = super().dismiss(result) if self.is_active else AwaitComplete()  # type: ignore[misc, attr-defined]
        return closed

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """As Textual, but nothing where the widget was removed, which is drawn until the next layout: it has no parent
        to look up."""
        found: tuple[Widget | None, Offset | None]
        found = super().get_widget_and_offset_at(x, y)  # type: ignore[misc]
        widget, _ = found
        return found if widget is None or widget.is_attached else (None, None)
