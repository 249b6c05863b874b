"""How messages become lines: gutter, wrapped text, folds, leak notes. Knows nothing of Textual."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from engine.conversation import Role, ToolCall, opens_turn
from engine.rows import LeakRow, MessageRow
from engine.text import one_line
from screens import figures
from screens.widgets.wrap import safe_lines, wrap

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

CACHED_BLOCKS = 512


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the transcript; `tone` is a component class, empty for plain text."""

    gutter: str
    text: str
    tone: str = ""


class Layout:
    """The lines of a conversation at one width.

    Heights are known for every message, lines are made again when a message comes into sight; so memory does
    not grow with the text. `width` is in cells, gutter included.
    """

    def __init__(
        self,
        messages: Sequence[MessageRow],
        leaks: Mapping[int, Sequence[LeakRow]],
        width: int,
        unfolded: Set[int],
    ) -> None:
        self.messages = messages
        self.leaks = leaks
        self.width = width
        self.unfolded = unfolded
        last_turn = messages[-1].turn if messages else 0
        self.gutter = 6 + max(2, len(str(last_turn)))
        self._cache: OrderedDict[int, list[Line]] = OrderedDict()
        self._starts = array("q", [0])
        for index in range(len(messages)):
            self._starts.append(self._starts[-1] + len(self.block(index)))

    @property
    def height(self) -> int:
        """Lines in all."""
        return self._starts[-1]

    def start(self, index: int) -> int:
        """Line at which a message begins."""
        return self._starts[index]

    def message_at(self, line: int) -> int:
        """Index of the message that a line belongs to; the last one for lines below the end."""
        return min(bisect_right(self._starts, line) - 1, len(self.messages) - 1)

    def line(self, line: int) -> Line:
        """One line; raises IndexError beyond the end."""
        index = self.message_at(line)
        return self.block(index)[line - self._starts[index]]

    def foldable(self, index: int) -> bool:
        """Whether a message has more lines than its preview."""
        return _is_long(self.messages[index], self.width - self.gutter)

    def block(self, index: int) -> list[Line]:
        """The lines of one message."""
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        lines = self._lines(index)
        self._cache[index] = lines
        if len(self._cache) > CACHED_BLOCKS:
            self._cache.popitem(last=False)
        return lines

    def _lines(self, index: int) -> list[Line]:
        message = self.messages[index]
        body = self._body(message, index in self.unfolded)
        body += [(note, "tone--borderline") for note in self._notes(message)]
        gutter = f"{ROLE_LABELS[message.role]:<4} {message.turn}"
        first = True
        lines: list[Line] = []
        if index and opens_turn(message.role):
            lines.append(Line("", ""))
        for text, tone in body:
            lines.append(Line(gutter if first else "", text, tone))
            first = False
        return lines

    def _body(self, message: MessageRow, unfolded: bool) -> list[tuple[str, str]]:
        width = self.width - self.gutter
        tone = "tone--muted" if message.role in ("tool", "system", "developer") else ""
        parts: list[tuple[str, str]] = []
        if message.name:
            parts.append((one_line(message.name, width), "tone--accent"))
        room = None if unfolded else PREVIEW_LINES[message.role]
        if message.content.strip():
            shown, rest = _preview(message.content.rstrip("\n"), width, room)
            parts += [(line, tone) for line in shown]
            if rest:
                parts.append((f"▸ {rest}", "tone--accent"))
        for call in message.tool_calls:
            shown, rest = _preview(_call_text(call), width, room and min(room, 4))
            parts += [(line, "tone--call") for line in shown]
            if rest:
                parts.append((f"▸ {rest}", "tone--accent"))
        if not parts or (len(parts) == 1 and message.name and not message.tool_calls):
            parts.append(("(empty)", "tone--muted"))
        return parts

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


def _call_text(call: ToolCall) -> str:
    return f"→ {call.name} {call.arguments}"


def _preview(text: str, width: int, room: int | None) -> tuple[list[str], str]:
    """The first lines of a text, and how much more there is in words, empty when nothing is left out."""
    if room is None:
        return safe_lines(text, width), ""
    # The room plus one line cannot take more characters than this, so the rest need not be looked at.
    head = text[: (room + 1) * (width + 1) * 2]
    lines = safe_lines(head, width)
    if len(lines) <= room and len(head) == len(text):
        return lines, ""
    newlines = text.count("\n")
    if newlines >= room:
        return lines[:room], f"{newlines + 1:,} lines"
    return lines[:room], f"{figures.amount(len(text))} characters"


def _is_long(message: MessageRow, width: int) -> bool:
    room = PREVIEW_LINES[message.role]
    texts = [(message.content.rstrip("\n"), room)]
    texts += [(_call_text(call), min(room, 4)) for call in message.tool_calls]
    return any(_preview(text, width, lines)[1] for text, lines in texts)


def turn_starts(messages: Sequence[MessageRow]) -> dict[int, int]:
    """For each turn the index of its first message."""
    starts: dict[int, int] = {}
    for index, message in enumerate(messages):
        starts.setdefault(message.turn, index)
    return starts
