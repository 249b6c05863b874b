"""The search line, with the number of hits at its end."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from screens.widgets.keyed import Keyed
from screens.widgets.line_input import LineInput

DELAY = 0.12
"""Seconds without a key before what is typed is looked for."""


class FindLine(Keyed, Horizontal):
    """Hidden until it is opened. Enter moves to the text and keeps the hits; escape ends the search."""

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

    class Changed(Message):
        """Posted with the text to search for; empty to end the search."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Stepped(Message):
        """Posted to go to the next (1) or previous (-1) hit."""

        def __init__(self, delta: int) -> None:
            super().__init__()
            self.delta = delta

    class Exited(Message):
        """Posted when the focus should go back to the text."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._timer: Timer | None = None
        self._text = ""

    def compose(self) -> ComposeResult:
        """Mark, input, count."""
        yield Static("/", id="find-mark")
        yield LineInput(placeholder="find in this text")
        yield Static(id="find-count")

    @property
    def is_open(self) -> bool:
        """Whether the line is in sight."""
        return self.has_class("-open")

    def open(self) -> None:
        """Shows the line and takes the keys."""
        self.add_class("-open")
        self.query_one(Input).focus()

    def say(self, words: str) -> None:
        """Shows the count."""
        self.query_one("#find-count", Static).update(Content(words))

    def show_words(self, words: str) -> None:
        """Shows words that are searched for already, without starting a search."""
        self._text = words
        box = self.query_one(Input)
        with box.prevent(Input.Changed):
            box.value = words
        self.add_class("-open")

    def close(self) -> None:
        """Forgets what was typed and hides the line."""
        self._stop()
        box = self.query_one(Input)
        with box.prevent(Input.Changed):
            box.value = ""
        self._text = ""
        self.remove_class("-open")
        self.post_message(self.Changed(""))
        self.post_message(self.Exited())

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Searches once no key was pressed for a moment."""
        event.stop()
        self._stop()
        self._timer = self.set_timer(DELAY, self._send)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter looks at once and goes to the text; with nothing typed it closes the line."""
        event.stop()
        if not event.value.strip():
            self.close()
            return
        self._send()
        self.post_message(self.Exited())

    def _send(self) -> None:
        self._stop()
        text = self.query_one(Input).value
        if text != self._text:
            self._text = text
            self.post_message(self.Changed(text))

    def action_give_up(self) -> None:
        """Forgets what was typed and hides the line."""
        self.close()

    def action_step(self, delta: int) -> None:
        """Asks for another hit without leaving the line."""
        self.post_message(self.Stepped(delta))
