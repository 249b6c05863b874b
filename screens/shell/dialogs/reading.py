"""A dialog that shows one long text, with search and copy."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from engine.base.errors import WorkbenchError
from screens.shell.clipboard import copy
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.widgets.text.find_line import FindLine
from screens.widgets.text.finding import plain_pattern
from screens.widgets.text.finding_view import FindingView
from screens.widgets.text.pane import TextPane


class ReadingDialog(Dialog[None]):
    """Base of the dialogs that show a text. Each lists its own bindings, so that a keymap can set them apart."""

    AUTO_FOCUS = "TextPane"
    WHAT: ClassVar[str]
    """Name of the text for the notice after copying."""
    OWN_HINTS: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys and meanings that this dialog adds to the last line."""

    def title_line(self) -> Content:
        """The title on the border."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The text, a line to find in it, keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = self.title_line()
            yield TextPane()
            yield FindLine()
            yield Static(
                hint_line(
                    ("escape", "closes"),
                    ("↑↓", "scroll"),
                    ("/", "finds"),
                    ("n N", "hits"),
                    *self.OWN_HINTS,
                    ("y", "copies"),
                )
            )

    def show_error(self, error: WorkbenchError) -> None:
        """Says in place of the text why it cannot be read."""
        self.query_one(TextPane).show(f"{error.message}\n{error.hint}")

    def action_find(self) -> None:
        """Opens the find line."""
        self.query_one(FindLine).open()

    def action_hit(self, delta: int) -> None:
        """Goes to another hit."""
        self.query_one(TextPane).go_to_hit(delta)

    def action_copy(self) -> None:
        """Copies the text."""
        copy(self, self.query_one(TextPane).text, self.WHAT)

    def action_leave(self) -> None:
        """Closes the find line, and when it is closed the dialog."""
        line = self.query_one(FindLine)
        if line.is_open:
            line.close()
        else:
            self.dismiss(None)

    def on_find_line_changed(self, message: FindLine.Changed) -> None:
        """Looks for what is typed."""
        self.query_one(TextPane).look_for(plain_pattern(message.text), jump=True)

    def on_find_line_stepped(self, message: FindLine.Stepped) -> None:
        """Goes to another hit while typing."""
        self.action_hit(message.delta)

    def on_find_line_exited(self) -> None:
        """Goes back to the text."""
        self.query_one(TextPane).focus()

    def on_finding_view_found(self, message: FindingView.Found) -> None:
        """Shows how much was found."""
        self.query_one(FindLine).say(message.words)
