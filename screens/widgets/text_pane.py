"""A long text, drawn line by line."""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.errors import WorkbenchError
from screens.background import background
from screens.keyed import Keyed
from screens.widgets.wrap import safe_lines


class TextPane(Keyed, ScrollView, can_focus=True):
    """Shows text as it is, made safe and broken into lines off the UI thread."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "TextPane { overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = ""
        self._lines: list[str] = []

    def show(self, text: str) -> None:
        """Shows another text from its beginning."""
        self._text = text
        self._break()

    def on_resize(self) -> None:
        """Breaks the lines again."""
        self._break()

    def _break(self) -> None:
        text, width = self._text, self.size.width
        if width > 0:
            background(
                self,
                lambda: safe_lines(text, width),
                self._show_lines,
                self._show_error,
                group="wrap",
            )

    def _show_lines(self, lines: list[str]) -> None:
        self._lines = lines
        self.virtual_size = Size(self.size.width, len(lines))
        self.refresh()

    def _show_error(self, error: WorkbenchError) -> None:
        self._show_lines([error.message, error.hint])

    def render_line(self, y: int) -> Strip:
        """One line of the text."""
        number = y + round(self.scroll_offset.y)
        text = self._lines[number] if number < len(self._lines) else ""
        return Strip([Segment(text, self.rich_style)]).crop_extend(
            0, self.size.width, self.rich_style
        )
