"""A long text, drawn line by line, in which one can find."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.errors import WorkbenchError
from screens.background import background
from screens.keyed import Keyed
from screens.widgets.finding import Hits, Pattern, find
from screens.widgets.painting import HIT_CSS, HIT_STYLES, hit_spans, paint
from screens.widgets.wrap import safe_text, spans


@dataclass(frozen=True, slots=True)
class _Broken:
    """A display-safe text and where its lines begin and end."""

    text: str
    lines: list[tuple[int, int]]


class TextPane(Keyed, ScrollView, can_focus=True):
    """Shows text as it is, made safe and broken into lines off the UI thread."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = set(HIT_STYLES)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Line down", show=False),
        Binding("k", "scroll_up", "Line up", show=False),
        Binding("space", "page_down", "Page down", show=False),
    ]
    DEFAULT_CSS = "TextPane { overflow-x: hidden; overflow-y: scroll; }" + HIT_CSS.format(
        name="TextPane"
    )

    class Found(Message):
        """What is looked for was found, or the cursor went to another hit; `words` is the count to show."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = ""
        self._broken = _Broken("", [])
        self._pattern: Pattern | None = None
        self._hits = Hits()
        self._hit: int | None = None

    @property
    def text(self) -> str:
        """The text as it came, not made safe."""
        return self._text

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

            def work() -> _Broken:
                safe = safe_text(text)
                return _Broken(safe, spans(safe, width))

            background(self, work, self._show_lines, self._show_error, group="wrap")

    def _show_lines(self, broken: _Broken) -> None:
        self._broken = broken
        self.virtual_size = Size(self.size.width, len(broken.lines))
        self.refresh()

    def _show_error(self, error: WorkbenchError) -> None:
        text = safe_text(f"{error.message}\n{error.hint}")
        self._show_lines(_Broken(text, spans(text, self.size.width)))

    # Finding

    def look_for(self, pattern: Pattern | None) -> None:
        """Highlights what a pattern finds and goes to the first hit from here; None highlights nothing."""
        self._pattern = pattern
        if pattern is None:
            self._found(Hits())
            return
        text = self._text

        def arrived(hits: Hits) -> None:
            if pattern is self._pattern and text is self._text:
                self._found(hits)

        background(
            self,
            lambda: find(1, lambda _: [safe_text(text)], pattern),
            arrived,
            self._show_error,
            group="find",
        )

    def _found(self, hits: Hits) -> None:
        self._hits, self._hit = hits, None
        if hits.places:
            top = self._line_start(round(self.scroll_offset.y))
            after = (at for at, hit in enumerate(hits.places) if hit.start >= top)
            self._hit = next(after, 0)
        self._tell()

    def go_to_hit(self, delta: int) -> None:
        """Goes to the next (1) or the previous (-1) hit, from the last one to the first."""
        if self._hit is not None:
            self._hit = (self._hit + delta) % len(self._hits.places)
            self._tell()

    def _tell(self) -> None:
        if self._hit is not None:
            start = self._hits.places[self._hit].start
            line = bisect_right(self._broken.lines, start, key=lambda line: line[0]) - 1
            top = round(self.scroll_offset.y)
            if not top <= line < top + self.size.height:
                self.scroll_to(y=max(0, line - self.size.height // 3), animate=False)
        self.refresh()
        words = "" if self._pattern is None else self._hits.words(self._hit)
        self.post_message(self.Found(words))

    def _line_start(self, line: int) -> int:
        return self._broken.lines[line][0] if line < len(self._broken.lines) else 0

    # Drawing

    def _look_of(self, name: str) -> Style:
        return self.get_component_rich_style(name, partial=True)

    def render_line(self, y: int) -> Strip:
        """One line of the text."""
        number = y + round(self.scroll_offset.y)
        width, base = self.size.width, self.rich_style
        if number >= len(self._broken.lines):
            return Strip([Segment("", base)]).crop_extend(0, width, base)
        start, end = self._broken.lines[number]
        hits = hit_spans(self._hits.within(0, 0, start, end), self._hit, start, end)
        segments = paint(self._broken.text[start:end], base, [hits], self._look_of)
        return Strip(segments).crop_extend(0, width, base)
