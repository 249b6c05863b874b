"""The turns of one conversation, drawn line by line so that 100,000 messages scroll like ten.

A layout has the lines of a conversation. This widget shows them and has a place in them: one message is the current
one, and its turn is the current turn. A message is named by its index, a turn by its number from 1; lines are counted
from the first line of the conversation. A note is what the program says below a message; a mark beside the message
points to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from engine.base.errors import WorkbenchError
from engine.base.sign import SignReading
from engine.conversations.records import MessageRow
from engine.formats.records import Leak
from engine.questions.records import Answerer, Cite, MachineAnswer
from screens.widgets import finding
from screens.widgets.background import background
from screens.widgets.formatting import TONES, machine_answer_text
from screens.widgets.keyed import Keyed
from screens.widgets.messages import (
    STYLES,
    Span,
    message_parts,
    part_texts,
    safe_text,
    spans_between,
)
from screens.widgets.transcript_layout import BLANK, NO_PART, Layout, turn_starts

MAX_TEXT_COLUMNS = 100
"""Most columns of the text; a wider widget stays empty at its right."""
MIN_TEXT_COLUMNS = 20
"""Fewest columns in which a conversation is laid out."""

FOR, AGAINST = "text--for-end", "text--against-end"
"""Component classes of words that speak for an end and against one."""
QUOTED = "text--quoted"
"""Component class of the words of a message that a machine cites."""
MARK_CSS = """
Transcript .text--for-end { color: $tone-complete; text-style: bold underline; }
Transcript .text--against-end { color: $tone-incomplete; text-style: italic underline; }
Transcript .text--quoted { color: $tone-accent; text-style: underline; }
"""
"""Looks of the classes `FOR`, `AGAINST` and `QUOTED`, which differ without colors too."""

CITED = "»"
"""The mark of a message that a machine cites for its answer, and the beginning of its note."""

_ROLE_TONES = {
    "user": "tone--user",
    "assistant": "tone--assistant",
    "tool": "tone--muted",
    "system": "tone--muted",
    "developer": "tone--muted",
}
"""Component classes of the gutter, by role."""


class Transcript(Keyed, finding.FindingView, can_focus=True, inherit_bindings=False):
    """Scrolls by line, jumps by turn; long tool outputs and system prompts are folded at first."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = (
        TONES
        | {"tone--user", "tone--assistant", "tone--call", "tone--turn", FOR, AGAINST, QUOTED}
        | STYLES
        | finding.HIT_STYLES
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_lines(-1)", "Line up", show=False),
        Binding("down,j", "scroll_lines(1)", "Line down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Page up", show=False),
        Binding("pagedown,space", "scroll_pages(1)", "Page down", show=False),
        Binding("home", "scroll_far(0)", "Beginning", show=False),
        Binding("end", "scroll_far(1)", "End", show=False),
        Binding("left_square_bracket", "turn(-1)", "Previous turn", show=False),
        Binding("right_square_bracket", "turn(1)", "Next turn", show=False),
        Binding("left_curly_bracket", "message(-1)", "Previous message", show=False),
        Binding("right_curly_bracket", "message(1)", "Next message", show=False),
        Binding(
            "full_stop",
            "note(1)",
            "Next mark",
            show=False,
            tooltip="Next message with a sign of trouble or cited for an answer",
        ),
        Binding("comma", "note(-1)", "Previous mark", show=False),
        Binding("enter", "fold", "Fold or unfold this message or turn", show=False),
        Binding("e", "fold_all", "Fold or unfold everything", show=False),
    ]
    DEFAULT_CSS = (
        "Transcript { overflow-x: hidden; overflow-y: scroll; }"
        + (finding.STYLE_CSS + finding.HIT_CSS).format(name="Transcript")
        + MARK_CSS
    )

    class TurnChanged(Message):
        """Another turn is the current one; `message` is the index of its last message."""

        def __init__(self, turn: int, message: int) -> None:
            super().__init__()
            self.turn, self.message = turn, message

    class Failed(Message):
        """The conversation could not be laid out."""

        def __init__(self, error: WorkbenchError) -> None:
            super().__init__()
            self.error = error

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.messages: Sequence[MessageRow] = ()
        self._leaks: Mapping[int, Sequence[Leak]] = {}
        self._notes: Mapping[int, Sequence[str]] = {}  # by message
        self._unfolded: frozenset[int] = frozenset()  # messages shown whole
        self._layout: Layout | None = None
        self._turns: dict[int, int] = {}  # the first message of each turn
        self._current = -1  # the current message; -1 while there is no conversation
        self._begins_at_end = False  # the conversation is shown from its last turn
        self.raw = False  # everything is shown as imported: JSON not laid out, nothing styled
        self._unfolded_for_hits: frozenset[int] = frozenset()  # to be folded again after the search
        self._is_hit_waiting = False  # the current hit is shown after the next layout
        self.marks: Mapping[tuple[int, int], Sequence[Span]] = {}  # by message and part
        self._cites: frozenset[Cite] = frozenset()
        self._quotes: Mapping[tuple[int, int], Sequence[Span]] = {}  # of cited words, as `marks`

    @property
    def turn(self) -> int:
        """The current turn, from 1; 0 while there is no conversation."""
        return self.messages[self._current].turn if self._current >= 0 else 0

    @property
    def turns(self) -> int:
        """The number of turns."""
        return len(self._turns)

    @property
    def message(self) -> MessageRow | None:
        """The current message, None while there is no conversation."""
        return self.messages[self._current] if self._current >= 0 else None

    @property
    def last_of_turn(self) -> int:
        """Index of the last message of the current turn; only while there is a conversation."""
        return self._turn_range()[-1]

    def show(
        self,
        messages: Sequence[MessageRow],
        leaks: Sequence[Leak] = (),
        signs: Sequence[SignReading] = (),
        machine_answers: Sequence[tuple[Answerer, MachineAnswer]] = (),
        *,
        at_end: bool = False,
    ) -> None:
        """Shows another conversation from its beginning, or from its last turn; what is looked for stays.

        Args:
            leaks: What of it is kept from models.
            signs: Its signs of trouble; the messages that show them are marked.
            machine_answers: What machines answer on it; the messages that they cite are marked, and so are the cited
                words where they are known.
            at_end: Whether it is shown from its last turn.
        """
        self.messages, self.marks = messages, {}
        leaks_by_message: dict[int, list[Leak]] = {}
        for leak in leaks:
            if leak.message is not None:
                leaks_by_message.setdefault(leak.message, []).append(leak)
        self._leaks = leaks_by_message
        self._notes = notes_by_message(signs, machine_answers)
        self._cites = frozenset(cite for _, answer in machine_answers for cite in answer.cites)
        self._quotes = quote_spans(messages, self._cites, raw=self.raw)
        self._unfolded, self._unfolded_for_hits = frozenset(), frozenset()
        self._turns = turn_starts(messages)
        self._layout = None
        self._current = -1
        self._begins_at_end = at_end
        self.hits, self.hit = finding.Hits(), None
        self.refresh()
        self._lay_out()
        self.search_again()

    def show_raw(self, raw: bool) -> None:
        """Shows everything as imported, or laid out and styled."""
        if raw != self.raw:
            self.raw = raw
            self._quotes = quote_spans(self.messages, self._cites, raw=raw)
            self._lay_out()
            self.search_again()

    def mark(self, spans: Mapping[tuple[int, int], Sequence[Span]]) -> None:
        """Draws these stretches of text in their styles, in place of the earlier ones.

        Args:
            spans: The stretches of each part as it is drawn, in order, by message and part.
        """
        self.marks = spans
        self.refresh()

    def _lay_out(self) -> None:
        """Breaks the messages into lines in the background, then shows them at the same place as before."""
        # Without the cell of the mark and that of the scroll bar.
        width = min(self.size.width, MAX_TEXT_COLUMNS) - 2
        if width < MIN_TEXT_COLUMNS or not self.messages:
            self.virtual_size = Size(self.size.width, 0)
            self.refresh()
            return
        messages, leaks, notes = self.messages, self._leaks, self._notes
        unfolded, raw = self._unfolded, self.raw

        def on_result(layout: Layout) -> None:
            """Shows the lines where the earlier ones were; a new conversation from its first or its last turn."""
            anchor = self._anchor()
            self._layout = layout
            self.virtual_size = Size(self.size.width, layout.height)
            if anchor is None:
                self.scroll_to(y=0, animate=False)
                self.go_to_turn(self.turns if self._begins_at_end else 1)
            else:
                message, within = anchor
                self.scroll_to(y=layout.start(message) + within, animate=False)
            if self._is_hit_waiting:
                self.show_hit()
            self.refresh()

        background(
            self,
            lambda: Layout(messages, leaks, notes, width, unfolded, raw=raw),
            on_result,
            self.search_failed,
            group="layout",
        )

    def _anchor(self) -> tuple[int, int] | None:
        """Returns the message at the top and how many lines of it are above; None without a layout of it."""
        if self._layout is None or self._layout.messages is not self.messages:
            return None
        top = round(self.scroll_offset.y)
        message = self._layout.message_at(top)
        return message, top - self._layout.start(message)

    def on_resize(self) -> None:
        """Breaks the lines again."""
        self._lay_out()

    # Movement

    def action_scroll_lines(self, lines: int) -> None:
        """Scrolls by lines."""
        self._scroll(round(self.scroll_offset.y) + lines)

    def action_scroll_pages(self, pages: int) -> None:
        """Scrolls by screenfuls, keeping two lines in sight."""
        self._scroll(round(self.scroll_offset.y) + pages * max(1, self.size.height - 2))

    def action_scroll_far(self, end: int) -> None:
        """Scrolls to the beginning or the end, and makes the message there the current one."""
        if self._turns:
            self._set_message(len(self.messages) - 1 if end else 0)
            self._scroll(self.virtual_size.height if end else 0)

    def _scroll(self, line: int) -> None:
        """Brings a line to the top, and makes a message in sight the current one."""
        self.scroll_to(y=line, animate=False)
        self._follow()

    def _follow(self) -> None:
        """Makes a message in sight the current one when the current one has left the screen."""
        if self._layout is None or self._current < 0:
            return
        top = round(self.scroll_offset.y)
        first = self._layout.message_at(top)
        last = self._layout.message_at(top + self.size.height - 1)
        # Without height or lines no message is visible: then the index is -1.
        if min(first, last) >= 0 and not first <= self._current <= last:
            self._set_message(first if self._current < first else last)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Makes a message in sight the current one after any scrolling, as by the wheel or the scroll bar."""
        super().watch_scroll_y(old_value, new_value)
        self._follow()

    def action_turn(self, delta: int) -> None:
        """Goes to the previous or the next turn."""
        self.go_to_turn(self.turn + delta)

    def action_message(self, delta: int) -> None:
        """Goes to the previous or the next message."""
        if self._turns:
            self.go_to_message(min(max(self._current + delta, 0), len(self.messages) - 1))

    def go_to_turn(self, turn: int) -> None:
        """Makes a turn the current one and brings its beginning to the top."""
        if self._turns:
            self.go_to_message(self._turns[min(max(turn, 1), self.turns)])

    def reveal_turn(self) -> None:
        """Scrolls to the end of the current turn unless it is in sight."""
        if self._layout is not None and self._current >= 0:
            self.reveal(self._layout.start(self.last_of_turn + 1) - 1)

    def go_to_message(self, index: int) -> None:
        """Makes a message the current one and brings its beginning to the top."""
        if self._layout is not None:
            self._set_message(index)
            self.scroll_to(y=self._layout.first_text(index), animate=False)

    def _set_message(self, index: int) -> None:
        """Makes a message the current one, and posts `TurnChanged` if it is in another turn."""
        if index == self._current:
            return
        before, self._current = self.turn, index
        self.refresh()
        if self.turn != before:
            self.post_message(self.TurnChanged(self.turn, self.last_of_turn))

    def _turn_range(self) -> range:
        """Returns the indices of the messages of the current turn."""
        next_turn = self._turns.get(self.turn + 1, len(self.messages))
        return range(self._turns[self.turn], next_turn)

    def action_note(self, delta: int) -> None:
        """Goes to the next or the previous message with a mark, from the last one to the first, and shows its notes."""
        marked = sorted(self._notes)
        ahead = [index for index in marked if (index - self._current) * delta > 0]
        if not marked:
            self.notify("No message has a sign of trouble or is cited for an answer.", markup=False)
            return
        index = (ahead or marked)[0 if delta > 0 else -1]
        self.go_to_message(index)
        self.notify("\n".join(self._notes[index]), markup=False)

    # Folding

    def action_fold(self) -> None:
        """Folds or unfolds the current message where it is long, else what is long in the current turn."""
        layout = self._layout
        if layout is None or self._current < 0:
            return
        indexes = [self._current] if layout.foldable(self._current) else self._turn_range()
        self._toggle([index for index in indexes if layout.foldable(index)])

    def action_fold_all(self) -> None:
        """Folds everything if anything is unfolded, else unfolds everything."""
        if self._layout is not None:
            everything = range(len(self.messages))
            self._unfolded = frozenset() if self._unfolded else frozenset(everything)
            self._lay_out()

    def _toggle(self, indexes: list[int]) -> None:
        """Unfolds messages, or folds them where all are unfolded."""
        if not indexes:
            return
        changed = frozenset(indexes)
        if changed <= self._unfolded:
            self._unfolded -= changed
        else:
            self._unfolded |= changed
        self._lay_out()

    def on_click(self, event: events.Click) -> None:
        """A click makes a message the current one, and folds or unfolds it where it is long."""
        line = event.y + round(self.scroll_offset.y)
        if self._layout is None or line >= self._layout.height:
            return
        index = self._layout.message_at(line)
        self._set_message(index)
        if self._layout.foldable(index):
            self._toggle([index])

    # Finding

    def search(self, pattern: finding.Pattern) -> Callable[[], finding.Hits] | None:
        """Returns the search through the messages as they are drawn, folded or not; None without messages."""
        messages, raw = self.messages, self.raw
        if not messages:
            return None
        return lambda: finding.find(
            len(messages), lambda index: part_texts(messages[index], raw=raw), pattern
        )

    def search_failed(self, error: WorkbenchError) -> None:
        """Posts that the conversation could not be searched or laid out."""
        self.post_message(self.Failed(error))

    def search_start(self) -> finding.Hit:
        """Returns the beginning of the current message."""
        return finding.Hit(max(self._current, 0), 0, 0, 0)

    def hits_changed(self) -> None:
        """Unfolds messages with a hit until the search ends."""
        before = self._unfolded
        self._unfolded -= self._unfolded_for_hits
        self._unfolded_for_hits = self.hits.items - self._unfolded
        self._unfolded |= self._unfolded_for_hits
        if self._unfolded != before:
            self._lay_out()

    def show_hit(self) -> None:
        """Brings the current hit into sight, as soon as its message is laid out unfolded."""
        if self.hit is None:
            return
        hit, layout = self.hits.places[self.hit], self._layout
        if (
            layout is None
            or layout.unfolded is not self._unfolded
            or hit.item not in self._unfolded
        ):
            self._is_hit_waiting = True
            self._unfolded |= {hit.item}
            self._lay_out()
            return
        self._is_hit_waiting = False
        self._set_message(hit.item)
        self.reveal(layout.line_of(hit.item, hit.part, hit.start))

    # Drawing

    def render_line(self, y: int) -> Strip:
        """Returns one line of the transcript."""
        width = self.size.width
        base = self.rich_style
        number = y + round(self.scroll_offset.y)
        layout = self._layout
        if layout is None or number >= layout.height:
            waiting = "…" if layout is None and self.messages and y == 0 else ""
            return Strip([Segment(waiting, base)]).crop_extend(0, width, base)
        index = layout.message_at(number)
        line, message = layout.line(number), layout.messages[index]
        mark = Segment(" ", base)
        if index in self._notes and line is not BLANK:
            glyph = self._notes[index][-1][0]
            tone = "tone--accent" if glyph == CITED else "tone--borderline"
            mark = Segment(glyph, base + self.look_of(tone))
        if message.turn == self.turn and line is not BLANK:
            bar = "▌" if index == self._current else "▎"
            mark = Segment(bar, base + self.look_of("tone--turn"))
        gutter = Segment(
            f"{line.gutter:<{layout.gutter}}", base + self.look_of(_ROLE_TONES[message.role])
        )
        style = base + self.look_of(line.tone) if line.tone else base
        layers: list[Sequence[Span]] = [line.spans]
        layers += (
            spans_between(spans[index, line.part], line.at, line.at + len(line.text))
            for spans in (self._quotes, self.marks)
            if (index, line.part) in spans
        )
        if line.part != NO_PART and index in self.hits.items:
            end = line.at + len(line.text)
            hits = self.hits.within(index, line.part, line.at, end)
            layers.append(tuple(finding.hit_spans(hits, self.hit, line.at, end)))
        strip = Strip([mark, gutter, *finding.paint(line.text, style, layers, self.look_of)])
        return strip.crop_extend(0, width, base)


def notes_by_message(
    signs: Sequence[SignReading], machine_answers: Sequence[tuple[Answerer, MachineAnswer]]
) -> dict[int, list[str]]:
    """Returns the notes of each message that has any: its signs of trouble, then the answers that cite it."""
    signs_by_message: dict[int, list[str]] = {}
    for reading in signs:
        for index in reading.messages if reading.sign.mark else ():
            signs_by_message.setdefault(index, []).append(reading.sign.mark)
    notes = {index: [f"! {', '.join(marks)}"] for index, marks in signs_by_message.items()}
    for answerer, answer in machine_answers:
        for index in {message for message, _, _ in answer.cites}:
            note = f"{CITED} {machine_answer_text(answerer, answer)}"
            notes.setdefault(index, []).append(note)
    return notes


def quote_spans(
    messages: Sequence[MessageRow], cites: Collection[Cite], *, raw: bool
) -> dict[tuple[int, int], list[Span]]:
    """Returns where the cited words of messages stand in their parts as they are drawn, by message and part.

    What is drawn differs from the content where JSON is laid out, so the words are looked for. Words that are not
    found have no span, and neither have places in tool calls, whose words are not known. Of overlapping words the first
    ones have a span.
    """
    spans: dict[tuple[int, int], list[Span]] = {}
    for index, start, end in sorted(cites):
        if index >= len(messages):  # cited in a longer text, before an import replaced it
            continue
        content = messages[index].content
        words = safe_text(content[start:end])
        for number, part in enumerate(message_parts(messages[index], raw=raw)):
            if not words or part.reasoning or part.call:
                continue
            drawn, place = safe_text(part.text), -1
            # The same words may stand before the cited ones.
            for _ in range(content[:start].count(content[start:end]) + 1):
                place = drawn.find(words, place + 1)
            quotes = spans.setdefault((index, number), [])
            if place >= 0 and (not quotes or quotes[-1][1] <= place):
                quotes.append((place, place + len(words), QUOTED))
    return spans
