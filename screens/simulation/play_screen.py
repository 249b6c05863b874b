"""One play (a simulated conversation): every call of a model with its reply, and what the model saw."""

from __future__ import annotations

from array import array
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from engine.simulate.records import PlayItem, TranscriptLine
from screens.shell.exporting import copy
from screens.shell.title_line import TitleLine
from screens.shell.workbench_screen import WorkbenchScreen
from screens.simulation import formatting
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import ItemTable, RowTable
from screens.widgets.text_pane import TextPane

_MAX_NAME_CHARS = 100
"""Most characters of the name of the play."""

_MAX_RESULT_CHARS = 200
"""Most characters of the result, or of why the play broke off."""


class PlayScreen(WorkbenchScreen[None]):
    """Goes through the calls of one play."""

    PLACE = "play"
    AUTO_FOCUS = "#calls"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "conversation", "Conversation", tooltip="Read the conversation it became"),
        Binding("y", "copy", "Copy", tooltip="Copy the call under the cursor with its reply"),
        Binding("escape", "leave", "Back", tooltip="From the text to the calls, or back"),
        Binding("q", "close", "Close", show=False, tooltip="Go back"),
    ]

    def __init__(self, services: OpenProject, feed: EngineFeed, item: PlayItem, mode: str) -> None:
        super().__init__(services, feed, mode)
        self._item = item
        self._lines: list[TranscriptLine] = []
        self.table = ItemTable(formatting.call_columns(), lambda call: call.place, id="calls")

    def compose_body(self) -> ComposeResult:
        """Yields the result, calls, and the call under the cursor."""
        yield Static(id="result")
        yield self.table
        yield TextPane(id="call")

    def on_mount(self) -> None:
        """Sets the title."""
        super().on_mount()
        self.query_one(TitleLine).say(Content.styled("Transcript", "bold"))

    def refresh_data(self) -> None:
        """Reads the transcript; it never changes."""
        simulations, play = self.services.simulations, self._item.id
        if not self._lines:
            self.in_background(lambda: simulations.transcript(play), self._show, group="calls")

    def _show(self, lines: list[TranscriptLine]) -> None:
        """Lists the calls."""
        self._lines = lines
        item = self._item
        result = item.summary if item.reason is None else f"broke off: {item.reason}"
        self.query_one("#result", Static).update(
            Content.assemble(
                (one_line(item.name, _MAX_NAME_CHARS), "bold"),
                f" · {number_format.counted(len(lines), 'call')}",
                (f" · {one_line(result, _MAX_RESULT_CHARS)}" if result else "", "$tone-muted"),
            )
        )
        self.table.show_items(
            formatting.PlacedCall(place, line) for place, line in enumerate(lines)
        )
        self._show_call()

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the call under the cursor."""
        self._show_call()

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Goes to the text of the call."""
        self.query_one(TextPane).focus()

    @property
    def _line(self) -> TranscriptLine | None:
        """The call under the cursor."""
        return None if self.table.here is None else self.table.here.line

    def _show_call(self) -> None:
        """Shows the call under the cursor whole."""
        line = self._line
        pane = self.query_one(TextPane)
        text = (
            "No call: it asked no model for anything."
            if line is None
            else formatting.call_text(line)
        )
        if text != pane.text:
            pane.show(text)

    def action_conversation(self) -> None:
        """Opens the conversation that came of the play."""
        key = self._item.conversation_id
        if key is None:
            self.notify("No conversation came of this play.", markup=False)
            return
        self.open_reader(array("q", [key]), 0)

    def action_copy(self) -> None:
        """Copies the call."""
        if (line := self._line) is not None:
            copy(self, formatting.call_text(line), "the call")

    def action_leave(self) -> None:
        """Goes from the text to the calls; from them back to the screen before."""
        if self.query_one(TextPane).has_focus:
            self.table.focus()
        else:
            self.dismiss(None)
