"""A box of figures that leads to the conversations behind them."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from screens.widgets.keyed import Keyed


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
