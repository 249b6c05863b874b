"""The dialog with the records that could not be imported: where each stands, why, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from engine.conversations.records import QuarantineRow
from engine.opener.conversations import ConversationService
from screens.shell.dialogs.reading import ReadingDialog
from screens.widgets.background import background
from screens.widgets.text.pane import TextPane

MOST_RECORDS = 200
"""Records that are shown; `workbench status` counts all."""
MOST_CHARACTERS = 2_000
"""Characters that are shown of a record."""


class QuarantineDialog(ReadingDialog):
    """Lists the records in the quarantine, in the order of import."""

    WHAT = "the records"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close"),
        Binding("q,Q", "dismiss(None)", "Close at once"),
        Binding("slash", "find", "Find"),
        Binding("n", "hit(1)", "Next hit"),
        Binding("N", "hit(-1)", "Previous hit"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, conversations: ConversationService) -> None:
        super().__init__()
        self._conversations = conversations

    def title_line(self) -> Content:
        """What it is."""
        return Content("Records that could not be imported")

    def on_mount(self) -> None:
        """Reads the records."""

        def read() -> str:
            rows = self._conversations.quarantined(MOST_RECORDS)
            return quarantine_text(rows, self._conversations.counts().quarantined)

        background(self, read, self.query_one(TextPane).show, self.show_error, group="quarantine")


def quarantine_text(rows: Sequence[QuarantineRow], count: int) -> str:
    """File, line, reason and text of each record, and how many of the `count` ones are not shown."""
    if not rows:
        return "The quarantine is empty: every record that was read is a conversation."
    parts = []
    for row in rows:
        where = row.source if row.line is None else f"{row.source}, line {row.line:,}"
        text = row.raw.decode("utf-8", errors="replace")
        cut = f"\n(and {len(text) - MOST_CHARACTERS:,} characters)"
        shown = text[:MOST_CHARACTERS] + (cut if len(text) > MOST_CHARACTERS else "")
        parts.append(f"{where}: {row.reason}\n{shown.rstrip()}")
    if count > len(rows):
        parts.append(f"and {count - len(rows):,} more")
    return "\n\n".join(parts)
