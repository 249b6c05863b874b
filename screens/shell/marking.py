"""Marking rows of a list."""

from __future__ import annotations

from array import array
from typing import Any

from screens.widgets.marks import Marks
from screens.widgets.row_table import RowTable


class Marking:
    """Adds the actions that mark rows to a screen with a table.

    Attributes:
        table: Shows the rows; it is given `marks` to draw them.
    """

    table: RowTable[Any]
    marks: Marks

    def marks_changed(self) -> None:
        """Called after the marks changed, to show how many rows are marked."""
        raise NotImplementedError

    def action_mark(self) -> None:
        """Marks the row under the cursor, or takes its mark away, and goes on to the next."""
        if self.table.cursor_id is not None:
            self.marks.toggle(self.table.cursor_id)
            self._marked()
            self.table.action_move(1)

    def action_mark_range(self) -> None:
        """Marks from the last mark to the cursor."""
        if self.table.cursor_id is not None:
            self.marks.mark_range(self.table.ids, self.table.cursor_index)
            self._marked()

    def action_mark_all(self) -> None:
        """Marks everything that is listed."""
        self.marks.mark_all(self.table.ids)
        self._marked()

    def action_mark_none(self) -> None:
        """Takes all marks away."""
        self.marks.clear()
        self._marked()

    def _marked(self) -> None:
        self.table.refresh()
        self.marks_changed()

    def _meant(self) -> array[int]:
        """The marked rows, else the one under the cursor."""
        if self.marks:
            return self.marks.chosen(self.table.ids)
        return array("q", [] if self.table.cursor_id is None else [self.table.cursor_id])
