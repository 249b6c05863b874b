"""The dialog with the account of what was imported: for each source the format and why, and where its text went."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.services.import_accounts import stored_accounts
from engine.services.services import ConversationStore
from screens.shell.reading_dialog import ReadingDialog
from screens.widgets.background import background
from screens.widgets.text_pane import TextPane


class SourcesDialog(ReadingDialog):
    """Shows what was read from each source."""

    WHAT = "the account"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close"),
        Binding("q,A", "dismiss(None)", "Close at once"),
        Binding("slash", "find", "Find"),
        Binding("n", "hit(1)", "Next hit"),
        Binding("N", "hit(-1)", "Previous hit"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, conversations: ConversationStore) -> None:
        super().__init__()
        self._conversations = conversations

    def title_line(self) -> Content:
        """What it is."""
        return Content("What was read from each source")

    def on_mount(self) -> None:
        """Reads the reports."""
        background(
            self,
            lambda: stored_accounts(self._conversations.reports()),
            self.query_one(TextPane).show,
            self.show_error,
            group="sources",
        )
