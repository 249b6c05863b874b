"""How messages become lines: gutter, wrapped text, folds, leak notes, styles. Knows nothing of Textual."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from engine.conversation import Role, opens_turn
from engine.rows import LeakRow, MessageRow
from engine.text import one_line
from screens import figures
from screens.widgets import text_styles
from screens.widgets.message_text import Part, parts
from screens.widgets.text_styles import Span
from screens.widgets.wrap import safe_text, spans, wrap

ROLE_LABELS: dict[Role, str] = {
    "system": "sys",
    "developer": "dev",
    "user": "user",
    "assistant": "asst",
    "tool": "tool",
}
PREVIEW_LINES: dict[Role, int] = {
    "system": 3,
    "developer": 3,
    "user": 30,
    "assistant": 30,
    "tool": 2,
}
"""Lines of a message that are shown while it is folded; shorter messages are shown whole."""

CALL_PREVIEW_LINES = 4
CACHED_BLOCKS = 512

NO_PART = -1


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the transcript.

    Attributes:
        tone: A component class, empty for plain text.
        part: Which part of the message the text belongs to, `NO_PART` for what the program says itself.
        at: Where the text begins in the part as it is drawn.
        spans: Styles of stretches of the text.
    """

    gutter: str
    text: str
    tone: str = ""
    part: int = NO_PART
    at: int = 0
    spans: tuple[Span, ...] = ()


BLANK = Line("", "")


class Layout:
    """The lines of a conversation at one width.

    Heights are known for every message, lines are made again when a message comes into sight; so memory does
    not grow with the text. `width` is in cells, gutter included; `raw` shows everything as imported.
    """

    def __init__(
        self,
        messages: Sequence[MessageRow],
        leaks: Mapping[int, Sequence[LeakRow]],
        width: int,
        unfolded: Set[int],
        *,
        raw: bool = False,
    ) -> None:
        self.messages = messages
        self.leaks = leaks
        self.width = width
        self.unfolded = unfolded
        self.raw = raw
        last_turn = messages[-1].turn if messages else 0
        self.gutter = 6 + max(2, len(str(last_turn)))
        self._cache: OrderedDict[int, list[Line]] = OrderedDict()
        self._starts = array("q", [0])
        for index in range(len(messages)):
            self._starts.append(self._starts[-1] + self._height(index))

    @property
    def height(self) -> int:
        """Lines in all."""
        return self._starts[-1]

    def start(self, index: int) -> int:
        """Line at which a message begins."""
        return self._starts[index]

    def first_text(self, index: int) -> int:
        """Line at which a message begins, without the blank line above it."""
        return self._starts[index] + int(self._spaced(index))

    def line_of(self, index: int, part: int, at: int) -> int:
        """Line on which a character of a part stands; the end of the message when it is folded away."""
        block = self.block(index)
        after = self._starts[index]
        for number, line in enumerate(block):
            if line.part == part and line.at <= at:
                after = self._starts[index] + number
        return after

    def message_at(self, line: int) -> int:
        """Index of the message that a line belongs to; the last one for lines below the end."""
        return min(bisect_right(self._starts, line) - 1, len(self.messages) - 1)

    def line(self, line: int) -> Line:
        """One line; raises IndexError beyond the end."""
        index = self.message_at(line)
        return self.block(index)[line - self._starts[index]]

    def foldable(self, index: int) -> bool:
        """Whether a message has more lines than its preview."""
        message = self.messages[index]
        width = self.width - self.gutter
        return any(
            _preview(part.text, width, _room(message, part))[2]
            for part in parts(message, raw=self.raw)
        )

    def block(self, index: int) -> list[Line]:
        """The lines of one message with their styles."""
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        lines = self._lines(index, styled=not self.raw)
        self._cache[index] = lines
        if len(self._cache) > CACHED_BLOCKS:
            self._cache.popitem(last=False)
        return lines

    def _spaced(self, index: int) -> bool:
        return index > 0 and opens_turn(self.messages[index].role)

    def _height(self, index: int) -> int:
        message = self.messages[index]
        content = message.content
        short = (
            not message.tool_calls
            and not message.name
            and message.model_view is None
            and not message.hidden
            and len(content) <= self.width - self.gutter
            and content.isascii()
            and content.isprintable()
            and content[:1] not in ("{", "[")
            and message.index not in self.leaks
        )
        return 1 + int(self._spaced(index)) if short else len(self._lines(index, styled=False))

    def _lines(self, index: int, *, styled: bool) -> list[Line]:
        message = self.messages[index]
        lines = self._body(message, index in self.unfolded, styled)
        lines += [Line("", note, "tone--borderline") for note in self._notes(message)]
        lines[0] = replace(lines[0], gutter=f"{ROLE_LABELS[message.role]:<4} {message.turn}")
        return [BLANK, *lines] if self._spaced(index) else lines

    def _body(self, message: MessageRow, unfolded: bool, styled: bool) -> list[Line]:
        width = self.width - self.gutter
        quiet = "tone--muted" if message.role in ("tool", "system", "developer") else ""
        lines: list[Line] = []
        if message.name:
            lines.append(Line("", one_line(message.name, width), "tone--accent"))
        found = parts(message, raw=self.raw)
        for number, part in enumerate(found):
            room = None if unfolded else _room(message, part)
            text, cuts, rest = _preview(part.text, width, room)
            place = number
            if rest and part.packed is not None:
                # Nothing that is found is drawn in it: it has offsets of its own, and what has a hit is unfolded.
                text, cuts, _ = _preview(part.packed, width, room)
                place = NO_PART
            tone = "tone--call" if part.call else quiet
            marked = text_styles.styles(text, part.form) if styled and cuts else []
            lines += _part_lines(text, cuts, tone, place, marked)
            if rest:
                lines.append(Line("", f"▸ {rest}", "tone--accent"))
        if not found:
            lines.append(Line("", "(empty)", "tone--muted"))
        return lines

    def _notes(self, message: MessageRow) -> list[str]:
        found = [
            f"{one_line(leak.found, 60)} ({one_line(leak.rule, 30)})"
            for leak in self.leaks.get(message.index, ())
        ]
        what = ": " + ", ".join(found) if found else ""
        width = self.width - self.gutter
        if message.hidden:
            return wrap(f"⊘ this whole message is kept from the model{what}", width)
        if message.model_view is not None or found:
            return wrap(f"⊘ kept from the model{what}", width)
        return []


