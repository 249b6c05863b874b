"""Search in a text that a view draws: the hits, the line to type in, the views that go from hit to hit, colors.

A view shows items, such as the messages of a conversation; an item has parts, and a part is a text. A hit is a stretch
of such a text that a pattern matches.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Input, Static

from engine.base.errors import WorkbenchError
from engine.base.text import CJK
from screens.widgets.background import DelayedCall, background
from screens.widgets.controls import LineInput
from screens.widgets.keyed import Keyed
from screens.widgets.messages import LineBounds, Span, break_lines, safe_text

TYPING_REST_SECONDS = 0.12
"""Seconds without a key before what is typed is looked for."""
MAX_HITS = 10_000
"""Most hits that are counted; beyond it the count says `10,000+`."""
Pattern = re.Pattern[str]
"""What is looked for."""
STYLE_CSS = """
{name} .text--heading {{ color: $tone-accent; text-style: bold; }}
{name} .text--strong {{ text-style: bold; }}
{name} .text--emphasis {{ text-style: italic; }}
{name} .text--code {{ color: $tone-call; }}
{name} .text--quote {{ color: $tone-muted; text-style: italic; }}
{name} .text--mark {{ color: $tone-muted; }}
{name} .code--key {{ color: $tone-accent; }}
{name} .code--string {{ color: $tone-call; }}
{name} .code--number {{ color: $tone-assistant; }}
{name} .code--keyword {{ color: $tone-assistant; text-style: bold; }}
{name} .code--comment {{ color: $tone-muted; text-style: italic; }}
"""
"""Looks of the component classes `messages.STYLES`, for the `DEFAULT_CSS` of a widget; none of them is the hue of a
state."""
HIT, HIT_NOW = "tone--found", "text--found-now"
"""Component classes of a hit, and of the hit where the cursor is."""
HIT_STYLES = frozenset({HIT, HIT_NOW})
"""Component classes of a widget that draws hits."""
HIT_CSS = "{name} .text--found-now {{ color: $tone-borderline; text-style: bold reverse; }}"
"""Look of the hit where the cursor is, in a widget's `DEFAULT_CSS`; the others have theirs in `common.tcss`."""


@dataclass(frozen=True, slots=True, order=True)
class Hit:
    """A place: the index of an item, the index of one of its parts, and characters `start` to `end` of its text."""

    item: int
    part: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hits:
    """All hits of a search.

    Attributes:
        places: The hits in order; the number of a hit is its index here.
        more: Whether there may be more, because counting stopped at `MAX_HITS`.
        items: Indices of the items that have hits.
    """

    places: Sequence[Hit] = ()
    more: bool = False
    items: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", frozenset(hit.item for hit in self.places))

    def within(self, item: int, part: int, start: int, end: int) -> list[tuple[int, Hit]]:
        """Returns the hits that touch the characters from `start` to `end` of a part, each with its number."""
        if item not in self.items:
            return []
        index = bisect_left(self.places, Hit(item, part, start, start))
        if index:
            index -= 1  # the one before may reach into them; hits of a part do not overlap
        hits = []
        while index < len(self.places) and self.places[index] < Hit(item, part, end, 0):
            hit = self.places[index]
            if (hit.item, hit.part) == (item, part) and hit.end > start:
                hits.append((index, hit))
            index += 1
        return hits

    def first_from(self, place: Hit) -> int:
        """Returns the number of the first hit at or after a place; where there is none, that of the very first."""
        index = bisect_left(self.places, place)
        return index if index < len(self.places) else 0

    def step(self, current: int | None, delta: int, place: Hit) -> int:
        """Returns the number of the hit after (1) or before (-1) the current one; the first hit follows the last.

        There must be a hit.

        Args:
            current: Number of the current hit; None where there is none.
            place: Where to begin without a current hit.
        """
        if current is None:
            # Forward it is the first from the place itself, backward the one before that.
            return (self.first_from(place) + min(delta, 0)) % len(self.places)
        return (current + delta) % len(self.places)

    def count_text(self, current: int | None) -> str:
        """Returns the count in words, such as `3 of 17`, `17 hits` or `nothing found`."""
        count = f"{len(self.places):,}{'+' if self.more else ''}"
        if not self.places:
            return "nothing found"
        if current is not None:
            return f"{current + 1:,} of {count}"
        return f"{count} hit{'s' if len(self.places) != 1 else ''}"


