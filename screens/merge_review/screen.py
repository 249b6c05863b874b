"""The merge desk: one pair of groups at a time, one key for each decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from engine import number_format
from engine.records.goals import DeskOrder, GoalDecision, GoalGroup, Proposal
from engine.text import one_line
from screens.goals import formatting
from screens.goals.dialogs import (
    GroupPicker,
    Letter,
    SideDialog,
    split_group,
)
from screens.merge_review.bulk_dialogs import (
    AcceptDialog,
    ListedPairs,
    RefuseDialog,
    SweepDialog,
    probability_from,
)
from screens.merge_review.group_pane import SidePane
from screens.merge_review.history_screen import DeskHistoryScreen
from screens.merge_review.merged_pane import MergedPane
from screens.merge_review.settle_dialog import SettleDialog
from screens.merge_review.view import DeskView
from screens.shell.dialogs import ChoiceDialog, TextDialog


class MergeDeskScreen(DeskView):
    """Shows the next pair at once, writes the decision behind it, and fills the model's word in as it comes."""

    PLACE = "desk"
    CSS_PATH = "merge_review.tcss"
    AUTO_FOCUS = "#side-a VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "merge", "Merge", tooltip="One group of both, under the label shown"),
        Binding("n", "apart", "Apart", tooltip="Keep them apart"),
        Binding("N", "never", "Never", tooltip="Never merge these, in later clusterings neither"),
        Binding("s", "skip", "Skip", tooltip="Skip; it comes again at the end"),
        Binding("e", "edit", "Label", tooltip="Edit the label of the merged group"),
        Binding("space", "swap", "More", tooltip="Show other members of both sides"),
        Binding(
            "a", "open('a')", "Open", key_display="a b", tooltip="Members of A", id="desk.open-a"
        ),
        Binding(
            "b", "open('b')", "Members of B", tooltip="Members of B", id="desk.open-b", show=False
        ),
        Binding("u", "undo", "Undo"),
        Binding("U", "redo", "Redo", show=False),
        Binding("H", "history", "Acts", tooltip="What was decided, step by step"),
        Binding("A", "accept", "All", tooltip="Merge all pairs above a probability", show=False),
        Binding("R", "refuse", "Rest", tooltip="Refuse all pairs below a probability", show=False),
        Binding(
            "t",
            "settle",
            "Settle",
            tooltip="Move conversations to their neighbours' groups",
            show=False,
        ),
        Binding("m", "pick", "Any two", tooltip="Merge any two groups by hand", show=False),
        Binding("S", "split", "Split", tooltip="Split one of the two", show=False),
        Binding("v", "move", "Move", tooltip="Move a member that is shown", show=False),
        Binding("r", "rename", "Rename", tooltip="Rename one of the two", show=False),
        Binding("p", "pin", "Pin", tooltip="Pin one of the two, or unpin it", show=False),
        Binding("o", "order", "Order", tooltip="Choose which pair comes first", show=False),
        Binding("F", "floor", "Floor", tooltip="Least similarity of a proposal", show=False),
        Binding("g", "ask", "Ask", tooltip="Ask the model about the undecided pairs", show=False),
        Binding("q", "app.quit", "Quit", show=False),
    ]

    # Decisions

    def _decide(
        self, write: Callable[[Proposal], Callable[[], GoalDecision]], *, merged: bool
    ) -> None:
        """Decides on what is in front, and goes on; nothing is decided on what is not in sight."""
        page = self.place.front
        if page is None:
            if not self.has_class("-empty"):
                self.notify("The next pair is still being read; nothing was decided.", markup=False)
            return
        if not self.may_write():
            return
        work = write(page.proposal)
        self.place.decide(merged=merged)
        self.write(work, lambda _: None, page.proposal.pair)
        self.show_place()

    def action_merge(self) -> None:
        """Makes one group of both."""
        label = self.place.label
        self._decide(
            lambda p: partial(
                self.goals.merge, p, label if label is not None else formatting.label_for(p)
            ),
            merged=True,
        )

    def action_apart(self) -> None:
        """Refuses the pair."""
        self._decide(lambda p: partial(self.goals.apart, p), merged=False)

    def action_never(self) -> None:
        """Refuses the pair for all clusterings to come."""
        self._decide(lambda p: partial(self.goals.apart, p, never=True), merged=False)

    def action_skip(self) -> None:
        """Goes on without a decision."""
        if self.place.front is not None:
            self.place.skip()
            self.show_place()
            self.refresh_data()

    def action_edit(self) -> None:
        """Edits the label of the merged group where it stands."""
        if self.place.front is not None:
            self.query_one(MergedPane).edit_label()

    def action_swap(self) -> None:
        """Shows other members."""
        for pane in self.query(SidePane):
            pane.swap()

    def action_accept(self) -> None:
        """Lists the pairs above a probability, to merge them all."""
        self._sweep(AcceptDialog, self.goals.merge_all, "Merged")

    def action_refuse(self) -> None:
        """Lists the pairs below a probability, to refuse them all."""
        self._sweep(RefuseDialog, self.goals.refuse_all, "Refused")

    def action_settle(self) -> None:
        """Shows which conversations lie among members of another group, to move them there."""
        if not self.may_write():
            return

        def chosen(agreed: bool | None) -> None:
            if agreed:
                self.write(
                    self.goals.settle,
                    lambda count: self.notify(
                        f"Moved {number_format.counted(count, 'conversation')}; u takes all of it back.",
                        markup=False,
                    ),
                )

        self.app.push_screen(SettleDialog(self.goals), chosen)

    def _sweep(
        self,
        dialog: type[SweepDialog],
        decide: Callable[[Sequence[Proposal], float], int],
        done: str,
    ) -> None:
        if not self.may_write():
            return

        def chosen(answer: ListedPairs | None) -> None:
            if answer is not None:
                self.place.put(None)  # it may be among them
                self.write(
                    lambda: decide(answer.pairs, answer.probability),
                    lambda count: self.notify(
                        f"{done} {number_format.counted(count, 'pair')}; u takes all of it back.",
                        markup=False,
                    ),
                )

        self.app.push_screen(dialog(self.goals), chosen)

    # Undo and redo

    def action_undo(self) -> None:
        """Takes back the newest act; a pair it decided is in front again."""
        if not self.may_write():
            return

        def undone(given: GoalDecision | None) -> None:
            if given is None:
                self.notify("There is nothing to undo.", markup=False)
                return
            self.notify(formatting.act_words(given, "Taken back"), markup=False)
            if given.kind in ("merge", "apart", "never") and len(given.sides) == 2:
                self.read((given.sides[0], given.sides[1]))

        self.write(self.goals.undo, undone)

    def action_redo(self) -> None:
        """Gives again what the newest undo took back."""
        if not self.may_write():
            return

        def redone(given: GoalDecision | None) -> None:
            if given is None:
                self.notify("There is nothing to redo.", markup=False)
                return
            self.notify(formatting.act_words(given, "Given again"), markup=False)
            if self.place.pair is not None and {*given.sides} == {*self.place.pair}:
                self.place.decide(merged=given.kind == "merge")
                self.show_place()

        self.write(self.goals.redo, redone)

    # One of the two groups

    def _on_side(self, title: str, then: Callable[[GoalGroup], None]) -> None:
        """Asks which of the two is meant, and goes on with it."""
        page = self.place.front
        if page is None or not self.may_write():
            return
        a, b = page.proposal.a, page.proposal.b

        def chosen(side: Letter | None) -> None:
            if side is not None:
                then(a if side == "a" else b)

        self.app.push_screen(SideDialog(title, a, b), chosen)

    def action_rename(self) -> None:
        """Gives one of the two another label."""

        def ask(group: GoalGroup) -> None:
            def answered(text: str | None) -> None:
                label = " ".join((text or "").split())
                if label:
                    self.write(lambda: self.goals.rename(group.id, label), lambda _: None)

            self.app.push_screen(TextDialog("Rename", value=group.label), answered)

        self._on_side("Rename which", ask)

    def action_pin(self) -> None:
        """Pins one of the two, or unpins it."""

        def pin(group: GoalGroup) -> None:
            on = not group.pinned
            told = "is not proposed any more, and keeps its label" if on else "is proposed again"
            self.place.decide(merged=False)
            self.write(
                lambda: self.goals.pin(group.id, on=on),
                lambda _: self.notify(f"{formatting.label_of(group, 60)} {told}.", markup=False),
            )

        self._on_side("Pin which; a pinned group is not proposed", pin)

    def action_split(self) -> None:
        """Parts one of the two, after a look at the parts."""

        def ask(group: GoalGroup) -> None:
            split_group(self, self.goals, group, self.write)

        self._on_side("Split which", ask)

    def action_move(self) -> None:
        """Moves a member that is in sight to another group."""
        page = self.place.front
        if page is None or not self.may_write():
            return
        members = [member for pane in self.query(SidePane) for member in pane.shown]
        choices = [(member.conversation_id, one_line(member.text, 90)) for member in members]

        def chosen(conversation: int | None) -> None:
            if conversation is None:
                return

            def to(group: str | None) -> None:
                if group is not None:
                    self.write(
                        lambda: self.goals.move([conversation], group or None), lambda _: None
                    )

            def pick(groups: list[GoalGroup]) -> None:
                self.app.push_screen(GroupPicker("Move it to", groups, "no group at all"), to)

            self.in_background(self.goals.groups, pick, group="groups")

        self.app.push_screen(ChoiceDialog("Move which member", choices), chosen)

    # Which pairs

    def action_pick(self) -> None:
        """Asks for any two groups and puts them in front."""
        if not self.may_write():
            return

        def pick(groups: list[GoalGroup]) -> None:
            def first(a: str | None) -> None:
                if a:
                    others = [group for group in groups if group.id != a]
                    self.app.push_screen(GroupPicker("with", others), partial(second, a))

            def second(a: str, b: str | None) -> None:
                if b:
                    self.read((a, b))

            self.app.push_screen(GroupPicker("Merge", groups), first)

        self.in_background(self.goals.groups, pick, group="groups")

    def action_order(self) -> None:
        """Asks which pair comes first."""
        if self.progress is None or not self.may_write():
            return

        def chosen(order: DeskOrder | None) -> None:
            if order is not None:
                self.place.put(None)
                self.write(lambda: self.goals.set_order(order), lambda _: None)

        choices = [(order, formatting.order_prompt(order)) for order in formatting.ORDERS]
        self.app.push_screen(ChoiceDialog("Which first", choices, self.progress.order), chosen)

    def action_floor(self) -> None:
        """Asks for the similarity below which nothing is proposed."""
        if self.progress is None or not self.may_write():
            return

        def answered(text: str | None) -> None:
            if text is None:
                return
            floor = 0.0 if text.strip() in ("0", "0.0", ".0") else probability_from(text)
            if floor is None:
                self.notify("The floor is a similarity from 0 to 1.", markup=False)
                return
            self.place.put(None)
            self.write(lambda: self.goals.set_floor(floor), lambda _: None)

        self.app.push_screen(
            TextDialog(
                "Propose no pair whose labels are less alike than (0: leave none out)",
                value=number_format.probability(self.progress.floor),
            ),
            answered,
        )

    def action_ask(self) -> None:
        """Asks the model about the pairs it was not asked about."""
        if not self.may_write():
            return

        def started(job: int | None) -> None:
            told = "Every pair was asked about." if job is None else "The model is being asked."
            self.notify(told, markup=False)

        self.in_background(self.goals.start_asking, started, group="ask")

    # Going elsewhere

    def action_open(self, side: Letter) -> None:
        """Opens the members of a side; the pair stays in front."""
        page = self.place.front
        if page is not None:
            group = page.proposal.a if side == "a" else page.proposal.b
            self.app.push_screen(self.routes.members(group.id, self.MODE))

    def action_history(self) -> None:
        """Shows what was decided, and what stood after each act."""
        self.app.push_screen(DeskHistoryScreen(self.services, self.feed, self.MODE))
