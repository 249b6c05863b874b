"""What leaves the program: copies on the clipboard, and files under a name that a person types."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from textual.app import App
from textual.widget import Widget

from engine.base import number_format
from engine.base.text import one_line
from screens.shell.dialogs import ChoiceDialog, TextDialog
from screens.shell.workbench_screen import WorkbenchScreen

if TYPE_CHECKING:
    from engine.opener.conversation_forms import ConversationForm
    from engine.opener.exports import ExportKind


TERMINAL_LIMIT = 74_000
"""Characters that every common terminal accepts; some silently drop a longer text."""
FORMS: tuple[tuple[ConversationForm, str], ...] = (
    ("openai", "OpenAI: chat messages"),
    ("anthropic", "Anthropic: Messages"),
    ("sharegpt", "ShareGPT: turns from and value"),
    ("inspect", "Inspect AI: a log"),
    ("csv", "CSV: a row for each message"),
    ("parquet", "Parquet: a row for each message"),
    ("label-studio", "Label Studio: tasks to judge, and labels"),
)
"""The forms that conversations can be written in. Losses are shown after the export."""
LONG_NOTICE = 20
"""Seconds for a notice of several sentences."""


def copy(widget: Widget, text: str, what: str) -> None:
    """Copies a text unchanged and notifies; `what` names it in the notice, as in `message 4`."""
    app: App[object] = widget.app
    app.copy_to_clipboard(text)
    size = number_format.counted(len(text), "character")
    message = f"Copied {what}: {size}."
    if len(text) > TERMINAL_LIMIT:
        message += f" Some terminals take no more than {TERMINAL_LIMIT:,}."
    widget.notify(message, markup=False)


def ask_file(
    screen: WorkbenchScreen[Any],
    title: str,
    proposed: str,
    write: Callable[[str], int | str | None],
) -> None:
    """Asks for the name of a new file, and writes it.

    Args:
        proposed: The name that is filled in at first.
        write: Writes a new file at a path and returns its number of lines; None if that is not to be shown, and a text
            if that is to be shown in its place. Runs in a thread.
    """

    def on_choice(path: str | None) -> None:
        """Writes the file and says so."""
        if path is None or not path.strip():
            return
        place = os.path.expanduser(path.strip())
        shown = one_line(place, 120)

        def notify(count: int | str | None) -> None:
            """Says how many lines were written, or what `write` has to say."""
            if isinstance(count, str):
                screen.notify(count, markup=False, timeout=LONG_NOTICE)
                return
            lines = "" if count is None else f"{number_format.counted(count, 'line')} to "
            screen.notify(f"Wrote {lines}{shown}.", markup=False)

        screen.in_background(lambda: write(place), notify, group=f"export {place}")

    screen.app.push_screen(TextDialog(title, value=proposed, placeholder="a new file"), on_choice)


def ask_export(
    screen: WorkbenchScreen[Any],
    title: str,
    kinds: Sequence[tuple[ExportKind, str]],
    ids: Sequence[int] | None,
) -> None:
    """Asks what to export, then for the file.

    Args:
        kinds: What may be written, with words for each.
        ids: Of the conversations it is about; None for all.
    """
    exports = screen.services.exports

    def on_choice(kind: ExportKind | Literal["forms"] | None) -> None:
        if kind == "forms":
            _ask_form(screen, ids)
        elif kind is not None:
            ask_file(
                screen,
                f"Write {kind} to",
                f"{kind}.jsonl",
                lambda path: exports.export(kind, ids, path),
            )

    choices: list[tuple[ExportKind | Literal["forms"], str]] = [*kinds]
    if any(kind == "conversations" for kind, _ in kinds):
        choices.append(("forms", "conversations for another program, or for people to judge"))
    screen.app.push_screen(ChoiceDialog(title, choices), on_choice)


def _ask_form(screen: WorkbenchScreen[Any], ids: Sequence[int] | None) -> None:
    """Asks for the form of conversations, then for the file."""
    exports = screen.services.exports

    def write(form: ConversationForm, path: str) -> str:
        """Writes the files of a form; returns what was written and what the form has no place for, in sentences."""
        count, files, losses = exports.export_form(form, ids, path)
        places = " and ".join(one_line(str(file.absolute()), 120) for file in files)
        return " ".join([f"Wrote {number_format.counted(count, 'line')} to {places}.", *losses])

    def on_choice(form: ConversationForm | None) -> None:
        """Asks for the file of this form."""
        if form is None:
            return
        from engine.opener.conversation_forms import ENDINGS  # it brings all forms

        ask_file(
            screen,
            f"Write conversations ({form}) to",
            f"conversations-{form}.{ENDINGS[form]}",
            lambda path: write(form, path),
        )

    screen.app.push_screen(ChoiceDialog("Export conversations for", FORMS), on_choice)
