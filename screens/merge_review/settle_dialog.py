"""The dialog that lets conversations settle beside most of their neighbours, as one act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine import number_format
from engine.records.goals import Drawn
from engine.services.goals.port import Goals
from engine.text import one_line
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.run_dialog import refusal_content
from screens.widgets.background import background
from screens.widgets.choices import Choices


class SettleDialog(Dialog[bool | None]):
    """Lists the groups that would draw conversations; answers True when they shall."""

    PLACE = "settle"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "Move them", priority=True),
        Binding("escape", "dismiss(None)", "Leave"),
    ]

    def __init__(self, goals: Goals) -> None:
        super().__init__()
        self._goals = goals
        self._any = False

    def compose(self) -> ComposeResult:
        """What it is, groups, keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Settle conversations beside their neighbours"
            yield Static(id="count")
            yield Choices(markup=False)
            yield Static(
                hint_line(("enter", "moves them; u undoes it as one"), ("escape", "leaves them"))
            )

    def on_mount(self) -> None:
        """Looks for them."""
        self._tell(Content.styled("looking at every conversation's neighbours …", "$tone-muted"))
        background(
            self,
            self._goals.settle_preview,
            self._list,
            lambda error: self._tell(refusal_content(error)),
            group="listed",
        )

    def _list(self, found: Sequence[Drawn]) -> None:
        self._any = bool(found)
        if not found:
            self._tell(
                Content.styled(
                    "Every conversation is where most of its neighbours are.", "$tone-muted"
                )
            )
            return
        moving = sum(one.count for one in found)
        word = "has" if moving == 1 else "have"
        self._tell(
            Content(
                f"{number_format.counted(moving, 'conversation')} {word} most nearest neighbours in"
                " another group, and would move there. Who was moved by hand stays."
            )
        )
        self.query_one(Choices).set_options([Option(_line(one)) for one in found])
        self.query_one(Choices).focus()

    def _tell(self, content: Content) -> None:
        self.query_one("#count", Static).update(content)

    def action_accept(self) -> None:
        """Answers, once the groups are listed and there are some."""
        if self._any:
            self.dismiss(True)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click on a group decides nothing."""
        event.stop()


def _line(one: Drawn) -> Content:
    outliers = (
        f", {number_format.counted(one.outliers, 'outlier')} among them" if one.outliers else ""
    )
    return Content.assemble(
        (f"+{one.count:,}  ", "bold"), f"{one_line(one.label, 60)} ({one.size:,}){outliers}"
    )
