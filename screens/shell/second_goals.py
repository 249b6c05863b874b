"""The second goals of a conversation: a person confirms or removes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static
from textual.widgets.option_list import Option

from engine.base import number_format
from engine.base.text import one_line
from engine.goals.records import (
    LEAST_SHARE,
    SecondGoal,
    SecondGoalJudgement,
    SecondGoalState,
    UndoneJudgement,
)
from engine.opener.open_project import OpenProject
from screens.shell.dialogs.basic import Dialog, hint_line
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.choices import Choices

_SIGNS: dict[SecondGoalState, str] = {"proposed": "?", "confirmed": "✓", "removed": "✗"}
_DONE = {"confirm": "confirmed", "remove": "removed"}


class SecondGoalsDialog(Dialog[None]):
    """Lists the second goals that the model gives a conversation, with their shares and what a person said of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close"),
        Binding("c", "judge('confirm')", "Confirm", tooltip="The conversation has this goal too"),
        Binding("d", "judge('remove')", "Remove", tooltip="It has not"),
        Binding("u", "undo", "Undo", tooltip="Take back the newest confirmation or removal"),
        Binding(
            "a",
            "all",
            "All",
            tooltip=f"Show those with a share below {number_format.figure(LEAST_SHARE)} too, or hide them again",
        ),
    ]

    def __init__(self, services: OpenProject, conversation_id: int) -> None:
        super().__init__()
        self._services, self._conversation = services, conversation_id
        self._listed: list[SecondGoal] = []
        self._least = LEAST_SHARE

    def compose(self) -> ComposeResult:
        """The list, or that there is none, and the keys."""
        with Vertical(classes="dialog") as box:
            box.border_title = "Second goals"
            yield Choices(markup=False)
            yield Static(id="none")
            yield Static(
                hint_line(
                    ("c", "confirms"),
                    ("d", "removes"),
                    ("u", "undoes"),
                    ("a", "shows all"),
                    ("escape", "closes"),
                )
            )

    def on_mount(self) -> None:
        """Fills the list."""
        self._fill()

    def _fill(self) -> None:
        self._listed = self._services.goals.second_goals(self._conversation, self._least)
        listed = self.query_one(Choices)
        at = listed.highlighted or 0
        listed.clear_options()
        listed.add_options(Option(_line(one)) for one in self._listed)
        listed.display = bool(self._listed)
        nothing = self.query_one("#none", Static)
        nothing.display = not self._listed
        nothing.update(
            Content(
                f"No other goal has a share of {number_format.figure(LEAST_SHARE)} or more."
                " Press a to list those with less."
                if self._least
                else "No other goal is near."
            )
        )
        if self._listed:
            listed.highlighted = min(at, len(self._listed) - 1)

    def action_judge(self, judgement: SecondGoalJudgement) -> None:
        """Confirms or removes the goal under the cursor."""
        at = self.query_one(Choices).highlighted
        if at is None:
            return
        if self._listed[at].share < LEAST_SHARE:
            self.notify(
                f"Second goals with a share below {number_format.figure(LEAST_SHARE)} cannot be confirmed or removed,"
                " since most are wrong.",
                markup=False,
            )
            return
        goals, group = self._services.goals, self._listed[at].group_id
        name = self._services.triage.annotator
        write_in_order(
            self,
            lambda: goals.judge_second_goal(self._conversation, group, judgement, name),
            lambda _: self._fill(),
            self.show_error,
        )

    def action_all(self) -> None:
        """Shows those with a share below `LEAST_SHARE` too, or hides them again."""
        self._least = 0.0 if self._least else LEAST_SHARE
        self._fill()

    def action_undo(self) -> None:
        """Takes back the newest confirmation or removal, whichever conversation it is of."""
        goals, name = self._services.goals, self._services.triage.annotator

        def undone(act: UndoneJudgement | None) -> None:
            self._fill()
            if act is None:
                self.notify("There is nothing to undo.", markup=False)
                return
            elsewhere = " of another conversation" * (act.conversation_id != self._conversation)
            goal = one_line(act.label, 60)
            self.notify(f"“{goal}”{elsewhere} is no longer {_DONE[act.kind]}.", markup=False)

        write_in_order(self, lambda: goals.undo_second_goal(name), undone, self.show_error)


def _line(one: SecondGoal) -> Content:
    small = one.share < LEAST_SHARE
    tone = "$tone-muted" if one.state == "removed" or small else "bold"
    return Content.assemble(
        ("  " if small else f"{_SIGNS[one.state]} ", "$tone-accent"),
        (one_line(one.label, 60), tone),
        (f"  {number_format.probability(one.share)}", "$tone-muted"),
        ("" if one.state == "proposed" else f"  {one.state}", "$tone-muted"),
    )


def judge_second_goals(
    screen: WorkbenchScreen[Any], conversation_id: int, closed: Callable[[], None]
) -> None:
    """Shows the second goals of a conversation; `closed` is called when the dialog is closed."""
    if screen.may_write():
        dialog = SecondGoalsDialog(screen.services, conversation_id)
        screen.app.push_screen(dialog, lambda _: closed())
