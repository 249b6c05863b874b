"""How messages become lines: gutter, wrapped text, folds, leak notes, styles. Knows nothing of Textual.

A layout has a block for each message, a block has pieces: the parts of the message (see `message_parts`) and the notes
of the program. Lines are counted from the first line of the conversation, widths and the gutter are in cells. The
gutter is the column on the left with the role and the turn. A folded part shows only its first lines.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from engine.base import number_format
from engine.base.conversation import Role, opens_turn
from engine.base.text import NAME_LIMIT, one_line
from engine.conversations.records import MessageRow
from engine.formats.records import Leak
from screens.widgets import messages as text_styles
from screens.widgets.messages import (
    Form,
    LineBounds,
    Part,
    Span,
    break_lines,
    message_parts,
    safe_text,
    wrap,
)

ROLE_LABELS: dict[Role, str] = {
    "system": "sys",
    "developer": "dev",
    "user": "user",
    "assistant": "asst",
    "tool": "tool",
}
"""Names of the roles in the gutter: four letters at most."""
ROLE_CELLS = 4
GUTTER_SPACES = 2
"""Cells of the gutter between role and turn, and after the turn."""
PREVIEW_LINES: dict[Role, int] = {
    "system": 3,
    "developer": 3,
    "user": 30,
    "assistant": 30,
    "tool": 2,
}
"""Lines of each part of a message that are shown while it is folded; shorter parts are shown whole."""

CALL_PREVIEW_LINES = 4
"""Lines of a folded tool call."""
REASONING_PREVIEW_LINES = 1
MAX_CACHED_BLOCKS = 512
"""Most blocks of messages that were in sight and are kept."""
LARGE_BLOCK_LINES = 1_000
"""Blocks of more lines than this stay cached, because making them again would delay drawing."""

RULE_CHARACTERS = 30
"""Most characters of the name of the rule by which a text is kept from models."""
NO_PART = -1
"""Stands for the part of a line that is a note of the program."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the transcript.

    Attributes:
        gutter: Role and turn at the first line of a message, else empty.
        text: The text; display-safe.
        tone: A component class; empty for plain text.
        part: Index of the part of the message that the text belongs to; `NO_PART` for a note of the program.
        at: Character of the part, as it is drawn, at which the text begins.
        spans: Styles of stretches of the text.
    """

    gutter: str
    text: str
    tone: str = ""
    part: int = NO_PART
    at: int = 0
    spans: tuple[Span, ...] = ()


BLANK = Line("", "")
"""The line above a message that opens a turn."""


class _Piece:
    """Some lines of a block: a text with its lines. Its styles are computed when one of the lines is drawn."""

    __slots__ = ("_form", "_spans", "lines", "part", "text", "tone")

    def __init__(self, text: str, lines: LineBounds, tone: str, part: int, form: Form) -> None:
        self.text, self.lines, self.tone, self.part = text, lines, tone, part
        self._form = form
        self._spans: list[Span] | None = None

    def line(self, number: int, gutter: str) -> Line:
        """Returns one of the lines by its number in the piece."""
        if self._spans is None:
            shown = self.text[: self.lines.ends[-1]]
            self._spans = text_styles.styles(shown, self._form)
        start, end = self.lines.starts[number], self.lines.ends[number]
        spans = text_styles.spans_between(self._spans, start, end)
        return Line(
            gutter, self.text[start:end], self.tone, part=self.part, at=start, spans=tuple(spans)
        )


def _note(text: str, tone: str) -> _Piece:
    """Returns a note of the program as a piece of one line; the text is display-safe."""
    one_line_bounds = LineBounds(array("q", [0]), array("q", [len(text)]))
    return _Piece(text, one_line_bounds, tone, NO_PART, "plain")


class Block:
    """The lines of a message, each of which is made when it is drawn."""

    def __init__(self, gutter: str, pieces: Sequence[_Piece], *, spaced: bool) -> None:
        """`spaced` puts a blank line above the message."""
        self._gutter, self._pieces, self._spaced = gutter, pieces, spaced
        self._count = int(spaced) + sum(len(piece.lines) for piece in pieces)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Line:
        if self._spaced and number == 0:
            return BLANK
        number -= int(self._spaced)
        gutter = "" if number else self._gutter
        for piece in self._pieces:
            if number < len(piece.lines):
                return piece.line(number, gutter)
            number -= len(piece.lines)
        raise IndexError(number)

    def line_of(self, part: int, at: int) -> int:
        """Returns the number of the line with the character `at` of a part; of the last one shown if that is folded."""
        before = int(self._spaced)
        for piece in self._pieces:
            if piece.part == part:
                return before + piece.lines.at(at)
            before += len(piece.lines)
        return len(self) - 1


class Layout:
    """The lines of a conversation at one width.

    The height of every message is known; its lines are made again when it comes into sight, so memory holds the lines
    of the messages that were in sight last and of the large ones.

    Attributes:
        messages: The messages of the conversation.
        leaks: What is kept from models, by the index of the message.
        notes: What stands out in a message, in lines that are shown below it, by its index.
        width: Width, with the gutter.
        unfolded: Indices of the messages that are shown whole.
        raw: Whether everything is shown as imported.
        gutter: Width of the gutter.
    """

    def __init__(
        self,
        messages: Sequence[MessageRow],
        leaks: Mapping[int, Sequence[Leak]],
        notes: Mapping[int, Sequence[str]],
        width: int,
        unfolded: Set[int],
        *,
        raw: bool = False,
    ) -> None:
        self.messages = messages
        self.leaks, self.notes = leaks, notes
        self.width = width
        self.unfolded = unfolded
        self.raw = raw
        last_turn = messages[-1].turn if messages else 0
        self.gutter = ROLE_CELLS + GUTTER_SPACES + max(2, len(str(last_turn)))
        self._cache: OrderedDict[int, Block] = OrderedDict()  # the blocks that were used last
        self._large: dict[int, Block] = {}  # the large blocks
        # The line at which each message begins, and at the end the number of all lines.
        self._starts = array("q", [0])
        for index in range(len(messages)):
            self._starts.append(self._starts[-1] + self._height(index))

    @property
    def height(self) -> int:
        """Number of lines."""
        return self._starts[-1]

    def start(self, index: int) -> int:
        """Returns the line at which a message begins."""
        return self._starts[index]

    def first_text(self, index: int) -> int:
        """Returns the line at which a message begins, without the blank line above it."""
        return self._starts[index] + int(self._spaced(index))

    def line_of(self, index: int, part: int, at: int) -> int:
        """Returns the line with the character `at` of a part; where that is folded, the last line shown."""
        return self._starts[index] + self.block(index).line_of(part, at)

    def message_at(self, line: int) -> int:
        """Returns the index of the message that a line belongs to; the last one for lines below the end."""
        return min(bisect_right(self._starts, line) - 1, len(self.messages) - 1)

    def line(self, line: int) -> Line:
        """Returns a line by its number.

        Raises:
            IndexError: There are fewer lines.
        """
        index = self.message_at(line)
        return self.block(index)[line - self._starts[index]]

    def foldable(self, index: int) -> bool:
        """Returns whether a message has more lines than its preview."""
        message = self.messages[index]
        width = self.width - self.gutter
        return any(
            _preview(part.text, width, _room(message, part)).whole_length
            for part in message_parts(message, raw=self.raw)
        )

    def block(self, index: int) -> Block:
        """Returns the lines of one message."""
        if index in self._large:
            return self._large[index]
        if index in self._cache:
            self._cache.move_to_end(index)
            return self._cache[index]
        block = self._make(index)
        self._cache[index] = block
        if len(self._cache) > MAX_CACHED_BLOCKS:
            self._cache.popitem(last=False)
        return block

    def _spaced(self, index: int) -> bool:
        """Returns whether a blank line stands above a message."""
        return index > 0 and opens_turn(self.messages[index].role)

    def _height(self, index: int) -> int:
        """Returns how many lines a message has. Most messages are short, and their lines need not be made."""
        message = self.messages[index]
        content = message.content
        is_short = (
            not message.tool_calls
            and not message.name
            and message.model_view is None
            and message.reasoning is None
            and not message.hidden
            and len(content) <= self.width - self.gutter
            and content.isascii()
            and content.isprintable()
            and content[:1] not in ("{", "[")
            and message.index not in self.leaks
            and message.index not in self.notes
        )
        if is_short:
            return 1 + int(self._spaced(index))
        block = self._make(index)
        if len(block) > LARGE_BLOCK_LINES:
            self._large[index] = block
        return len(block)

    def _make(self, index: int) -> Block:
        """Makes the lines of a message."""
        message = self.messages[index]
        pieces = self._body(message, index in self.unfolded)
        pieces += [_note(line, "tone--borderline") for line in self._note_lines(message)]
        gutter = f"{ROLE_LABELS[message.role]:<{ROLE_CELLS}} {message.turn}"
        return Block(gutter, pieces, spaced=self._spaced(index))

    def _body(self, message: MessageRow, unfolded: bool) -> list[_Piece]:
        """Returns the name and the parts of a message."""
        width = self.width - self.gutter
        tone_of_role = "tone--muted" if message.role in ("tool", "system", "developer") else ""
        pieces: list[_Piece] = []
        if message.name:
            pieces.append(_note(one_line(message.name, width), "tone--accent"))
        shown = message_parts(message, raw=self.raw)
        for number, part in enumerate(shown):
            room = None if unfolded else _room(message, part)
            text, lines, whole_length = _preview(part.text, width, room)
            part_number = number
            if whole_length and part.packed is not None:
                # No hit is drawn in a folded message: its offsets differ, and messages with hits are unfolded.
                text, lines, _ = _preview(part.packed, width, room)
                part_number = NO_PART
            tone = "tone--muted" if part.reasoning else tone_of_role
            if part.call:
                tone = "tone--call"
            pieces.append(_Piece(text, lines, tone, part_number, part.form))
            if whole_length:
                pieces.append(_note(f"▸ {whole_length}", "tone--accent"))
        if not shown:
            pieces.append(_note("(empty)", "tone--muted"))
        return pieces

    def _note_lines(self, message: MessageRow) -> list[str]:
        """Returns the notes on a message, and what of it is kept from models, in lines."""
        notes = list(self.notes.get(message.index, ()))
        leaks = [
            f"{one_line(leak.found, NAME_LIMIT)} ({one_line(leak.rule, RULE_CHARACTERS)})"
            for leak in self.leaks.get(message.index, ())
        ]
        details = ": " + ", ".join(leaks) if leaks else ""
        if message.hidden:
            notes.append(f"⊘ this whole message is kept from the model{details}")
        elif message.model_view is not None or leaks:
            notes.append(f"⊘ kept from the model{details}")
        return [line for note in notes for line in wrap(note, self.width - self.gutter)]


def _room(message: MessageRow, part: Part) -> int:
    """Returns how many lines of a part are shown while it is folded."""
    if part.reasoning:
        return REASONING_PREVIEW_LINES
    room = PREVIEW_LINES[message.role]
    return min(room, CALL_PREVIEW_LINES) if part.call else room


class _Preview(NamedTuple):
    """What is shown of a part.

    Attributes:
        text: The text as it is drawn, or only its beginning.
        lines: The lines of the text that are shown.
        whole_length: The length of the whole part, in words; empty where nothing is left out.
    """

    text: str
    lines: LineBounds
    whole_length: str


def _preview(whole: str, width: int, room: int | None) -> _Preview:
    """Returns the first `room` lines of a text, or all of them where `room` is None."""
    if room is None:
        text = safe_text(whole)
        return _Preview(text, break_lines(text, width), "")
    # The room plus one line rarely takes more characters than this, so the rest need not be looked at.
    head = whole[: (room + 1) * (width + 1) * 2]
    text = safe_text(head)
    lines = break_lines(text, width)
    if len(lines) <= room and len(head) < len(whole):  # combining marks take no cells
        text = safe_text(whole)
        lines = break_lines(text, width)
    if len(lines) <= room:
        return _Preview(text, lines, "")
    newlines = whole.count("\n")
    whole_length = f"{newlines + 1:,} lines"
    if newlines < room:  # few lines, but long ones
        whole_length = f"{number_format.amount(len(whole))} characters"
    return _Preview(text, lines.first(room), whole_length)


def turn_starts(messages: Sequence[MessageRow]) -> dict[int, int]:
    """Returns the index of the first message of each turn, by turn."""
    starts: dict[int, int] = {}
    for index, message in enumerate(messages):
        starts.setdefault(message.turn, index)
    return starts
