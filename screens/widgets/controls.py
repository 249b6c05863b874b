"""Small widgets that take keys: a list of choices, a field with several values, a line to type, a box of figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList

from engine.base.text import one_line
from screens.widgets.keyed import Keyed

MOST_TYPED = 2_000
"""Characters that a line takes. A line of ten thousand combining marks took twenty seconds to draw, since rich cuts a
text at a cell in a time that grows with the square of its length; two thousand take a seventh of a second at worst."""
SAID_SECONDS = 5.0
"""Least time between two notices that a line takes no more."""


class Choices(Keyed, OptionList, inherit_bindings=False):
    """An `OptionList` of `Content`; the keys are those of the other lists."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor_up", "Line up", show=False),
        Binding("down,j", "cursor_down", "Line down", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home", "first", "First line", show=False),
        Binding("end", "last", "Last line", show=False),
        Binding("enter", "select", "Choose", show=False),
    ]

    def _move_page(self, direction: Literal[-1, 1]) -> None:
        with suppress(KeyError):  # a key before the list is laid out
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
        """Another value was chosen."""

    def __init__(self, values: Sequence[str], at: int = 0, *, id: str | None = None) -> None:
        """`values` are shown as given, in this order."""
        super().__init__(id=id)
        self._values, self._at = values, at

    @property
    def at(self) -> int:
        """Index of the chosen value."""
        return self._at

    def action_step(self, by: int) -> None:
        """Goes to another value; behind the last comes the first."""
        if len(self._values) > 1:
            self._at = (self._at + by) % len(self._values)
            self.refresh()
            self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """A click on the left end goes back, elsewhere on."""
        self.action_step(-1 if event.x < 3 else 1)

    def render(self) -> RenderResult:
        """The value between the signs of both directions."""
        value = one_line(self._values[self._at], 80) if self._values else ""
        place = f"   {self._at + 1} of {len(self._values)}" if len(self._values) > 1 else ""
        line = Content.assemble(
            ("‹ ", "$tone-accent"), value, (" ›", "$tone-accent"), (place, "$tone-muted")
        )
        return line.truncate(self.size.width, ellipsis=True)


class LineInput(Input):
    """Textual's input for at most `MOST_TYPED` characters; what would be more is not taken, and a notice says so."""

    def __init__(self, value: str | None = None, **options: Any) -> None:
        """Takes the options of `textual.widgets.Input`."""
        super().__init__(value, max_length=MOST_TYPED, **options)
        self._said_at = -SAID_SECONDS

    def replace(self, text: str, start: int, end: int) -> None:
        """As Textual; a longer value that was there before can be shortened."""
        self.max_length = max(MOST_TYPED, len(self.value))
        super().replace(text, start, end)

    def restricted(self) -> None:
        """Says why what was typed or pasted was not taken, once for a key that is held."""
        now = time.monotonic()
        if now - self._said_at > SAID_SECONDS:
            self._said_at = now
            self.notify(
                f"A line takes at most {MOST_TYPED:,} characters; this was not added.",
                severity="warning",
                markup=False,
            )


class Card(Keyed, Vertical, can_focus=True):
    """A box of figures; enter or a click leads to the conversations behind them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "Go there", show=False)]

    class Opened(Message):
        """The card was chosen."""

        def __init__(self, card: Card) -> None:
            super().__init__()
            self.card = card

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id, classes="card")
        self.border_title = Content(title)

    def action_open(self) -> None:
        """Says that it was chosen."""
        self.post_message(self.Opened(self))

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        event.stop()
        self.action_open()
