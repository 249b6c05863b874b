"""The goals: what users wanted, as groups of conversations that decisions made of clusters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType

from engine import number_format
from engine.records.goals import ClusteringRow, GoalDecision, GoalRequest, Proposal
from engine.services.exports import ExportKind
from engine.text import one_line
from screens.goals import formatting
from screens.goals.columns import ORDERS
from screens.goals.dialogs import GroupPicker, split_group
from screens.goals.drift_screen import GoalDriftScreen
from screens.goals.group_map import GroupMap
from screens.goals.members_screen import GoalMembersScreen
from screens.goals.merge_dialog import MergeDialog
from screens.goals.merge_tree_screen import GoalTreeScreen
from screens.goals.run_form import GoalRunForm
from screens.goals.view import GoalsView
from screens.shell.clipboard import copy
from screens.shell.dialogs import ChoiceDialog, TextDialog, ask_order
from screens.shell.save_dialogs import ask_export
from screens.widgets.background import write_in_order
from screens.widgets.find_line import FindLine
from screens.widgets.row_table import RowTable

T = TypeVar("T")
EXPORT_KINDS: tuple[tuple[ExportKind, str], ...] = (
    ("clusters", "groups, with what they were made of"),
    ("assignments", "conversations, with their groups"),
    ("decisions", "every act on the desk"),
)


class GoalsScreen(GoalsView):
    """A table of groups with size, share, completeness and stability; enter opens the members."""

    PLACE = "goals"
    CSS_PATH = "goals.tcss"
    AUTO_FOCUS = "#groups"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run_clustering", "Cluster", tooltip="Cluster; says first how long it takes"),
        Binding(
            "slash", "find", "Find", key_display="/", tooltip="List only labels with the words"
        ),
        Binding("s", "sort", "Sort", tooltip="Sort by a column"),
        Binding("S", "reverse", "Reverse", tooltip="Reverse the order", show=False),
        Binding("m", "merge", "Merge", tooltip="Merge this group with another"),
        Binding("e", "rename", "Label", tooltip="Edit the label", show=False),
        Binding("p", "pin", "Pin", tooltip="Pin, or unpin: it is not proposed", show=False),
        Binding("D", "split", "Divide", tooltip="Split by k-means, after a look", show=False),
        Binding("u", "undo", "Undo", show=False),
        Binding("U", "redo", "Redo", show=False),
        Binding("M", "map", "Map", tooltip="The map alone, or the list again"),
        Binding("v", "view", "Detail", tooltip="List or detail, on a narrow terminal"),
        Binding("t", "merges", "Merges", tooltip="What became of what"),
        Binding("d", "drift", "Drift", tooltip="How shares changed over time"),
        Binding("O", "outliers", "Outliers", tooltip="Conversations in no group", show=False),
        Binding(
            "a", "assign", "Assign", tooltip="Assign conversations that came later", show=False
        ),
        Binding(
            "b", "stability", "Stability", tooltip="Measure stability by resampling", show=False
        ),
        Binding("c", "clustering", "Set", tooltip="Choose another clustering", show=False),
        Binding("X", "export", "Export", tooltip="Export groups, members or decisions", show=False),
        Binding("y", "copy_list", "Copy", tooltip="Copy the list as text", show=False),
        Binding("escape", "leave", "Back", tooltip="Give up finding, leave the map", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]

    # Looking

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the members."""
        if self.group is not None:
            self._open(self.group.id)

    def _open(self, group_id: str | None) -> None:
        self.app.push_screen(GoalMembersScreen(self.services, self.feed, group_id, self.MODE))

    def action_outliers(self) -> None:
        """Opens the conversations that are in no group."""
        if self.clustering is not None:
            self._open(None)

    def action_sort(self) -> None:
        """Asks for the order."""
        choices = [(key, order.title) for key, order in ORDERS.items()]
        ask_order(self, choices, self.sort[0], self._sort_by)

    def _sort_by(self, key: str) -> None:
        if key not in ORDERS:
            return
        same = self.sort[0] == key
        self.sort = (key, not self.sort[1] if same else ORDERS[key].falling)
        self.show_order()

    def action_reverse(self) -> None:
        """Turns the order round."""
        self._sort_by(self.sort[0])

    def on_row_table_header_pressed(self, message: RowTable.HeaderPressed) -> None:
        """A click on a column's title sorts by it."""
        self._sort_by({"share": "size", "coverage": "rate"}.get(message.key, message.key))

    def action_view(self) -> None:
        """Changes between list and detail where both have no room."""
        self.toggle_class("-detail")

    def action_map(self) -> None:
        """Shows the map alone, or the list again."""
        self.toggle_class("-map")
        (self.query_one(GroupMap) if self.has_class("-map") else self.table).focus()

    def on_group_map_stepped(self, message: GroupMap.Stepped) -> None:
        """On the map the arrow keys go through the groups."""
        self.table.action_move(message.by)

    def action_merges(self) -> None:
        """Shows what each group was made of."""
        if self.clustering is not None:
            self.app.push_screen(GoalTreeScreen(self.services, self.feed, self.MODE))

    def action_drift(self) -> None:
        """Shows how shares changed."""
        if self.clustering is not None:
            self.app.push_screen(GoalDriftScreen(self.services, self.feed, self.MODE))

    def action_clustering(self) -> None:
        """Asks which clustering is shown."""

        def chosen(number: int | None) -> None:
            if number is not None and self.may_write():
                self._write(lambda: self.goals.show(number), lambda _: None)

        def ask(found: list[ClusteringRow]) -> None:
            if not found:
                self.notify("No clustering was made yet; r makes one.", markup=False)
                return
            now = self.clustering.id if self.clustering is not None else None
            choices = [(row.id, clustering_words(row)) for row in found]
            self.app.push_screen(ChoiceDialog("Clustering", choices, now), chosen)

        self.in_background(self.goals.clusterings, ask, group="clusterings")

    def action_leave(self) -> None:
        """Gives up finding, or leaves the map."""
        line = self.query_one(FindLine)
        if line.is_open:
            line.close()
        elif self.has_class("-map"):
            self.action_map()

    # Deciding

    def _write(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        def done(result: T) -> None:
            then(result)
            self.refresh_data()

        write_in_order(self, work, done, self.show_error)

    def action_rename(self) -> None:
        """Edits the label of the group under the cursor."""
        group = self.group
        if group is None or not self.may_write():
            return

        def answered(text: str | None) -> None:
            label = " ".join((text or "").split())
            if label:
                self._write(lambda: self.goals.rename(group.id, label), lambda _: None)

        self.app.push_screen(TextDialog("Label", value=group.label), answered)

    def action_pin(self) -> None:
        """Pins the group under the cursor, or unpins it."""
        group = self.group
        if group is None or not self.may_write():
            return
        self._write(lambda: self.goals.pin(group.id, on=not group.pinned), lambda _: None)

    def action_split(self) -> None:
        """Parts the group under the cursor, after a look at the parts."""
        if self.group is not None and self.may_write():
            split_group(self, self.goals, self.group, self._write)

    def action_merge(self) -> None:
        """Asks with which group this one is merged, and shows what speaks for it."""
        group = self.group
        if group is None or not self.may_write():
            return

        def look(other: str | None) -> None:
            if other:
                self.in_background(lambda: self.goals.pair(group.id, other), ask, group="pair")

        def ask(proposal: Proposal) -> None:
            self.app.push_screen(MergeDialog(proposal), partial(merge, proposal))

        def merge(proposal: Proposal, label: str | None) -> None:
            if label is not None:
                self._write(lambda: self.goals.merge(proposal, label), self._merged)

        others = [other for other in self.groups if other.id != group.id]
        title = f"Merge “{formatting.label_of(group, 40)}” with"
        self.app.push_screen(GroupPicker(title, others), look)

    def _merged(self, given: GoalDecision) -> None:
        self.notify(formatting.act_words(given, "Done"), markup=False)

    # Jobs

    def action_run_clustering(self) -> None:
        """Asks what to cluster by, says how long it takes, and starts it."""
        if not self.may_write():
            return

        def chosen(wish: GoalRequest | None) -> None:
            if wish is not None:
                self._start(lambda: self.goals.start(wish))

        self.app.push_screen(GoalRunForm(self.goals, self.clustering), chosen)

    def action_assign(self) -> None:
        """Assigns conversations that came later to the groups."""
        self._start_on_clustering(self.goals.start_assign)

    def action_stability(self) -> None:
        """Measures how stable the clusters are."""
        self._start_on_clustering(self.goals.start_stability)

    def _start_on_clustering(self, start: Callable[[], int]) -> None:
        if self.clustering is None:
            self.notify("No clustering was made yet; r makes one.", markup=False)
        elif self.may_write():
            self._start(start)

    # Taking it elsewhere

    def action_copy_list(self) -> None:
        """Copies the list as it stands, a line for each group with tabs between the columns."""
        rows = ["goal\tsize\tshare\tcomplete\tscored\tstable"]
        for _, group in self._fetch(self.table.ids):
            number = formatting.scored(group.states)
            rate = f"{group.states.complete / number:.4f}" if number else ""
            stable = "" if group.stability is None else f"{group.stability:.4f}"
            label = " ".join(group.label.split())
            rows.append(f"{label}\t{group.size}\t{group.share:.4f}\t{rate}\t{number}\t{stable}")
        if len(rows) > 1:
            copy(self, "\n".join(rows), f"the list, {number_format.counted(len(rows) - 1, 'goal')}")

    def action_export(self) -> None:
        """Asks what to write and where, and writes it."""
        if self.clustering is None:
            self.notify("There is nothing to export.", markup=False)
            return

        ask_export(self, "Export", EXPORT_KINDS, ())


def clustering_words(row: ClusteringRow) -> str:
    """When and of what a clustering was made."""
    return one_line(
        f"{row.created_at[:16].replace('T', ' ')} · {row.text} · {row.embedder} · k {row.k}"
        f" · seed {row.seed} · {number_format.counted(row.groups, 'group')}"
    )
