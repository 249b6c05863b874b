"""Taking the text of a conversation elsewhere: to the clipboard, a pager or an editor."""

from __future__ import annotations

import os

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

from engine import number_format
from engine.errors import WorkbenchError
from engine.services.services import Services
from screens.reader import external_programs
from screens.shell.clipboard import copy
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.conversation_facts import Facts
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.transcript import Transcript

TAKING_KEYS: tuple[BindingType, ...] = (
    Binding("y", "copy_message", "Copy", tooltip="Copy this message"),
    Binding("Y", "copy_all", "Copy everything", show=False, tooltip="Copy the conversation"),
    Binding("P", "outside('pager')", "Pager", show=False, tooltip="Open in $PAGER"),
    Binding("E", "outside('editor')", "Editor", show=False, tooltip="Open in $EDITOR"),
)


class TakingText(WorkbenchScreen[int]):
    """A screen that shows one conversation in a `Transcript`, with the actions of `TAKING_KEYS`."""

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self._facts: Facts | None = None

    def action_copy_message(self) -> None:
        """Copies the current message."""
        message = self.query_one(Transcript).message
        if message is not None:
            copy(
                self,
                external_programs.message_text(message),
                f"message {message.index + 1}, {message.role}",
            )

    def action_copy_all(self) -> None:
        """Copies the conversation as a log."""
        if self._facts is not None:
            messages = self._facts.messages
            what = f"the conversation, {number_format.counted(len(messages), 'message')}"
            self.in_background(
                lambda: external_programs.log_text(messages),
                lambda text: copy(self, text, what),
                group="log",
            )

    def action_outside(self, kind: external_programs.Outside) -> None:
        """Opens the conversation in the person's pager or editor."""
        if self._facts is not None:
            messages = self._facts.messages
            self.in_background(
                lambda: (
                    external_programs.command(kind, os.environ),
                    external_programs.log_text(messages),
                ),
                lambda found: self._show_outside(*found),
                group="log",
            )

    def _show_outside(self, words: list[str], text: str) -> None:
        try:
            with self.app.suspend():
                external_programs.show(words, text)
        except SuspendNotSupported:
            self.show_error(
                WorkbenchError(
                    "This terminal cannot be handed to another program.",
                    "Y copies the conversation instead.",
                )
            )
        except WorkbenchError as error:
            self.show_error(error)
