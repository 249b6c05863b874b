"""Undo and redo of decisions on goal groups, for the screens that show groups."""

from __future__ import annotations

from collections.abc import Callable

from engine.records.goals import GoalDecision
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order
from screens.widgets.groups.decisions import decision_text


class UndoScreen(WorkbenchScreen[None]):
    """Base of the screens that undo and redo decisions on goal groups; reads the data again after each."""

    def action_undo(self) -> None:
        """Undoes the newest act."""
        self._turn(self.services.goals.undo, "Undone", "There is nothing to undo.")

    def action_redo(self) -> None:
        """Does again what the newest undo took back."""
        self._turn(self.services.goals.redo, "Done again", "There is nothing to redo.")

    def _turn(self, work: Callable[[], GoalDecision | None], done: str, nothing: str) -> None:
        if not self.may_write():
            return

        def notify(decision: GoalDecision | None) -> None:
            found = nothing if decision is None else f"{done}: {decision_text(decision)}."
            self.notify(found, markup=False)
            self.refresh_data()

        write_in_order(self, work, notify, self.show_error)
