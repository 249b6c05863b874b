"""Taking back acts on goals, and giving them again."""

from __future__ import annotations

from collections.abc import Callable

from engine.records.goals import GoalDecision
from screens.goals import formatting
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.background import write_in_order


class GoalActsScreen(WorkbenchScreen[None]):
    """A screen on which acts can be undone; it is read again after each."""

    def action_undo(self) -> None:
        """Takes back the newest act."""
        self._again(self.services.goals.undo, "Taken back", "There is nothing to undo.")

    def action_redo(self) -> None:
        """Gives again what the newest undo took back."""
        self._again(self.services.goals.redo, "Given again", "There is nothing to redo.")

    def _again(self, work: Callable[[], GoalDecision | None], done: str, nothing: str) -> None:
        if not self.may_write():
            return

        def told(given: GoalDecision | None) -> None:
            self.notify(formatting.act_words(given, done) if given else nothing, markup=False)
            self.refresh_data()

        write_in_order(self, work, told, self.show_error)
