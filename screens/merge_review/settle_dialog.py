"""The dialog that moves conversations to the group of most of their nearest neighbours, as one act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import SettleCandidate
from engine.goals.service.service import GoalService
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.run_form import refusal_content
from screens.widgets.background import background
from screens.widgets.controls import Choices


class SettleDialog(Dialog[bool | None]):
    """Lists the groups that conversations would move to; answers True when they shall move."""

    PLACE = "settle"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Move them", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, goals: GoalService) -> None:
        super().__init__()
        self._goals = goals
        self._any = False

    def compose(self) -> ComposeResult:
        """What would move, the groups, the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Move conversations to the group of their neighbors"
            yield Static(id="count")
            yield Choices(markup=False)
            yield Static(
                hint_line(("enter", "moves them; u undoes all of it"), ("escape", "leaves"))
            )

    def on_mount(self) -> None:
        """Computes the moves."""
        self._show_count(
            Content.styled("reading the neighbors of every conversation …", "$tone-muted")
        )
        background(
            self,
            self._goals.settle_preview,
            self._list,
            lambda error: self._show_count(refusal_content(error)),
            group="listed",
        )

    def _list(self, found: Sequence[SettleCandidate]) -> None:
        self._any = bool(found)
        if not found:
            self._show_count(
                Content.styled(
                    "Every conversation is in the group of most of its neighbors.", "$tone-muted"
                )
            )
            return
        moving = sum(one.count for one in found)
        word = "has" if moving == 1 else "have"
        self._show_count(
            Content(
                f"{number_format.counted(moving, 'conversation')} {word} most nearest neighbors in"
                " another group and would move there. Conversations moved by hand stay."
            )
        )
        self.query_one(Choices).set_options([Option(_line(one)) for one in found])
        self.query_one(Choices).focus()

    def _show_count(self, content: Content) -> None:
        self.query_one("#count", Static).update(content)

    def action_accept(self) -> None:
        """Answers if there is something to move."""
        if self._any:
            self.dismiss(True)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click on a group decides nothing."""
        event.stop()


def _line(one: SettleCandidate) -> Content:
    outliers = (
        f", {number_format.counted(one.outliers, 'outlier')} among them" if one.outliers else ""
    )
    return Content.assemble(
        (f"+{one.count:,}  ", "bold"), f"{one_line(one.label, 60)} ({one.size:,}){outliers}"
    )