def _room(message: MessageRow, part: Part) -> int:
    room = PREVIEW_LINES[message.role]
    return min(room, CALL_PREVIEW_LINES) if part.call else room


def _part_lines(
    text: str, cuts: Sequence[tuple[int, int]], tone: str, number: int, marked: Sequence[Span]
) -> list[Line]:
    """The lines of a part; both the cuts and the spans are in order, so each span is looked at once a line."""
    lines: list[Line] = []
    first = 0
    for start, end in cuts:
        while first < len(marked) and marked[first][1] <= start:
            first += 1
        last = first
        while last < len(marked) and marked[last][0] < end:
            last += 1
        styles = text_styles.cut(marked[first:last], start, end)
        lines.append(Line("", text[start:end], tone, number, start, tuple(styles)))
    return lines


def _preview(whole: str, width: int, room: int | None) -> tuple[str, list[tuple[int, int]], str]:
    """The text as drawn, the lines of it that are shown, and how much more there is in words, empty for nothing."""
    if room is None:
        text = safe_text(whole)
        return text, spans(text, width), ""
    # The room plus one line cannot take more characters than this, so the rest need not be looked at.
    head = whole[: (room + 1) * (width + 1) * 2]
    text = safe_text(head)
    cuts = spans(text, width)
    if len(cuts) <= room and len(head) == len(whole):
        return text, cuts, ""
    newlines = whole.count("\n")
    rest = f"{newlines + 1:,} lines"
    if newlines < room:
        rest = f"{figures.amount(len(whole))} characters"
    cuts = cuts[:room]
    return text[: cuts[-1][1]], cuts, rest


def turn_starts(messages: Sequence[MessageRow]) -> dict[int, int]:
    """For each turn the index of its first message."""
    starts: dict[int, int] = {}
    for index, message in enumerate(messages):
        starts.setdefault(message.turn, index)
    return starts
