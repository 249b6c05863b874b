"""Copies the conversation to the clipboard, or opens it in a pager or an editor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from textual.app import SuspendNotSupported

from engine.base import number_format
from engine.base.errors import WorkbenchError
from engine.conversations.records import MessageRow
from screens.reader import external_programs
from screens.reader.external_programs import ProgramKind
from screens.shell.exporting import copy
from screens.shell.workbench_screen import WorkbenchScreen


def copy_message(screen: WorkbenchScreen[Any], message: MessageRow) -> None:
    """Copies one message as imported."""
    text = external_programs.message_text(message)
    copy(screen, text, f"message {message.index + 1}, {message.role}")


def copy_log(screen: WorkbenchScreen[Any], messages: Sequence[MessageRow]) -> None:
    """Copies a conversation as a log."""
    what = f"the conversation, {number_format.counted(len(messages), 'message')}"
    screen.in_background(
        lambda: external_programs.log_text(messages),
        lambda text: copy(screen, text, what),
        group="log",
    )


def open_in_program(
    screen: WorkbenchScreen[Any], messages: Sequence[MessageRow], kind: ProgramKind
) -> None:
    """Hands the terminal to the person's pager or editor, with the conversation as a log."""

    def show(found: tuple[list[str], str]) -> None:
        try:
            with screen.app.suspend():
                external_programs.show(*found)
        except SuspendNotSupported:
            screen.show_error(
                WorkbenchError(
                    "This terminal cannot be handed to another program.",
                    "Y copies the conversation instead.",
                )
            )
        except WorkbenchError as error:
            screen.show_error(error)

    screen.in_background(
        lambda: (
            external_programs.find_command(kind, os.environ),
            external_programs.log_text(messages),
        ),
        show,
        group="log",
    )
