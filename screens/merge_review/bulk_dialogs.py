"""Dialogs that decide on a whole list of pairs as one act: merge what is surely one, refuse what is surely not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine import number_format
from engine.records.goals import LIKELY, Proposal
from engine.services.goals.port import Goals
from engine.text import one_line
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.run_dialog import refusal_content
from screens.widgets.background import background
from screens.widgets.choices import Choices

MOST_LISTED = 500
"""Pairs that are listed; the count above them is of all."""


@dataclass(frozen=True, slots=True)
class ListedPairs:
    """The pairs that a dialog listed for a merge probability, as they were shown."""

    pairs: Sequence[Proposal]
    probability: float


class SweepDialog(Dialog[ListedPairs | None]):
    """Lists the pairs on one side of a merge probability; answers with the list when all of it is to be decided."""

    TITLE_LINE = ""
    FROM = 0.5
    """The probability that stands there first."""
    OUTCOME = ""
    NONE = ""
    DOES = ""

    def __init__(self, goals: Goals) -> None:
        super().__init__()
        self._goals, self._probability = goals, self.FROM
        self._pairs: Sequence[Proposal] = ()

    def listed(self, probability: float) -> Sequence[Proposal]:
        """The pairs that would be decided on; takes its time."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Probability, pairs, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = self.TITLE_LINE
            yield Input(number_format.probability(self._probability), placeholder=".90")
            yield Static(id="count")
            yield Choices(markup=False)
            keys = (("enter", f"{self.DOES}; u undoes it as one"), ("escape", "leaves it"))
            yield Static(hint_line(*keys))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Lists what another probability would decide."""
        self._pairs = ()
        p = probability_from(event.value)
        if p is None:
            self._tell(
                Content.styled("A probability lies above 0, at most at 1.", "$tone-incomplete")
            )
            self.query_one(Choices).set_options([])
            return
        self._probability = p
        self._tell(Content.styled("looking …", "$tone-muted"))
        background(
            self,
            lambda: self.listed(p),
            self._list,
            lambda error: self._tell(refusal_content(error)),
            group="listed",
        )

    def _list(self, found: Sequence[Proposal]) -> None:
        self._pairs = found
        self._tell(
            Content(f"{number_format.counted(len(found), 'pair')} {self.OUTCOME}")
            if found
            else Content.styled(self.NONE, "$tone-muted")
        )
        self.query_one(Choices).set_options(
            [
                Option(
                    Content.assemble(
                        (f"{number_format.probability(p.evidence.probability)}  ", "bold"),
                        f"{one_line(p.a.label, 40)} ({p.a.size:,}) + {one_line(p.b.label, 40)} ({p.b.size:,})",
                    )
                )
                for p in found[:MOST_LISTED]
            ]
        )

    def _tell(self, content: Content) -> None:
        self.query_one("#count", Static).update(content)

    def action_list(self) -> None:
        """From the line of the probability the arrow keys lead to the pairs."""
        self.query_one(Choices).focus()

    def action_accept(self) -> None:
        """Answers, once the pairs are listed and there are some."""
        if self._pairs:
            self.dismiss(ListedPairs(self._pairs, self._probability))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click on a pair decides nothing."""
        event.stop()


class AcceptDialog(SweepDialog):
    """Lists the pairs that are at least so probable, to merge them all."""

    PLACE = "accept"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Merge them", priority=True),
        Binding("up,down", "list", "List", show=False),
        Binding("escape", "dismiss(None)", "Leave"),
    ]
    TITLE_LINE = "Merge all pairs whose merge probability is at least"
    FROM = 0.9
    OUTCOME = "of groups become one each"
    NONE = "No pair is so probable."
    DOES = "merges all"

    def listed(self, probability: float) -> Sequence[Proposal]:
        """The most probable first."""
        return self._goals.above(probability)


class RefuseDialog(SweepDialog):
    """Lists the pairs that are less probable, to refuse them all; those nearest to it come first."""

    PLACE = "refuse"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Refuse them", priority=True),
        Binding("up,down", "list", "List", show=False),
        Binding("escape", "dismiss(None)", "Leave"),
    ]
    TITLE_LINE = "Refuse all pairs whose merge probability is under"
    FROM = LIKELY
    OUTCOME = "of groups are kept apart"
    NONE = "No pair is so improbable."
    DOES = "refuses all"

    def listed(self, probability: float) -> Sequence[Proposal]:
        """The most probable first: where to look twice."""
        return self._goals.below(probability)


def probability_from(text: str) -> float | None:
    """The probability that was typed, also as a percentage; None when it is none."""
    text = text.strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None
