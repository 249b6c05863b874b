"""Two dialogs: merging two groups by hand, and choosing among the groups that are similar to one."""

from __future__ import annotations

from array import array
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from engine.base.text import one_line
from engine.goals.records import MemberRow, Proposal
from engine.goals.service.groups import GoalService
from screens.goals.formatting import member_columns
from screens.shell.app_interface import ReadingOrder
from screens.shell.dialogs import Dialog, hint_line
from screens.widgets.background import background
from screens.widgets.controls import LineInput
from screens.widgets.groups import group_line, label_of
from screens.widgets.merge_evidence import NARROW_COLUMNS, evidence_content, proposed_label
from screens.widgets.row_table import ItemTable, RowTable

MAX_SIMILAR = 50
"""Most conversations that are listed."""


class MergeDialog(Dialog[str | None]):
    """Shows two groups and the evidence for merging them; answers with the label of the merged group."""

    PLACE = "merge"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        self._proposal = proposal

    def compose(self) -> ComposeResult:
        """Yields both groups, the label, the evidence, the keys."""
        proposal = self._proposal
        with Vertical(classes="dialog") as box:
            box.border_title = "Merge by hand"
            lines = [
                Content.assemble(
                    (f"{letter}  {label_of(group, 60)}  ", "bold"),
                    group_line(group),
                )
                for letter, group in (("A", proposal.a), ("B", proposal.b))
            ]
            yield Static(Content("\n").join(lines))
            yield LineInput(one_line(proposed_label(proposal)), placeholder="label of both")
            yield Static(evidence_content(proposal, None, NARROW_COLUMNS))
            yield Static(hint_line(("enter", "merges; u undoes it"), ("escape", "cancels")))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers, unless the label is empty."""
        label = " ".join(event.value.split())
        if label:
            self.dismiss(label)


class SimilarDialog(Dialog[ReadingOrder | None]):
    """Lists the conversations with the nearest goals; answers with them and the one to read."""

    PLACE = "alike"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "Leave")]

    def __init__(self, goals: GoalService, conversation_id: int, external_id: str) -> None:
        super().__init__()
        self._goals = goals
        self._conversation_id, self._external_id = conversation_id, external_id
        self.table = ItemTable(member_columns(alike=True), lambda row: row.conversation_id)

    def compose(self) -> ComposeResult:
        """Yields the table, why it is empty, the keys."""
        with Vertical(classes="dialog tall") as box:
            box.border_title = Content(f"More like {one_line(self._external_id, 60)}")
            yield self.table
            yield Static("searching …", id="none")
            yield Static(hint_line(("enter", "reads it"), ("escape", "leaves")))

    def on_mount(self) -> None:
        """Reads them."""
        self.table.focus()
        background(
            self,
            lambda: self._goals.more_like(self._conversation_id, MAX_SIMILAR),
            self._show,
            self.show_error,
            group="alike",
        )

    def _show(self, rows: list[MemberRow]) -> None:
        """Lists the conversations, or says why there are none."""
        self.table.show_items(rows)
        nothing = self.query_one("#none", Static)
        nothing.display = not rows
        nothing.update("None: this conversation has no vector yet. Press 5, then r to cluster.")

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter answers."""
        order = array("q", (row.conversation_id for row in self.table.items))
        self.dismiss(ReadingOrder(order, self.table.cursor_index))
