"""The members of a group: read, move, split off."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Static

from engine.base import number_format
from engine.base.text import display_safe
from engine.goals.records import GoalDecision, GoalGroup, MemberOrder, MemberRow
from engine.opener.open_project import OpenProject
from screens.goals.formatting import member_columns
from screens.shell.dialogs import ChoiceDialog, ask
from screens.shell.goal_dialogs import NO_GROUP, DecisionScreen, pick_group, split_group
from screens.shell.marking import Marking, Marks
from screens.widgets.background import write_in_order
from screens.widgets.evidence import Preview
from screens.widgets.groups import SHORT_LABEL_LIMIT, group_line, label_of
from screens.widgets.jobs import EngineFeed
from screens.widgets.row_table import RowTable

MEMBER_ORDERS: dict[MemberOrder, str] = {
    "central": "most central first",
    "doubtful": "most doubtful first: nearer to another group than to this",
}
"""The orders of the members, as they are shown."""
MAX_WHOLE_CHARACTERS = 4_000
"""Most characters of a text that are shown below the list."""


class GoalMembersScreen(Marking, DecisionScreen):
    """Lists the members of a group, or the outliers, with the distance of each to the center.

    `Marking` gives the marks, and `DecisionScreen` what writes decisions and undoes them.
    """

    PLACE = "members"
    AUTO_FOCUS = "#members"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", tooltip="Mark or unmark, and go on"),
        Binding("a", "mark_all", "All", tooltip="Mark all that are listed", show=False),
        Binding("A", "mark_none", "None", tooltip="Take all marks away", show=False),
        Binding("v", "move", "Move", tooltip="Move the marked members, or this one, to another group"),
        Binding("S", "split", "Split", tooltip="Split the marked members off, or all by k-means"),
        Binding("J", "judge", "Judge", tooltip="Triage of just the marked members, or of all"),
        Binding("o", "order", "Order", tooltip="Central or doubtful ones first"),
        Binding("u", "undo", "Undo", show=False),
        Binding("escape,q", "close", "Back", key_display="esc"),
    ]  # fmt: skip

    def __init__(
        self, services: OpenProject, feed: EngineFeed, group_id: str | None, mode: str
    ) -> None:
        """Lists the members of a group; None lists the outliers."""
        super().__init__(services, feed, mode)
        self._group_id = group_id
        self._group: GoalGroup | None = None
        self._order: MemberOrder = "central"
        self._members: dict[int, MemberRow] = {}  # by the id of the conversation, in their order
        self.marks = Marks()
        self.table = RowTable[MemberRow](
            member_columns(),
            self._fetch,
            lambda row: row.conversation_id,
            marked=self.marks,
            id="members",
        )

    def compose_body(self) -> ComposeResult:
        """Yields the group's figures, its members, the conversation and the whole text of the one under the cursor."""
        yield Static(id="summary")
        with Horizontal(id="main"):
            yield self.table
            yield Preview(self.services)
        yield Static(id="whole")
        yield Static(classes="empty")

    # Reading

    def refresh_data(self) -> None:
        """Reads the members again."""
        goals, group_id, order = self.services.merge_review.goals, self._group_id, self._order

        def read() -> tuple[GoalGroup | None, list[MemberRow]]:
            group = None if group_id is None else goals.group(group_id)
            return group, goals.members(group_id, order)

        self.in_background(read, lambda parts: self._show(*parts), group="members")

    def _show(self, group: GoalGroup | None, members: list[MemberRow]) -> None:
        """Shows the members of the group, or the outliers."""
        self._group = group
        self._members = {row.conversation_id: row for row in members}
        self.table.show(array("q", self._members))
        self.set_class(not members, "-empty")
        owner = "This group has no members" if self._group_id else "There are no outliers"
        self.query_one(".empty", Static).update(f"{owner} any more.")
        self._show_summary()

    def _show_summary(self) -> None:
        """Shows how many are marked, the figures of the group and the order."""
        parts: list[Content | tuple[str, str] | str] = []
        if self.marks:
            parts.append((f"{len(self.marks):,} marked · ", "bold $tone-accent"))
        if self._group is not None:
            parts += [(label_of(self._group), "bold"), "  "]
            parts.append(group_line(self._group))
        elif self._group_id is None:
            count = number_format.counted(len(self._members), "outlier")
            parts += [(count, "bold"), ("  too far from every center", "$tone-muted")]
        parts.append((f"  {MEMBER_ORDERS[self._order].split(':')[0]}", "$tone-muted"))
        self.query_one("#summary", Static).update(Content.assemble(*parts))

    def _fetch(self, ids: Sequence[int]) -> list[MemberRow]:
        """Returns the members with these ids of conversations, for the table."""
        return [self._members[row_id] for row_id in ids if row_id in self._members]

    def on_row_table_highlighted(self, message: RowTable.Highlighted) -> None:
        """Shows the text of the member under the cursor at length, and the whole conversation beside the list."""
        self.query_one(Preview).follow(message.row_id)
        row = self._members.get(message.row_id)
        text = (
            "" if row is None else display_safe(" ".join(row.text[:MAX_WHOLE_CHARACTERS].split()))
        )
        self.query_one("#whole", Static).update(Content.styled(text, "$tone-model"))

    def on_row_table_opened(self, message: RowTable.Opened) -> None:
        """Enter opens the reader; afterwards the cursor is on the conversation that was read last."""
        self.open_reader(self.table.ids, self.table.cursor_index, self.table.move_to_id)

    def marks_changed(self) -> None:
        """Shows how many are marked."""
        self._show_summary()

    # Decisions

    def _write_split(
        self, work: Callable[[], GoalDecision], on_written: Callable[[GoalDecision], None]
    ) -> None:
        """Writes a split and goes back: the group that was split no longer exists.

        Args:
            work: Stores the split; runs on another thread.
            on_written: Called with the decision before the screen closes.
        """

        def on_done(decision: GoalDecision) -> None:
            on_written(decision)
            self.action_close()

        write_in_order(self, work, on_done, self.show_error)

    def action_move(self) -> None:
        """Asks for the group that the marked members move to."""
        ids, review = list(self._marked_or_cursor()), self.services.merge_review
        if not ids or not self.may_write():
            return
        number = number_format.counted(len(ids), "conversation")

        def on_moved(_: GoalDecision) -> None:
            self.marks.clear()
            self.notify(f"Moved {number}; u undoes it.", markup=False)

        pick_group(
            self,
            f"Move {number} to",
            lambda group: self.write(lambda: review.move(ids, group or None), on_moved),
            without=self._group_id,
            no_group="" if self._group_id is None else NO_GROUP,
        )

    def action_split(self) -> None:
        """Makes a group of the marked members; without marks shows how k-means would split the group. Outliers are no
        group that can be split."""
        group, review = self._group, self.services.merge_review
        if group is None or not self.may_write():
            return
        if not self.marks:
            split_group(self, review, group, self._write_split)
            return
        ids = list(self._marked_or_cursor())
        number = number_format.counted(len(ids), "conversation")
        self._write_split(
            lambda: review.split(group.id, [ids]),
            lambda _: self.notify(f"Split {number} off; u undoes it.", markup=False),
        )

    # Order

    def action_order(self) -> None:
        """Asks for the order."""

        def on_choice(order: MemberOrder) -> None:
            if order != self._order:
                self._order = order
                self.refresh_data()

        choices = list(MEMBER_ORDERS.items())
        ask(self, ChoiceDialog("Which first", choices, self._order), on_choice)

    # Other screens

    def action_judge(self) -> None:
        """Goes to triage of the marked members, else of all that are listed."""
        ids = self._marked_or_cursor() if self.marks else self.table.ids
        name = "in no goal"
        if self._group is not None:
            name = f"goal “{label_of(self._group, SHORT_LABEL_LIMIT)}”"
        self.triage_only(name, ids)
