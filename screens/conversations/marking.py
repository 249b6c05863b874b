"""Marking conversations in a list, and what can be done with the marked ones: copy names, tag, export."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from engine import number_format
from engine.records.conversations import ConversationRow
from engine.services.exports import ExportKind
from engine.services.services import Services
from engine.text import one_line
from screens.shell.dialogs import TextDialog
from screens.shell.marking import Marking
from screens.shell.save_dialogs import ask_export
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.engine_feed import EngineFeed
from screens.widgets.marks import Marks
from screens.widgets.row_table import RowTable

MOST_COPIED = 10_000
"""Names that are put on the clipboard: a terminal takes them as one escape sequence."""
EXPORT_KINDS: tuple[tuple[ExportKind, str], ...] = (
    ("conversations", "conversations, as they can be imported again"),
    ("scores", "scores, with their curves"),
    ("verdicts", "verdicts, notes and tags"),
)


MARKING_KEYS: tuple[BindingType, ...] = (
    Binding("space", "mark", "Mark", tooltip="Mark or unmark, and go on"),
    Binding("v", "mark_range", "Range", tooltip="Mark from the last mark to here", show=False),
    Binding("a", "mark_all", "All", tooltip="Mark everything that is listed", show=False),
    Binding("A", "mark_none", "None", tooltip="Take all marks away", show=False),
    Binding(
        "y", "copy_names", "Copy", tooltip="Copy the names of the marked ones or this", show=False
    ),
    Binding("t", "tag", "Tag", tooltip="Tag or untag the marked ones or this"),
    Binding("X", "export", "Export", tooltip="Export what is marked or listed", show=False),
)


class MarkingScreen(Marking, WorkbenchScreen[None]):
    """A list whose rows can be marked. An action takes the marked conversations, else the one under the cursor."""

    table: RowTable[ConversationRow]

    def __init__(self, services: Services, feed: EngineFeed) -> None:
        super().__init__(services, feed)
        self.marks = Marks()

    def action_copy_names(self) -> None:
        """Puts names on the clipboard, a line each, as they were imported."""
        meant = self._meant()
        if len(meant) > MOST_COPIED:
            self.notify(
                f"{len(meant):,} names are too many for a clipboard; X exports to a file.",
                severity="warning",
                markup=False,
            )
        elif meant:
            self.in_background(
                lambda: self.services.conversations.rows(meant), self._copy, group="copy"
            )

    def _copy(self, rows: list[ConversationRow]) -> None:
        self.app.copy_to_clipboard("\n".join(row.external_id for row in rows))
        told = one_line(rows[0].external_id, 60) if len(rows) == 1 else f"{len(rows):,} names"
        self.notify(f"Copied {told}.", markup=False)

    def action_tag(self) -> None:
        """Asks for a tag and gives it, or with a minus before it takes it away."""
        meant = self._meant()
        if not meant or not self.may_write():
            return
        number = number_format.counted(len(meant), "conversation")

        def chosen(text: str | None) -> None:
            words = " ".join((text or "").split())
            away, tag = words.startswith("-"), words.removeprefix("-").strip()
            if not tag:
                return
            triage = self.services.triage
            write_in_order(
                self,
                lambda: triage.untag(meant, tag) if away else triage.tag(meant, tag),
                lambda _: self.notify(
                    f"{'Untagged' if away else 'Tagged'} {number}: {one_line(tag, 60)}.",
                    markup=False,
                ),
                self.show_error,
            )

        self.app.push_screen(
            TextDialog(f"Tag {number}", placeholder="a tag; -tag takes it away"), chosen
        )

    def action_export(self) -> None:
        """Asks what to write and where, and writes it."""
        meant = self.marks.chosen(self.table.ids) if self.marks else self.table.ids
        if not meant:
            self.notify("There is nothing to export.", markup=False)
            return
        which = "marked" if self.marks else "listed"
        number = f"{number_format.counted(len(meant), 'conversation')} ({which})"

        ask_export(self, f"Export {number}", EXPORT_KINDS, meant)
