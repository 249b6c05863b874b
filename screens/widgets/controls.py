"""Small widgets that take keys: a list of choices, a field with several values, a line to type, a box of figures.

`titled` puts the title on the border of any widget.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, TypeVar

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList

from engine.base.text import LINE_LIMIT, one_line
from screens.widgets.keyed import Keyed

WidgetT = TypeVar("WidgetT", bound=Widget)
"""Type of a widget that gets a title."""

MAX_TYPED_CHARACTERS = 2_000
"""Most characters that a line takes. A line of ten thousand combining marks took twenty seconds to draw, since rich
cuts a text at a cell in a time that grows with the square of its length; two thousand take a seventh of a second at
worst."""
LEFT_END_CELLS = 3
"""Cells at the left end of a `Cycle` where a click goes to the value before: the padding and `‹ `."""
NOTICE_INTERVAL_SECONDS = 5.0
"""Least time between two notices that a line is full."""


def titled(widget: WidgetT, title: str) -> WidgetT:
    """Puts a title, which must be display-safe, on the border of a widget, and returns the widget."""
    widget.border_title = Content(title)
    return widget


class Choices(Keyed, OptionList, inherit_bindings=False):
    """An `OptionList` of `Content` with the keys of all lists; at its ends the cursor goes to the list beside it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor_up", "Line up", show=False),
        Binding("down,j", "cursor_down", "Line down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "first", "First line", show=False),
        Binding("end", "last", "Last line", show=False),
        Binding("enter", "select", "Choose", show=False),
    ]

    def action_cursor_down(self) -> None:
        """Goes to the line below; from the last one to the first of the next list on the screen."""
        if self.highlighted == self.option_count - 1:
            choices = self.screen.focus_next(Choices)
            if isinstance(choices, Choices) and choices is not self:
                choices.action_first()
                return
        super().action_cursor_down()

    def action_cursor_up(self) -> None:
        """Goes to the line above; from the first one to the last of the list before on the screen."""
        if self.highlighted == 0:
            choices = self.screen.focus_previous(Choices)
            if isinstance(choices, Choices) and choices is not self:
                choices.action_last()
                return
        super().action_cursor_up()

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        """Moves by a page, as Textual does, but not before the list is laid out."""
        with suppress(KeyError):
            super()._move_page(direction)


class Cycle(Keyed, Widget, can_focus=True):
    """Shows one of several values, `‹ boundary ›`; in focus it is bright."""

    PLACE = "cycle"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,space", "step(1)", "Next value", show=False),
        Binding("left", "step(-1)", "Value before", show=False),
    ]
    DEFAULT_CSS = """
    Cycle { height: 1; width: 1fr; padding: 0 1; background: $panel; color: $tone-model; }
    Cycle:focus { background: $tone-cursor; color: $tone-bright; }
    """

    class Changed(Message):
        """Posted when another value was chosen."""

    def __init__(
        self, values: Sequence[str], chosen_index: int = 0, *, id: str | None = None
    ) -> None:
        """Shows one of some values.

        Args:
            values: The values to choose from, which are shown as given and in this order.
            chosen_index: Index of the value that is chosen at first.
        """
        super().__init__(id=id)
        self._values, self.chosen_index = values, chosen_index

    def action_step(self, by: int) -> None:
        """Goes `by` values on; the first follows the last."""
        if len(self._values) > 1:
            self.chosen_index = (self.chosen_index + by) % len(self._values)
            self.refresh()
            self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """Goes to the value before for a click on the left end, and to the next one for a click elsewhere."""
        self.action_step(-1 if event.x < LEFT_END_CELLS else 1)

    def render(self) -> RenderResult:
        """Returns the value between two arrows, and which of how many it is."""
        value = one_line(self._values[self.chosen_index], LINE_LIMIT) if self._values else ""
        place = (
            f"   {self.chosen_index + 1} of {len(self._values)}" if len(self._values) > 1 else ""
        )
        line = Content.assemble(
            ("‹ ", "$tone-accent"), value, (" ›", "$tone-accent"), (place, "$tone-muted")
        )
        return line.truncate(self.size.width, ellipsis=True)


class LineInput(Input):
    """Textual's input for at most `MAX_TYPED_CHARACTERS` characters; a notice tells when more were typed."""

    def __init__(self, value: str | None = None, **options: Any) -> None:
        """Begins with `value`; the options are those of `textual.widgets.Input`."""
        super().__init__(value, max_length=MAX_TYPED_CHARACTERS, **options)
        self._last_notice_time = -NOTICE_INTERVAL_SECONDS

    def replace(self, text: str, start: int, end: int) -> None:
        """Replaces a part of the text as Textual does, also of a value that is too long: it can be shortened."""
        self.max_length = max(MAX_TYPED_CHARACTERS, len(self.value))
        super().replace(text, start, end)

    def restricted(self) -> None:
        """Notifies why typed or pasted characters were not added, at most once in `NOTICE_INTERVAL_SECONDS`."""
        now = time.monotonic()
        if now - self._last_notice_time > NOTICE_INTERVAL_SECONDS:
            self._last_notice_time = now
            self.notify(
                f"A line takes at most {MAX_TYPED_CHARACTERS:,} characters; this was not added.",
                severity="warning",
                markup=False,
            )


class Card(Keyed, Vertical, can_focus=True):
    """A box of figures; enter or a click leads to the conversations behind them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "Go there", show=False)]

    class Opened(Message):
        """Posted when the card was chosen."""

        def __init__(self, card: Card) -> None:
            super().__init__()
            self.card = card

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id, classes="card")
        titled(self, title)

    def action_open(self) -> None:
        """Posts `Opened`."""
        self.post_message(self.Opened(self))

    def on_click(self, event: events.Click) -> None:
        """Chooses the card that is clicked."""
        event.stop()
        self.action_open()
