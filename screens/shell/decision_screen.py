"""The base of the screens that decide on goal groups: stores decisions in order, undoes and redoes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.goals.records import GoalDecision
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.groups.decisions import decision_text

T = TypeVar("T")


class DecisionScreen(WorkbenchScreen[None]):
    """Base of the screens that decide on goal groups; each reads its data again after a decision."""

    def write(self, work: Callable[[], T], then: Callable[[T], None] = lambda _: None) -> None:
        """Stores a decision after those before it, and reads the data again; `then` gets what `work` returned."""

        def done(result: T) -> None:
            then(result)
            self.refresh_data()

        write_in_order(self, work, done, self.show_error)

    def action_undo(self) -> None:
        """Undoes the newest act."""
        if self.may_write():
            self.write(self.services.goals.undo, self._notify_undone)

    def action_redo(self) -> None:
        """Does again what the newest undo took back."""
        if self.may_write():
            self.write(self.services.goals.redo, self._notify_redone)

    def _notify_undone(self, decision: GoalDecision | None) -> None:
        if decision is None:
            self.notify("There is nothing to undo.", markup=False)
        else:
            self.notify(f"Undone: {decision_text(decision)}.", markup=False)
            self.undone(decision)

    def _notify_redone(self, decision: GoalDecision | None) -> None:
        if decision is None:
            self.notify("There is nothing to redo.", markup=False)
        else:
            self.notify(f"Done again: {decision_text(decision)}.", markup=False)
            self.redone(decision)

    def undone(self, decision: GoalDecision) -> None:
        """Called after a decision was undone, before the data is read again."""

    def redone(self, decision: GoalDecision) -> None:
        """Called after a decision was redone, before the data is read again."""