def plain_pattern(text: str) -> Pattern | None:
    """Returns a pattern of a text in any case, where a space is any white space; None for an empty text."""
    return _pattern([text], "")


def words_pattern(words: Sequence[str]) -> Pattern | None:
    """Returns a pattern of words or phrases that matches where the filter finds them; None without any.

    It matches at the beginning of a word. Each sign of a script without spaces is a word. What begins with a sign that
    is no part of a word is found anywhere.
    """
    # Either a sign follows, of a script without spaces or one that is no part of a word; or no letter or digit of a
    # script with spaces stands before: `end` is found in `the end` and not in `weekend`.
    return _pattern(words, rf"(?:(?=[{CJK}]|\W)|(?<![^\W{CJK}]))")


def _pattern(texts: Sequence[str], before: str) -> Pattern | None:
    """Returns a pattern of any of the texts, where the regular expression `before` matches; None without a text."""
    patterns = [r"\s+".join(map(re.escape, text.split())) for text in texts if text.strip()]
    if not patterns:
        return None
    # The longest first, so that of two that begin alike the longer one is marked.
    patterns.sort(key=len, reverse=True)
    return re.compile(before + f"(?:{'|'.join(patterns)})", re.IGNORECASE)


def find(count: int, texts: Callable[[int], Sequence[str]], pattern: Pattern) -> Hits:
    """Returns the hits of a pattern in `count` items; `texts` returns the texts of the parts of an item."""
    places: list[Hit] = []
    for item in range(count):
        for part, text in enumerate(texts(item)):
            for match in pattern.finditer(text):
                if len(places) == MAX_HITS:
                    return Hits(places, more=True)
                places.append(Hit(item, part, match.start(), match.end()))
    return Hits(places)


class FindLine(Keyed, Horizontal):
    """Takes what is to be found in a view, and shows how many hits there are; hidden until it is opened.

    Enter goes to the view, escape ends the search.
    """

    DEFAULT_CSS = """
    FindLine { height: 1; display: none; background: $tone-header; }
    FindLine.-open { display: block; }
    FindLine #find-mark { width: 3; padding: 0 1; color: $tone-accent; text-style: bold; }
    FindLine Input, FindLine Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: $tone-header; }
    FindLine #find-count { width: auto; min-width: 14; padding: 0 1; color: $tone-muted; text-align: right; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", "Give up", show=False),
        Binding("down", "step(1)", "Next hit", show=False),
        Binding("up", "step(-1)", "Previous hit", show=False),
    ]

    def __init__(self, view: FindingView) -> None:
        super().__init__()
        self._view = view
        view.show_count = self._show_count
        self._search_later = DelayedCall(self, TYPING_REST_SECONDS, self._search)
        self._text = ""  # the text that was searched for last

    def compose(self) -> ComposeResult:
        """Yields the mark, the input and the count."""
        yield Static("/", id="find-mark")
        yield LineInput(placeholder="find in this text")
        yield Static(id="find-count")

    @property
    def is_open(self) -> bool:
        """Whether the line is shown."""
        return self.has_class("-open")

    def open(self) -> None:
        """Shows the line, and puts the focus on it."""
        self.add_class("-open")
        self.query_one(Input).focus()

    def _show_count(self, words: str) -> None:
        """Shows the count of hits, in words."""
        self.query_one("#find-count", Static).update(Content(words))

    def show_words(self, words: str) -> None:
        """Shows words that are searched for already, without starting a search."""
        self._put_text(words)
        self.add_class("-open")

    def close(self) -> None:
        """Empties and hides the line, and ends the search."""
        self._search_later.cancel()
        self._put_text("")
        self.remove_class("-open")
        self._view.look_for(None)
        self._view.focus()

    def _put_text(self, text: str) -> None:
        """Puts a text into the line without searching for it."""
        self._text = text
        box = self.query_one(Input)
        with box.prevent(Input.Changed):
            box.value = text

    def on_input_changed(self, event: Input.Changed) -> None:
        """Searches once no key was pressed for a moment."""
        event.stop()
        self._search_later.restart()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter searches at once and goes to the view; with nothing typed it closes the line."""
        event.stop()
        if not event.value.strip():
            self.close()
            return
        self._search()
        self._view.focus()

    def _search(self) -> None:
        """Searches for the text if it is another one than before."""
        self._search_later.cancel()
        text = self.query_one(Input).value
        if text != self._text:
            self._text = text
            self._view.look_for(plain_pattern(text), jump=True)

    def action_give_up(self) -> None:
        """Empties and hides the line, and ends the search."""
        self.close()

    def action_step(self, delta: int) -> None:
        """Goes to another hit without leaving the line."""
        self._view.go_to_hit(delta)


