"""The dialog with the account of what was imported: for each source the format and why, and where its text went."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.base.text import end_of_path
from engine.conversations.service.import_accounts import stored_accounts, stored_files
from engine.opener.conversations import ConversationService
from screens.shell.dialogs.basic import ChoiceDialog
from screens.shell.dialogs.mapping import MappingDialog
from screens.shell.dialogs.reading import ReadingDialog
from screens.widgets.background import background
from screens.widgets.text.pane import TextPane


class SourcesDialog(ReadingDialog):
    """Shows what was read from each source, and asks where one has its messages."""

    WHAT = "the account"
    OWN_HINTS = (("m", "maps a file"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close"),
        Binding("q,A", "dismiss(None)", "Close at once"),
        Binding("m", "map", "Where", tooltip="Say where a file has its messages, and import it so"),
        Binding("slash", "find", "Find"),
        Binding("n", "hit(1)", "Next hit"),
        Binding("N", "hit(-1)", "Previous hit"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(
        self, conversations: ConversationService, import_mapped: Callable[[str, str], None]
    ) -> None:
        """
        Args:
            import_mapped: Imports a file in a format, and replaces what was read from it before.
        """
        super().__init__()
        self._conversations = conversations
        self._import = import_mapped

    def title_line(self) -> Content:
        """What it is."""
        return Content("What was read from each source")

    def on_mount(self) -> None:
        """Reads the reports."""
        background(
            self,
            lambda: stored_accounts(self._conversations.reports(), self._conversations.checks()),
            self.query_one(TextPane).show,
            self.show_error,
            group="sources",
        )

    def action_map(self) -> None:
        """Asks which file, if there are several, and where it has its messages."""
        background(
            self,
            lambda: stored_files(self._conversations.reports()),
            self._choose,
            self.show_error,
            group="files",
        )

    def _choose(self, files: list[tuple[str, bool]]) -> None:
        if not files:
            self.notify("None of the files is there any more.", markup=False)
        elif len(files) == 1:
            self._map(files[0][0])
        else:
            named = [
                (path, ("not well read: " if badly else "") + end_of_path(path, 60))
                for path, badly in files
            ]
            self.app.push_screen(ChoiceDialog("Which file?", named), self._map)

    def _map(self, path: str | None) -> None:
        if path is None:
            return

        def saved(name: str | None) -> None:
            if name is not None:
                self.dismiss(None)
                self._import(path, name)

        self.app.push_screen(MappingDialog(path), saved)
