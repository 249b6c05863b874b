"""What a screen does with a click on a widget that was just removed."""

from __future__ import annotations

from textual.geometry import Offset
from textual.widget import Widget


class IgnoresRemovedWidgets:
    """To be listed before a screen class. A widget that was just removed, such as a notice that was clicked, is drawn
    until the next layout; Textual looks up the parent of what is clicked, and a removed widget has none."""

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """As Textual, but nothing where the widget was removed."""
        found: tuple[Widget | None, Offset | None]
        found = super().get_widget_and_offset_at(x, y)  # type: ignore[misc]
        widget, _ = found
        return found if widget is None or widget.is_attached else (None, None)