class FindingView(ScrollView, inherit_bindings=False):
    """Base of a view with search. Subclasses define what is searched and how a hit is scrolled into view.

    Attributes:
        hits: The hits of the last search.
        hit: Number of the hit at the cursor; None before the cursor went to one.
        show_count: Shows the count of hits, in words; called after a search, and when the cursor went to another hit.
    """

    show_count: Callable[[str], object]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.hits = Hits()
        self.hit: int | None = None
        self.show_count = lambda words: None
        self._pattern: Pattern | None = None
        self._search_number = 0

    def look_for(self, pattern: Pattern | None, *, jump: bool = False) -> None:
        """Highlights the hits of a pattern, also in what is shown later; None highlights nothing.

        Args:
            jump: Whether the cursor goes to the first hit from its place.
        """
        self._pattern = pattern
        self.search_again(jump=jump)

    def search_again(self, *, jump: bool = False) -> None:
        """Searches for the same pattern in what is shown now; `jump` as in `look_for`."""
        self._search_number += 1
        number = self._search_number
        work = self.search(self._pattern) if self._pattern is not None else None
        if work is None:
            self._show_hits(Hits(), jump=False)
            return

        def on_result(hits: Hits) -> None:
            """Takes the hits over, unless another search began meanwhile."""
            if number == self._search_number:
                self._show_hits(hits, jump=jump)

        background(self, work, on_result, self.search_failed, group="find")

    def _show_hits(self, hits: Hits, *, jump: bool) -> None:
        """Shows the hits of a search; `jump` as in `look_for`."""
        self.hits = hits
        self.hit = hits.first_from(self.search_start()) if jump and hits.places else None
        self.hits_changed()
        if self.hit is not None:
            self.show_hit()
        self._draw_hits()

    def go_to_hit(self, delta: int) -> None:
        """Goes to the next (1) or the previous (-1) hit, from the last one to the first."""
        if self.hits.places:
            self.hit = self.hits.step(self.hit, delta, self.search_start())
            self.show_hit()
            self._draw_hits()

    def _draw_hits(self) -> None:
        """Draws the hits, and shows how many there are."""
        self.refresh()
        self.show_count("" if self._pattern is None else self.hits.count_text(self.hit))

    def look_of(self, name: str) -> Style:
        """Returns the style of a component class."""
        return self.get_component_rich_style(name, partial=True)

    def reveal(self, line: int) -> None:
        """Scrolls to a line, unless it is in sight."""
        top, height = round(self.scroll_offset.y), self.size.height
        if not top <= line < top + height - 1:
            self.scroll_to(y=max(0, line - height // 3), animate=False)

    # To be defined by a subclass

    def search(self, pattern: Pattern) -> Callable[[], Hits] | None:
        """Returns a function that searches, to be run on another thread; None when there is nothing to search."""
        raise NotImplementedError

    def search_failed(self, error: WorkbenchError) -> None:
        """Shows why a search failed."""
        raise NotImplementedError

    def search_start(self) -> Hit:
        """Returns where the search begins, as an empty hit."""
        raise NotImplementedError

    def hits_changed(self) -> None:
        """Does nothing; a subclass may react to other hits. Called before they are drawn."""

    def show_hit(self) -> None:
        """Brings the current hit into sight."""
        raise NotImplementedError


def hit_spans(
    hits: Sequence[tuple[int, Hit]], current: int | None, start: int, end: int
) -> list[Span]:
    """Returns the spans of hits in a line, counted from its beginning.

    Args:
        hits: The hits that touch the line, each with its number.
        current: Number of the hit at the cursor.
        start: Character of the part at which the line begins.
        end: Character of the part at which it ends.
    """
    return [
        (
            max(hit.start, start) - start,
            min(hit.end, end) - start,
            HIT_NOW if number == current else HIT,
        )
        for number, hit in hits
    ]


def paint(
    text: str,
    style: Style,
    layers: Sequence[Sequence[Span]],
    look: Callable[[str], Style],
) -> list[Segment]:
    """Returns a text as segments.

    Args:
        style: The style of the text where no span is.
        layers: Spans of the text; those of later layers are laid over those of earlier ones.
        look: Returns the style of a component class.
    """
    edges = {0, len(text)}
    for layer in layers:
        for start, end, _ in layer:
            edges |= {start, end}
    if len(edges) <= 2 and not any(layers):
        return [Segment(text, style)]
    # Between two neighboring edges the style is the same.
    inner_edges = sorted(edge for edge in edges if 0 <= edge <= len(text))
    segments = []
    for start, end in pairwise(inner_edges):
        segment_style = style
        for layer in layers:
            for span_start, span_end, name in layer:
                if span_start <= start and end <= span_end:
                    segment_style = segment_style + look(name)
        segments.append(Segment(text[start:end], segment_style))
    return segments


@dataclass(frozen=True, slots=True)
class _BrokenText:
    """A display-safe text, and where its lines begin and end."""

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
        self.text = ""  # as it was given to `show`, not made safe
        self._scrolls_to_end = False  # as soon as there are lines
        self._broken = _BrokenText("", break_lines("", 2))

    def show(self, text: str, *, at_end: bool = False) -> None:
        """Shows another text from its beginning, or at its end."""
        self.text, self._scrolls_to_end = text, at_end
        self._break()
        self.search_again()

    def on_resize(self) -> None:
        """Breaks the lines again."""
        self._break()

    @property
    def _width(self) -> int:
        """Cells of a line; the bar beside them is part of `size`."""
        return self.scrollable_content_region.width

    def _break(self) -> None:
        """Breaks the text into lines in the background."""
        text, width = self.text, self._width
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
        if self._scrolls_to_end:
            self._scrolls_to_end = False
            self.scroll_end(animate=False)
        self.refresh()

    def _show_error(self, error: WorkbenchError) -> None:
        """Shows an error instead of the text."""
        text = safe_text(f"{error.message}\n{error.hint}")
        self._show_lines(_BrokenText(text, break_lines(text, self._width)))

    # Finding

    def search(self, pattern: Pattern) -> Callable[[], Hits]:
        """Returns the search through the text as it is drawn."""
        text = self.text
        return lambda: find(1, lambda _: [safe_text(text)], pattern)

    def search_failed(self, error: WorkbenchError) -> None:
        """Shows what went wrong instead of the text."""
        self._show_error(error)

    def search_start(self) -> Hit:
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

    def render_line(self, y: int) -> Strip:
        """Returns one line of the text."""
        number = y + round(self.scroll_offset.y)
        width, base = self._width, self.rich_style
        if number >= len(self._broken.lines):
            return Strip([Segment("", base)]).crop_extend(0, width, base)
        lines = self._broken.lines
        start, end = lines.starts[number], lines.ends[number]
        hits = hit_spans(self.hits.within(0, 0, start, end), self.hit, start, end)
        segments = paint(self._broken.text[start:end], base, [hits], self.look_of)
        return Strip(segments).crop_extend(0, width, base)
