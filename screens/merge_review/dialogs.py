"""The dialogs of the merge review: many pairs at once, which side is meant, the least similarity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import LIKELY, GoalGroup, MemberRow, Pair, Proposal
from engine.goals.service.merge_review import MergeReviewService
from screens.shell.dialogs import ChoiceDialog, Dialog, TextDialog, hint_line
from screens.shell.goal_dialogs import NO_GROUP, group_content, pick_group
from screens.shell.run_form import refusal_content
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import background
from screens.widgets.controls import Choices, LineInput

MAX_LISTED = 500
"""Most pairs that are listed; the count above the list is of all pairs."""


@dataclass(frozen=True, slots=True)
class ListedPairs:
    """The pairs that a dialog listed for a merge probability, as they were shown."""

    pairs: Sequence[Proposal]
    probability: float


class BulkDialog(Dialog[ListedPairs | None]):
    """Lists the pairs on one side of a merge probability; answers with the list when it is accepted."""

    TITLE_LINE: ClassVar[str]
    FROM: ClassVar[float]
    """The probability at first."""
    OUTCOME: ClassVar[str]
    """What happens to the pairs, after their number."""
    NONE: ClassVar[str]
    """Shown where the list is empty."""
    DOES: ClassVar[str]
    """What enter does."""

    def __init__(self, review: MergeReviewService) -> None:
        super().__init__()
        self._review, self._probability = review, self.FROM
        self._pairs: Sequence[Proposal] = ()

    def listed(self, probability: float) -> Sequence[Proposal]:
        """Returns the pairs that would be decided on; not quick."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Yields the probability, the pairs, the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = self.TITLE_LINE
            yield LineInput(number_format.probability(self._probability), placeholder=".90")
            yield Static(id="count")
            yield Choices(markup=False)
            keys = (("enter", f"{self.DOES}; u undoes all of it"), ("escape", "leaves"))
            yield Static(hint_line(*keys))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Lists the pairs for another probability."""
        self._pairs = ()
        p = probability_from(event.value)
        if p is None:
            self._show_count(
                Content.styled("A probability is above 0 and at most 1.", "$tone-incomplete")
            )
            self.query_one(Choices).set_options([])
            return
        self._probability = p
        self._show_count(Content.styled("searching …", "$tone-muted"))
        background(
            self,
            lambda: self.listed(p),
            self._list,
            lambda error: self._show_count(refusal_content(error)),
            group="listed",
        )

    def _list(self, targets: Sequence[Proposal]) -> None:
        self._pairs = targets
        self._show_count(
            Content(f"{number_format.counted(len(targets), 'pair')} {self.OUTCOME}")
            if targets
            else Content.styled(self.NONE, "$tone-muted")
        )
        self.query_one(Choices).set_options(
            [
                Option(
                    Content.assemble(
                        (f"{number_format.estimate(p.evidence.probability):>4}  ", "bold"),
                        f"{one_line(p.a.label, 40)} ({p.a.size:,}) + {one_line(p.b.label, 40)} ({p.b.size:,})",
                    )
                )
                for p in targets[:MAX_LISTED]
            ]
        )

    def _show_count(self, content: Content) -> None:
        self.query_one("#count", Static).update(content)

    def action_list(self) -> None:
        """Moves the focus from the probability to the pairs."""
        self.query_one(Choices).focus()

    def action_accept(self) -> None:
        """Answers if there are pairs on the list."""
        if self._pairs:
            self.dismiss(ListedPairs(self._pairs, self._probability))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click on a pair decides nothing."""
        event.stop()


class MergeAllDialog(BulkDialog):
    """Lists the pairs with at least a merge probability, to merge them all."""

    PLACE = "accept"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Merge them", priority=True),
        Binding("up,down", "list", "List", show=False),
        Binding("escape", "dismiss(None)", "Leave"),
    ]
    TITLE_LINE = "Merge all pairs whose merge probability is at least"
    FROM = 0.9
    OUTCOME = "will be merged"
    NONE = "No pair has so high a probability."
    DOES = "merges all"

    def listed(self, probability: float) -> Sequence[Proposal]:
        """Returns the pairs to merge, most probable first."""
        return self._review.above(probability)


class RefuseAllDialog(BulkDialog):
    """Lists the pairs below a merge probability, to refuse them all."""

    PLACE = "refuse"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Refuse them", priority=True),
        Binding("up,down", "list", "List", show=False),
        Binding("escape", "dismiss(None)", "Leave"),
    ]
    TITLE_LINE = "Refuse all pairs whose merge probability is under"
    FROM = LIKELY
    OUTCOME = "will be kept apart"
    NONE = "No pair has so low a probability."
    DOES = "refuses all"

    def listed(self, probability: float) -> Sequence[Proposal]:
        """Returns the pairs to refuse, most probable first, because those deserve a second look."""
        return self._review.below(probability)


def probability_from(text: str) -> float | None:
    """Returns the probability in (0, 1] that was typed, `.9` or `90%`; None where the text is none."""
    text = text.strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


Letter = Literal["a", "b"]
"""A side of the pair: the group on the left, or on the right."""


class SideDialog(Dialog[Letter | None]):
    """Asks which of the two groups is meant; one key answers."""

    PLACE = "side"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "dismiss('a')", "A", tooltip="The group on the left"),
        Binding("b", "dismiss('b')", "B", tooltip="The group on the right"),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, title: str, a: GoalGroup, b: GoalGroup) -> None:
        super().__init__()
        self._title, self._groups = title, (a, b)

    def compose(self) -> ComposeResult:
        """Yields both groups, the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = Content(one_line(self._title))
            options = [
                Option(Content.assemble((letter, "bold $tone-accent"), group_content(group)))
                for letter, group in zip("AB", self._groups, strict=True)
            ]
            yield Choices(*options, markup=False)
            yield Static(hint_line(("a b", "chooses"), ("escape", "leaves")))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click answers."""
        self.dismiss("a" if event.option_index == 0 else "b")


def ask_pair(screen: WorkbenchScreen[Any], then: Callable[[Pair], None]) -> None:
    """Asks for any two groups; `then` gets their ids."""

    def second(a: str) -> None:
        pick_group(screen, "with", lambda b: then((a, b)), without=a)

    pick_group(screen, "Merge", second)


def ask_move(
    screen: WorkbenchScreen[Any], members: Sequence[MemberRow], then: Callable[[int, str], None]
) -> None:
    """Asks for one of the members, then for a group; `then` gets both ids, an empty one for no group."""

    def on_choice(conversation: int | None) -> None:
        if conversation is not None:
            pick_group(screen, "Move it to", partial(then, conversation), none=NO_GROUP)

    choices = [(member.conversation_id, one_line(member.text, 90)) for member in members]
    screen.app.push_screen(ChoiceDialog("Move which member", choices), on_choice)


def ask_least_similarity(
    screen: WorkbenchScreen[Any], current: float, then: Callable[[float], None]
) -> None:
    """Asks for the similarity of labels below which no pair is proposed; `current` is the present one."""

    def on_answer(text: str | None) -> None:
        if text is None:
            return
        value = 0.0 if text.strip() in ("0", "0.0", ".0") else probability_from(text)
        if value is None:
            screen.notify("The least similarity is a number from 0 to 1.", markup=False)
        else:
            then(value)

    title = "Propose no pair whose labels are less similar than (0: propose all)"
    screen.app.push_screen(TextDialog(title, value=number_format.probability(current)), on_answer)
