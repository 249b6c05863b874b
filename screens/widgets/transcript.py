"""The turns of one conversation, drawn line by line so that 100,000 messages scroll like ten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.errors import WorkbenchError
from engine.rows import LeakRow, MessageRow
from screens.background import background
from screens.keyed import Keyed
from screens.widgets.states import TONES
from screens.widgets.transcript_layout import Layout, Line, turn_starts

TEXT_WIDTH = 100
"""Text is not stretched beyond this many columns."""

_ROLE_TONES = {
    "user": "tone--user",
    "assistant": "tone--assistant",
    "tool": "tone--muted",
    "system": "tone--muted",
    "developer": "tone--muted",
}


class Transcript(Keyed, ScrollView, can_focus=True, inherit_bindings=False):
    """Scrolls by line, jumps by turn; long tool outputs and system prompts are folded until asked for."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = TONES | {
        "tone--user",
        "tone--assistant",
        "tone--call",
        "tone--turn",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_lines(-1)", "Line up", show=False),
        Binding("down,j", "scroll_lines(1)", "Line down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Page up", show=False),
        Binding("pagedown,space", "scroll_pages(1)", "Page down", show=False),
        Binding("home", "scroll_far(0)", "Beginning", show=False),
        Binding("end", "scroll_far(1)", "End", show=False),
        Binding(
            "left_square_bracket", "turn(-1)", "Turn", key_display="[ ]", tooltip="Previous turn"
        ),
        Binding("right_square_bracket", "turn(1)", "Next turn", show=False),
        Binding("enter", "fold", "Fold or unfold this turn", show=False),
        Binding("e", "fold_all", "Fold or unfold everything", show=False),
    ]
    DEFAULT_CSS = "Transcript { overflow-x: hidden; overflow-y: scroll; }"

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
        self._messages: Sequence[MessageRow] = ()
        self._leaks: Mapping[int, Sequence[LeakRow]] = {}
        self._unfolded: frozenset[int] = frozenset()
        self._layout: Layout | None = None
        self._turns: dict[int, int] = {}
        self._turn = 0
        self._at_end = False

    @property
    def turn(self) -> int:
        """The current turn, from 1; 0 while there is no conversation."""
        return self._turn

    @property
    def turns(self) -> int:
        """The number of turns."""
        return len(self._turns)

    def show(
        self,
        messages: Sequence[MessageRow],
        leaks: Sequence[LeakRow] = (),
        *,
        at_end: bool = False,
    ) -> None:
        """Shows another conversation from its beginning, or from its last turn."""
        self._messages = messages
        by_message: dict[int, list[LeakRow]] = {}
        for leak in leaks:
            if leak.message is not None:
                by_message.setdefault(leak.message, []).append(leak)
        self._leaks = by_message
        self._unfolded = frozenset()
        self._turns = turn_starts(messages)
        self._layout = None
        self._turn = 0
        self._at_end = at_end
        self.refresh()
        self._lay_out()

    def _lay_out(self) -> None:
        width = min(self.size.width, TEXT_WIDTH) - 2
        if width < 20 or not self._messages:
            self.virtual_size = Size(self.size.width, 0)
            self.refresh()
            return
        messages, leaks, unfolded = self._messages, self._leaks, self._unfolded

        def arrived(layout: Layout) -> None:
            anchor = self._anchor()
            self._layout = layout
            self.virtual_size = Size(self.size.width, layout.height)
            if anchor is None:
                self.scroll_to(y=0, animate=False)
                self.go_to_turn(self.turns if self._at_end else 1)
            else:
                message, within = anchor
                self.scroll_to(y=layout.start(message) + within, animate=False)
            self.refresh()

        background(
            self,
            lambda: Layout(messages, leaks, width, unfolded),
            arrived,
            self._failed,
            group="layout",
        )

    def _failed(self, error: WorkbenchError) -> None:
        self.post_message(self.Failed(error))

    def _anchor(self) -> tuple[int, int] | None:
        """Message at the top and how far into it, so that a new layout keeps the place."""
        if self._layout is None or self._layout.messages is not self._messages:
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
        """Scrolls to the beginning or the end, and makes the turn there the current one."""
        if self._turns:
            self._set_turn(self.turns if end else 1)
            self._scroll(self.virtual_size.height if end else 0)

    def _scroll(self, line: int) -> None:
        self.scroll_to(y=line, animate=False)
        self._follow()

    def _follow(self) -> None:
        """Makes the turn in sight the current one when the current one has left the screen."""
        if self._layout is None or not self._turns:
            return
        top = round(self.scroll_offset.y)
        bottom = top + self.size.height - 1
        first = self._layout.messages[self._layout.message_at(top)].turn
        last = self._layout.messages[self._layout.message_at(bottom)].turn
        if not first <= self._turn <= last:
            self._set_turn(first if self._turn < first else last)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follows the wheel and the scroll bar, too."""
        super().watch_scroll_y(old_value, new_value)
        self._follow()

    def action_turn(self, delta: int) -> None:
        """Goes to the previous or the next turn."""
        self.go_to_turn(self._turn + delta)

    def go_to_turn(self, turn: int) -> None:
        """Makes a turn the current one and brings its beginning to the top."""
        if self._layout is None or not self._turns:
            return
        turn = min(max(turn, 1), self.turns)
        self._set_turn(turn)
        index = self._turns[turn]
        line = self._layout.start(index)
        if index and self._layout.block(index)[0] == Line("", ""):
            line += 1
        self.scroll_to(y=line, animate=False)

    def _set_turn(self, turn: int) -> None:
        if turn != self._turn:
            self._turn = turn
            self.refresh()
            after = self._turns.get(turn + 1, len(self._messages))
            self.post_message(self.TurnChanged(turn, after - 1))

    # Folding

    def action_fold(self) -> None:
        """Folds or unfolds what is long in the current turn."""
        if self._layout is None or self._turn not in self._turns:
            return
        after = self._turns.get(self._turn + 1, len(self._messages))
        turn = range(self._turns[self._turn], after)
        self._toggle([index for index in turn if self._layout.foldable(index)])

    def action_fold_all(self) -> None:
        """Folds everything if anything is unfolded, else unfolds everything."""
        if self._layout is not None:
            everything = range(len(self._messages))
            self._unfolded = frozenset() if self._unfolded else frozenset(everything)
            self._lay_out()

    def _toggle(self, indexes: list[int]) -> None:
        if not indexes:
            return
        changed = frozenset(indexes)
        if changed <= self._unfolded:
            self._unfolded -= changed
        else:
            self._unfolded |= changed
        self._lay_out()

    def on_click(self, event: events.Click) -> None:
        """A click on a long message folds or unfolds it, on another makes its turn the current one."""
        line = event.y + round(self.scroll_offset.y)
        if self._layout is None or line >= self._layout.height:
            return
        index = self._layout.message_at(line)
        self._set_turn(self._messages[index].turn)
        if self._layout.foldable(index):
            self._toggle([index])

    # Drawing

    def render_line(self, y: int) -> Strip:
        """One line of the transcript."""
        width = self.size.width
        base = self.rich_style
        number = y + round(self.scroll_offset.y)
        layout = self._layout
        if layout is None or number >= layout.height:
            waiting = "…" if layout is None and self._messages and y == 0 else ""
            return Strip([Segment(waiting, base)]).crop_extend(0, width, base)
        line = layout.line(number)
        message = layout.messages[layout.message_at(number)]
        mark = Segment(" ", base)
        if message.turn == self._turn and line != Line("", ""):
            mark = Segment("▎", base + self.get_component_rich_style("tone--turn", partial=True))
        role = self.get_component_rich_style(_ROLE_TONES[message.role], partial=True)
        gutter = Segment(f"{line.gutter:<{layout.gutter}}", base + role)
        style = base
        if line.tone:
            style = base + self.get_component_rich_style(line.tone, partial=True)
        strip = Strip([mark, gutter, Segment(line.text, style)])
        return strip.crop_extend(0, width, base)
