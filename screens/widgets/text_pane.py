"""A long text, drawn line by line, with search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.strip import Strip

from engine.base.errors import WorkbenchError
from screens.widgets.background import background
from screens.widgets.finding import (
    HIT_CSS,
    HIT_STYLES,
    FindingView,
    Hit,
    Hits,
    Pattern,
    find,
    hit_spans,
    paint,
)
from screens.widgets.keyed import Keyed
from screens.widgets.messages import LineBounds, break_lines, safe_text


@dataclass(frozen=True, slots=True)
class _BrokenText:
    """A display-safe text and where its lines begin and end."""

    text: str
    lines: LineBounds


class TextPane(Keyed, FindingView, can_focus=True):
    """Shows text as it is, made safe and broken into lines off the UI thread."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = set(HIT_STYLES)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", "Line down", show=False),
        Binding("up,k", "scroll_up", "Line up", show=False),
        Binding("pagedown,space", "page_down", "Page down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("home", "scroll_home", "Beginning", show=False),
        Binding("end", "scroll_end", "End", show=False),
    ]
    DEFAULT_CSS = "TextPane { overflow-x: hidden; overflow-y: scroll; }" + HIT_CSS.format(
        name="TextPane"
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = ""
        self._to_end = False  # the end is to be shown as soon as there are lines
        self._broken = _BrokenText("", break_lines("", 2))

    @property
    def text(self) -> str:
        """The text as it came, not made safe."""
        return self._text

    def show(self, text: str, *, at_end: bool = False) -> None:
        """Shows another text from its beginning, or at its end."""
        self._text, self._to_end = text, at_end
        self._break()
        self.look_again()

    def on_resize(self) -> None:
        """Breaks the lines again."""
        self._break()

    @property
    def _width(self) -> int:
        """Cells of a line; the bar beside them is part of `size`."""
        return self.scrollable_content_region.width

    def _break(self) -> None:
        """Breaks the text into lines in the background."""
        text, width = self._text, self._width
        if width > 0:

            def work() -> _BrokenText:
                """Returns the text made safe, and its lines."""
                safe = safe_text(text)
                return _BrokenText(safe, break_lines(safe, width))

            background(self, work, self._show_lines, self._show_error, group="wrap")

    def _show_lines(self, broken: _BrokenText) -> None:
        """Shows the text with its new lines."""
        self._broken = broken
        self.virtual_size = Size(self._width, len(broken.lines))
        if self._to_end:
            self._to_end = False
            self.scroll_end(animate=False)
        self.refresh()

    def _show_error(self, error: WorkbenchError) -> None:
        """Shows an error instead of the text."""
        text = safe_text(f"{error.message}\n{error.hint}")
        self._show_lines(_BrokenText(text, break_lines(text, self._width)))

    # Finding

    def search(self, pattern: Pattern) -> Callable[[], Hits]:
        """Looks through the text as it is shown."""
        text = self._text
        return lambda: find(1, lambda _: [safe_text(text)], pattern)

    def search_failed(self, error: WorkbenchError) -> None:
        """Shows what went wrong instead of the text."""
        self._show_error(error)

    def place(self) -> Hit:
        """Returns the beginning of the first line in sight."""
        return Hit(0, 0, self._line_start(round(self.scroll_offset.y)), 0)

    def show_hit(self) -> None:
        """Brings the current hit into sight."""
        if self.hit is not None:
            start = self.hits.places[self.hit].start
            self.reveal(self._broken.lines.at(start))

    def _line_start(self, line: int) -> int:
        """Returns the first character of a line; 0 below the last line."""
        lines = self._broken.lines
        return lines.starts[line] if line < len(lines) else 0

    # Drawing

    def _look_of(self, name: str) -> Style:
        """Returns the style of a component class."""
        return self.get_component_rich_style(name, partial=True)

    def render_line(self, y: int) -> Strip:
        """Returns one line of the text."""
        number = y + round(self.scroll_offset.y)
        width, base = self._width, self.rich_style
        if number >= len(self._broken.lines):
            return Strip([Segment("", base)]).crop_extend(0, width, base)
        lines = self._broken.lines
        start, end = lines.starts[number], lines.ends[number]
        hits = hit_spans(self.hits.within(0, 0, start, end), self.hit, start, end)
        segments = paint(self._broken.text[start:end], base, [hits], self._look_of)
        return Strip(segments).crop_extend(0, width, base)
