"""The dialog that browses the folders for a file or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from rich.text import Text, TextType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import DirectoryTree, Static

from engine.base.text import display_safe, end_of_path
from screens.shell.dialogs.basic import Dialog, hint_line

_LONGEST_NAME = 60
_KEPT_OF_BEGINNING = 20


class FileTree(DirectoryTree):
    """Files and folders, with names of one line; of a long name both ends are shown, which tell it from others."""

    def process_label(self, label: TextType) -> Text:
        """The name as it is shown."""
        name = display_safe(str(label))
        if len(name) > _LONGEST_NAME:
            end = name[_KEPT_OF_BEGINNING + 1 - _LONGEST_NAME :]
            name = f"{name[:_KEPT_OF_BEGINNING]}…{end}"
        return Text(name)


class BrowseDialog(Dialog[str | None]):
    """Shows the files and folders of a folder; answers with the path of the one that is taken, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave"),
        Binding(
            "space", "take", "Take", tooltip="Take the file or the whole folder", priority=True
        ),
        Binding("backspace", "up", "Up", tooltip="Show the folder that this one is in"),
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder.absolute()

    def compose(self) -> ComposeResult:
        """The tree, keys."""
        with Vertical(classes="dialog browse") as box:
            box.border_title = self._title()
            tree = FileTree(self._folder)
            tree.guide_depth = 2
            yield tree
            keys = (("enter", "opens"), ("space", "takes the file or folder"))
            yield Static(hint_line(*keys, ("backspace", "up"), ("escape", "back")))

    def _title(self) -> Content:
        return Content(end_of_path(str(self._folder), 60))

    def action_take(self) -> None:
        """Answers with what the cursor is on, be it a file or a folder."""
        node = self.query_one(FileTree).cursor_node
        if node is not None and node.data is not None:
            self.dismiss(str(node.data.path))

    def action_up(self) -> None:
        """Shows the folder above."""
        self._folder = self._folder.parent
        self.query_one(FileTree).path = self._folder
        self.query_one(".browse").border_title = self._title()

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        """Enter on a file takes it."""
        self.dismiss(str(event.path))
