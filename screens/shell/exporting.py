"""What leaves the program: copies on the clipboard, and files under a name that a person types."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from textual.app import App
from textual.widget import Widget

from engine.base import number_format
from engine.base.text import PATH_LIMIT, one_line
from screens.shell.dialogs import ChoiceDialog, TextDialog, ask
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
    write: Callable[[str], int | str],
) -> None:
    """Asks for the name of a new file, and writes it.

    Args:
        proposed: The name that is filled in at first.
        write: Writes a new file at a path, on another thread. Returns the number of its lines, which a notice tells,
            or the text of the notice.
    """

    def on_choice(text: str) -> None:
        """Writes the file, and tells how it went; nothing without a name."""
        if not text.strip():
            return
        path = os.path.expanduser(text.strip())

        def notify(result: int | str) -> None:
            if isinstance(result, str):
                screen.notify(result, markup=False, timeout=LONG_NOTICE)
                return
            lines = number_format.counted(result, "line")
            screen.notify(f"Wrote {lines} to {one_line(path, PATH_LIMIT)}.", markup=False)

        screen.in_background(lambda: write(path), notify, group=f"export {path}")

    ask(screen, TextDialog(title, value=proposed, placeholder="a new file"), on_choice)


def ask_export(
    screen: WorkbenchScreen[Any],
    title: str,
    kinds: Sequence[tuple[ExportKind, str]],
    ids: Sequence[int] | None,
) -> None:
    """Asks what to export, then for the file, and writes it.

    Args:
        kinds: What can be exported, each with words for it.
        ids: Of the conversations to export; None for all.
    """
    exports = screen.services.exports

    def on_choice(kind: ExportKind | Literal["forms"]) -> None:
        """Asks for the form of conversations first where another program reads them."""
        if kind == "forms":
            _ask_form(screen, ids)
        else:
            ask_file(
                screen,
                f"Write {kind} to",
                f"{kind}.jsonl",
                lambda path: exports.export(kind, ids, path),
            )

    choices: list[tuple[ExportKind | Literal["forms"], str]] = [*kinds]
    if any(kind == "conversations" for kind, _ in kinds):
        choices.append(("forms", "conversations for another program, or for people to judge"))
    ask(screen, ChoiceDialog(title, choices), on_choice)


def _ask_form(screen: WorkbenchScreen[Any], ids: Sequence[int] | None) -> None:
    """Asks for the form in which conversations are exported, then for the file, and writes it."""

    def write(form: ConversationForm, path: str) -> str:
        """Writes the files of a form; returns what was written and what the form has no place for, in sentences."""
        count, files, losses = screen.services.exports.export_form(form, ids, path)
        places = " and ".join(one_line(str(file.absolute()), PATH_LIMIT) for file in files)
        return " ".join([f"Wrote {number_format.counted(count, 'line')} to {places}.", *losses])

    def on_choice(form: ConversationForm) -> None:
        """Asks for the file, and writes conversations in this form."""
        from engine.opener.conversation_forms import ENDINGS  # it brings all forms

        ask_file(
            screen,
            f"Write conversations ({form}) to",
            f"conversations-{form}.{ENDINGS[form]}",
            lambda path: write(form, path),
        )

    ask(screen, ChoiceDialog("Export conversations for", FORMS), on_choice)
