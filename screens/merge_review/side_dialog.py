"""The dialog that asks which of the two groups of a proposal is meant."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.base.text import one_line
from engine.goals.records import GoalGroup
from screens.shell.dialogs import Dialog, hint_line
from screens.shell.goal_dialogs import group_content
from screens.widgets.controls import Choices

Letter = Literal["a", "b"]


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
        """Both groups, the keys."""
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
