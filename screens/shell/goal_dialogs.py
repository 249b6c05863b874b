"""Decisions on goal groups that several screens share: pick a group, merge two, split one, undo.

A group is a set of conversations with one goal. A conversation is a member of at most one group; an outlier is in none.
An act is what a person decides with one key; it may be several decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.text import LINE_LIMIT, NAME_LIMIT, one_line
from engine.goals.records import GoalDecision, GoalGroup, Proposal, SplitPart
from engine.goals.service.merge_review import MergeReviewService
from screens.shell.dialogs import Dialog, TextDialog, ask, key_hints
from screens.shell.run_form import refusal_content
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import background, write_in_order
from screens.widgets.controls import Choices, LineInput, titled
from screens.widgets.groups import (
    GLYPHS,
    NARROW_COLUMNS,
    decision_text,
    evidence_content,
    group_line,
    has_words,
    label_of,
    member_lines,
    proposed_label,
)

T = TypeVar("T")
"""What storing a decision returns."""

MIN_PARTS = 2
"""Fewest parts that a group can be split into."""
MAX_PARTS = 9
"""Most parts that a group can be split into at once."""
MAX_GROUPS_LISTED = 500
"""Most groups that the picker lists."""
NO_GROUP = "no group (outliers)"
"""The line of a picker for conversations that are to be in no group."""
MAX_MEMBERS_PER_PART = 4
"""Most members that are shown of each part of a split."""

NOTHING_OF_YOURS = (
    "There is nothing of yours to undo. What the rule or a model decided is undone in the history."
)
"""What is said when a person made no decision that is in force."""


class DecisionScreen(WorkbenchScreen[None]):
    """Base of the screens that decide on goal groups; each reads its data again after a decision."""

    def write(self, work: Callable[[], T], then: Callable[[T], None] = lambda _: None) -> None:
        """Stores a decision by `work`, after earlier ones; then calls `then` with its result, and reads again."""

        def on_done(result: T) -> None:
            then(result)
            self.refresh_data()

        write_in_order(self, work, on_done, self.show_error)

    def action_undo(self) -> None:
        """Undoes the newest act of a person."""
        self.undo_act(None, NOTHING_OF_YOURS)

    def undo_act(self, act: int | None, nothing_to_undo: str) -> None:
        """Undoes an act by its id; None takes the newest act of a person.

        Args:
            nothing_to_undo: The notice where there is no such act, or it is undone already.
        """
        review = self.services.merge_review

        def notify(decision: GoalDecision | None) -> None:
            if decision is None:
                self.notify(nothing_to_undo, markup=False)
            else:
                self.notify(f"Undone: {decision_text(decision)}.", markup=False)
                self.after_undo(decision)

        if self.may_write():
            self.write(lambda: review.undo(act), notify)

    def after_undo(self, decision: GoalDecision) -> None:
        """Does nothing; a subclass may show what was undone. Called before the data is read again."""


def group_content(group: GoalGroup) -> Content:
    """Returns a group as a line of a choice."""
    return Content.assemble(
        (f"{group.size:>7,}  ", "$tone-muted"),
        (label_of(group), ""),
        (f"  {GLYPHS['pin']}" if group.pinned else "", "$tone-accent"),
    )


class GroupPicker(Dialog[str]):
    """Asks for a group by words of its label; answers with its id, or with an empty text for no group."""

    PLACE = "group"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "Next group", priority=True),
        Binding("up", "step(-1)", "Previous group", priority=True),
        Binding("enter", "choose", "Choose", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, title: str, groups: Sequence[GoalGroup], no_group: str = "") -> None:
        """`no_group` is the last line, which chooses no group; empty leaves it out."""
        super().__init__()
        self._title, self._groups, self._no_group = title, groups, no_group
        self._ids: list[str] = []  # of the groups in the lines; empty in the line for no group

    def compose(self) -> ComposeResult:
        """Yields the words, the list, the keys."""
        with titled(Vertical(classes="dialog"), one_line(self._title)):
            yield LineInput(placeholder="words of its label")
            yield Choices(markup=False)
            yield key_hints(("↑↓", "moves"), ("enter", "chooses"), ("escape", "leaves"))

    def on_mount(self) -> None:
        """Lists all groups."""
        self._list("")
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Lists the groups with these words."""
        self._list(event.value)

    def _list(self, text: str) -> None:
        """Lists the groups with the typed words, and the line for no group."""
        words = text.lower().split()
        groups = [group for group in self._groups if has_words(group, words)][:MAX_GROUPS_LISTED]
        self._ids = [group.id for group in groups]
        options = [Option(group_content(group)) for group in groups]
        if self._no_group:
            self._ids.append("")
            options.append(Option(Content.styled(f"{'':>7}  {self._no_group}", "$tone-muted")))
        choices = self.query_one(Choices)
        choices.set_options(options)
        choices.highlighted = 0 if options else None

    def action_step(self, by: int) -> None:
        """Moves through the list while the words keep the focus."""
        choices = self.query_one(Choices)
        if self._ids:
            index = (choices.highlighted or 0) + by
            choices.highlighted = min(max(index, 0), len(self._ids) - 1)

    def action_choose(self) -> None:
        """Answers with the group under the cursor."""
        index = self.query_one(Choices).highlighted
        if index is not None and self._ids:
            self.dismiss(self._ids[index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click answers."""
        self.dismiss(self._ids[event.option_index])


def pick_group(
    screen: WorkbenchScreen[Any],
    title: str,
    then: Callable[[str], None],
    *,
    without: str | None = None,
    no_group: str = "",
) -> None:
    """Reads the groups and asks for one of them.

    Args:
        then: Gets the id of the group; an empty text for no group.
        without: Id of a group that is not listed.
        no_group: The line for no group; empty leaves it out.
    """

    def ask_group(groups: list[GoalGroup]) -> None:
        others = [group for group in groups if group.id != without]
        ask(screen, GroupPicker(title, others, no_group), then)

    screen.in_background(screen.services.merge_review.goals.groups, ask_group, group="groups")


class SplitDialog(Dialog[list[SplitPart]]):
    """Shows how k-means would split a group; answers with the parts that the person accepts."""

    PLACE = "split"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,plus", "parts(1)", "More parts", key_display="→"),
        Binding("left,minus", "parts(-1)", "Fewer parts", key_display="←"),
        Binding("enter", "split", "Split", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, review: MergeReviewService, group: GoalGroup) -> None:
        super().__init__()
        self._review, self._group = review, group
        self._part_count = MIN_PARTS
        self._parts: list[SplitPart] | None = None  # None while they are computed

    def compose(self) -> ComposeResult:
        """Yields the number of parts, the parts, the keys."""
        title = f"Split “{label_of(self._group, NAME_LIMIT)}”"
        with titled(Vertical(classes="dialog tall"), title):
            yield Static(id="count")
            with VerticalScroll():
                yield Static(id="parts")
            yield key_hints(("← →", "fewer, more parts"), ("enter", "splits"), ("escape", "leaves"))

    def on_mount(self) -> None:
        """Shows the split into the fewest parts."""
        self.query_one(VerticalScroll).focus()
        self._preview()

    def action_parts(self, by: int) -> None:
        """Shows fewer or more parts."""
        most = min(MAX_PARTS, max(MIN_PARTS, self._group.size))
        count = min(max(self._part_count + by, MIN_PARTS), most)
        if count != self._part_count:
            self._part_count = count
            self._preview()

    def _preview(self) -> None:
        """Computes in the background how the group would be split."""
        self._parts = None
        self._show_count(Content.styled(f"into {self._part_count} parts …", "$tone-muted"))
        background(
            self,
            lambda: self._review.split_preview(self._group.id, self._part_count),
            self._show_parts,
            lambda error: self._show_count(refusal_content(error)),
            group="preview",
        )

    def _show_parts(self, parts: list[SplitPart]) -> None:
        """Shows the size, the words and some members of each part."""
        self._parts = parts
        sizes = " + ".join(f"{part.size:,}" for part in parts)
        self._show_count(Content.assemble((f"into {len(parts)}: ", "$tone-muted"), (sizes, "bold")))
        width = max(20, self.query_one(VerticalScroll).scrollable_content_region.width)
        lines: list[Content] = []
        for number, part in enumerate(parts, 1):
            words = one_line(" ".join(part.words), LINE_LIMIT)
            lines.append(
                Content.assemble(
                    (f"{number}  {part.size:,}  ", "bold"), (words, "bold $tone-accent")
                )
            )
            for member in part.members[:MAX_MEMBERS_PER_PART]:
                lines += member_lines(member, width, doubtful=False)
            lines.append(Content(""))
        self.query_one("#parts", Static).update(Content("\n").join(lines))

    def _show_count(self, content: Content) -> None:
        """Shows the line above the parts: their number and sizes, or why the group cannot be split."""
        self.query_one("#count", Static).update(content)

    def action_split(self) -> None:
        """Answers if several parts are shown."""
        if self._parts is not None and len(self._parts) > 1:
            self.dismiss(self._parts)


def split_group(
    screen: Screen[Any],
    review: MergeReviewService,
    group: GoalGroup,
    write: Callable[[Callable[[], GoalDecision], Callable[[GoalDecision], None]], None],
) -> None:
    """Shows how k-means would split a group, and splits it if the person accepts that.

    Args:
        write: Called with the function that stores the split and the one to call afterwards.
    """

    def on_choice(parts: list[SplitPart]) -> None:
        ids = [part.conversation_ids for part in parts]
        write(
            lambda: review.split(group.id, ids),
            lambda _: screen.notify(
                f"Split into {number_format.counted(len(ids), 'group')}; u undoes it.",
                markup=False,
            ),
        )

    ask(screen, SplitDialog(review, group), on_choice)


def ask_label(screen: Screen[Any], group: GoalGroup, then: Callable[[str], None]) -> None:
    """Asks for another label of a group, and calls `then` with it unless it is empty."""

    def on_text(text: str) -> None:
        label = " ".join(text.split())
        if label:
            then(label)

    ask(screen, TextDialog("Label", value=group.label), on_text)


class MergeDialog(Dialog[str]):
    """Shows two groups and the evidence for merging them; answers with the label of the merged group."""

    PLACE = "merge"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Leave")]

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        self._proposal = proposal

    def compose(self) -> ComposeResult:
        """Yields both groups, the label, the evidence, the keys."""
        proposal = self._proposal
        with titled(Vertical(classes="dialog"), "Merge by hand"):
            lines = [
                Content.assemble(
                    (f"{letter}  {label_of(group, NAME_LIMIT)}  ", "bold"),
                    group_line(group),
                )
                for letter, group in (("A", proposal.a), ("B", proposal.b))
            ]
            yield Static(Content("\n").join(lines))
            yield LineInput(one_line(proposed_label(proposal)), placeholder="label of both")
            yield Static(evidence_content(proposal, None, NARROW_COLUMNS))
            yield key_hints(("enter", "merges; u undoes it"), ("escape", "cancels"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter answers, unless the label is empty."""
        label = " ".join(event.value.split())
        if label:
            self.dismiss(label)
