"""Copies the conversation to the clipboard, or opens it in the pager or editor of the environment."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from textual.app import SuspendNotSupported

from engine.base import number_format
from engine.base.conversation import Message, render_log, with_calls, without_surrogates
from engine.base.errors import WorkbenchError
from engine.base.text import display_safe
from engine.conversations.records import MessageRow
from screens.reader import exporting
from screens.shell.exporting import copy
from screens.shell.workbench_screen import WorkbenchScreen


def copy_message(screen: WorkbenchScreen[Any], message: MessageRow) -> None:
    """Copies one message as imported."""
    text = exporting.message_text(message)
    copy(screen, text, f"message {message.index + 1}, {message.role}")


def copy_log(screen: WorkbenchScreen[Any], messages: Sequence[MessageRow]) -> None:
    """Copies a conversation as a log."""
    what = f"the conversation, {number_format.counted(len(messages), 'message')}"
    screen.in_background(
        lambda: exporting.log_text(messages),
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
                exporting.show(*found)
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
            exporting.find_command(kind, os.environ),
            exporting.log_text(messages),
        ),
        show,
        group="log",
    )


ProgramKind = Literal["pager", "editor"]


_VARIABLES: Mapping[ProgramKind, Sequence[str]] = {
    "pager": ("PAGER",),
    "editor": ("VISUAL", "EDITOR"),
}


_FALLBACKS: Mapping[ProgramKind, Sequence[str]] = {
    "pager": ("less", "more"),
    "editor": ("nano", "vim", "vi"),
}


def message_text(message: MessageRow) -> str:
    """Returns one message as imported, its calls below it."""
    text = message.content
    return without_surrogates(with_calls(text, message.tool_calls) if message.tool_calls else text)


def log_text(messages: Sequence[MessageRow]) -> str:
    """Returns a conversation as a log with everything as imported, also what is kept from the model."""
    plain = [
        Message(row.role, row.content, row.name, row.tool_calls, row.tool_call_id)
        for row in messages
    ]
    return without_surrogates("".join(piece.text for piece in render_log(plain)))


def find_command(kind: ProgramKind, environment: Mapping[str, str]) -> list[str]:
    """Returns the words of the command that the environment names, else of a usual program that is there.

    Raises:
        WorkbenchError: There is none, or what the environment names cannot be run.
    """
    for variable in _VARIABLES[kind]:
        named = environment.get(variable, "").strip()
        if not named:
            continue
        try:
            words = shlex.split(named)
        except ValueError:
            words = []
        if not words or shutil.which(words[0], path=environment.get("PATH")) is None:
            raise WorkbenchError(
                f"${variable} names “{named}”, which cannot be run.",
                f"Set ${variable} to a program that is installed, or unset it.",
            )
        return words
    for name in _FALLBACKS[kind]:
        if (found := shutil.which(name, path=environment.get("PATH"))) is not None:
            return [found]
    raise WorkbenchError(
        f"There is no {kind}: neither {', '.join(_FALLBACKS[kind])} is installed.",
        f"Set ${_VARIABLES[kind][-1]} to a program that shows a file.",
    )


def show(words: Sequence[str], text: str) -> None:
    """Runs a command on a read-only file with the text made display-safe, and deletes it afterwards.

    Raises:
        WorkbenchError: The command could not be run, or failed.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        path = Path(folder) / "conversation.txt"
        path.write_text(display_safe(text) + "\n", encoding="utf-8", newline="\n")
        path.chmod(0o400)
        try:
            code = subprocess.call([*words, os.fspath(path)])
        except OSError as error:
            raise WorkbenchError(f"{words[0]} could not be run: {error}.") from error
    if code != 0:
        raise WorkbenchError(f"{words[0]} ended with exit code {code}.")
