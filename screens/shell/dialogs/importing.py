"""The dialog that asks for a file or folder to import, with completion of paths and a tree to browse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.suggester import Suggester
from textual.widgets import Input, Static

from engine.base.text import display_safe
from engine.conversations.service.mapping_draft import refusal_of
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.shell.dialogs.browsing import BrowseDialog
from screens.shell.dialogs.mapping import MappingDialog
from screens.widgets.background import background, in_thread
from screens.widgets.line_input import LineInput


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
    except (OSError, ValueError):  # ValueError: a zero byte or a lone surrogate was pasted
        return None
    if not found or display_safe(found[0]) != found[0]:
        return None
    return os.path.join(folder, found[0])


class ImportDialog(Dialog[tuple[str, str | None] | None]):
    """Asks for a file or folder; answers with its path and the format to read it in (None: that which is detected), or
    with None. A path that is not there stays, to be mended."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding(
            "ctrl+t",
            "map",
            "Say where",
            tooltip="Say where the messages are, in a file of any format",
        ),
        Binding("down", "browse", "Browse", tooltip="Choose a file or a folder in a tree"),
        # before the next field, of which there is none
        Binding("tab", "complete", "Complete the path", priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._refused: str | None = None

    def compose(self) -> ComposeResult:
        """Path, what is wrong with it, what is read, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content("Import conversations")
            yield LineInput(
                placeholder="a file, an archive or a folder of logs", suggester=PathSuggester()
            )
            yield Static(self._formats(), id="problem")
            keys = (
                ("enter", "imports"),
                ("tab", "completes"),
                ("↓", "browses"),
                ("^t", "maps"),
            )
            yield Static(hint_line(*keys, ("escape", "cancels")))

    def _formats(self) -> Content:
        return Content.styled(
            "JSON, CSV, Parquet, SQLite, text; compressed or in archives. The format is detected and shown.",
            "$tone-muted",
        )

    def on_input_changed(self) -> None:
        """What was wrong may be mended now."""
        self._refused = None
        self.query_one("#problem", Static).update(self._formats())

    def action_complete(self) -> None:
        """Takes the completion over."""
        self.query_one(Input).action_cursor_right()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers if the path can be read; else it says why not, and again asks where the messages are."""
        path = os.path.expanduser(event.value.strip())
        if not path:
            self.dismiss(None)
        elif not os.path.exists(path):
            self._tell(f"There is no file or folder {path}.")
        elif not os.path.isfile(path):
            self.dismiss((path, None))
        elif path == self._refused:
            self._map(path)
        else:
            background(
                self,
                lambda: refusal_of(path),
                lambda refusal: self._checked(path, refusal),
                self.show_error,
                group="check",
            )

    def action_browse(self) -> None:
        """Shows the folder of the path that is typed, or the nearest one above it that exists, to choose in."""
        typed = Path(os.path.expanduser(self.query_one(Input).value.strip())).absolute()
        folder = next(one for one in (typed, *typed.parents) if os.path.isdir(one))
        self.app.push_screen(BrowseDialog(folder), self._browsed)

    def _browsed(self, path: str | None) -> None:
        """Puts the path that was taken into the field; enter imports it."""
        if path is not None:
            field = self.query_one(Input)
            field.value = path
            field.cursor_position = len(path)
            field.focus()

    def action_map(self) -> None:
        """Asks where the messages of the file are, whether it can be read without that or not."""
        path = os.path.expanduser(self.query_one(Input).value.strip())
        if os.path.isfile(path):
            self._map(path)
        else:
            self._tell("Type the path of a file first; of a folder, that of one of its files.")

    def _map(self, path: str) -> None:
        self.app.push_screen(MappingDialog(path), lambda saved: self._mapped(path, saved))

    def _checked(self, path: str, refusal: str | None) -> None:
        if refusal is None:
            self.dismiss((path, None))
            return
        self._refused = path
        self._tell(f"{refusal} Enter again shows its fields, and asks where the messages are.")

    def _mapped(self, path: str, saved: str | None) -> None:
        if saved is not None:
            self.dismiss((path, saved))

    def _tell(self, problem: str) -> None:
        shown = Content.styled(display_safe(problem), "$tone-incomplete")
        self.query_one("#problem", Static).update(shown)
