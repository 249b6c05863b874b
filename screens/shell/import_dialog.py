"""The dialog that asks for a file or folder to import, with completion of paths."""

from __future__ import annotations

import os
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Input, Static

from engine.text import display_safe
from screens.shell.dialogs import Dialog, hint_line
from screens.widgets.background import in_thread


class PathSuggester(Suggester):
    """Completes a path with the first file or folder that begins so; a folder ends with a slash."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        """The completed path as it is typed, with `~` kept; None when nothing begins so."""
        return await in_thread(lambda: completed(value))


def completed(value: str) -> str | None:
    """The path that completes what is typed; None when nothing begins so, or when it has no safe name."""
    folder, begun = os.path.split(value)
    if not begun:
        return None
    try:
        with os.scandir(os.path.expanduser(folder) or os.curdir) as entries:
            found = sorted(
                entry.name + (os.sep if entry.is_dir() else "")
                for entry in entries
                if entry.name.startswith(begun)
            )
    except OSError:
        return None
    if not found or display_safe(found[0]) != found[0]:
        return None
    return os.path.join(folder, found[0])


class ImportDialog(Dialog[str | None]):
    """Asks for a file or folder; answers with its path, or None. A path that is not there stays, to be mended."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        # before the next field, of which there is none
        Binding("tab", "complete", "Complete the path", priority=True),
    ]

    def compose(self) -> ComposeResult:
        """Path, what is wrong with it, what is read, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Import conversations")
            yield Input(
                placeholder="a .json, .jsonl or .gz file, or a folder", suggester=PathSuggester()
            )
            yield Static(self._formats(), id="problem")
            keys = (("enter", "imports"), ("tab", "completes"), ("escape", "cancels"))
            yield Static(hint_line(*keys))

    def _formats(self) -> Content:
        return Content.styled(
            "JSON and JSON lines, plain or gzip; the format is detected and told. CSV is not read.",
            "$tone-muted",
        )

    def on_input_changed(self) -> None:
        """What was wrong may be mended now."""
        self.query_one("#problem", Static).update(self._formats())

    def action_complete(self) -> None:
        """Takes the completion over."""
        self.query_one(Input).action_cursor_right()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers if the path is there and can be read; else it says why not."""
        path = os.path.expanduser(event.value.strip())
        if not path:
            self.dismiss(None)
            return
        problem = ""
        if not os.path.exists(path):
            problem = f"There is no file or folder {path}."
        elif path.lower().endswith((".csv", ".tsv", ".csv.gz")):
            problem = "CSV is not read. Write one JSON object a line, with id and messages."
        if problem:
            shown = Content.styled(display_safe(problem), "$tone-incomplete")
            self.query_one("#problem", Static).update(shown)
        else:
            self.dismiss(path)
