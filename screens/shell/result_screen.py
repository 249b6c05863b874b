"""The base of screens that compute a result in the background: a summary, a table, and notes on how to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from engine.base.errors import WorkbenchError
from screens.shell.workbench_screen import WorkbenchScreen
from screens.widgets.empty_state import EmptyState
from screens.widgets.row_table import ItemTable

T = TypeVar("T")
"""Type of the result."""


class ResultScreen(WorkbenchScreen[None], Generic[T]):
    """Shows the newest result, and while a first one is worked out a sentence that says so.

    A subclass makes the table. When it is opened, it calls `work_out`, or shows `NO_RESULT` if there is nothing to work
    out yet. It gives the texts of a result to `show_result`.
    """

    AUTO_FOCUS = "#rows"
    NO_RESULT: ClassVar[EmptyState]
    """What is shown before there is a result: a sentence that names the keys that start one."""
    table: ItemTable[Any]
    """The table of the result, whose id is `rows`; it is made before the screen is composed."""
    result: T | None = None

    def compose_body(self) -> ComposeResult:
        """Yields summary, table, notes and the sentence; the class `-empty` hides all but the sentence, which is hidden
        without it."""
        yield Static(id="summary")
        with Horizontal(id="result"):
            yield self.table
            yield from self.companions()
        yield Static(id="notes")
        yield Static(classes="empty", id="empty")

    def companions(self) -> Iterable[Widget]:
        """Returns the widgets to the right of the table."""
        return ()

    def refresh_data(self) -> None:
        """Does nothing: a newer result is computed only when a person asks for it."""

    def work_out(self, waiting: str, work: Callable[[], T], show: Callable[[T], None]) -> None:
        """Calls `work` on another thread, then `show` with its result; meanwhile `waiting` stands on the screen.

        An error is shown in a dialog.
        """
        self.query_one("#empty", Static).update(waiting)
        self._show_sentence(True)
        self.in_background(work, show, group="result", on_error=self._show_failure)

    def show_result(self, result: T, summary: Content, notes: Sequence[str]) -> None:
        """Shows the texts of a result; the caller fills the table."""
        self.result = result
        self._show_sentence(False)
        self.query_one("#summary", Static).update(summary)
        self.query_one("#notes", Static).update(Content("\n".join(notes)))
        self.table.focus()

    def _show_failure(self, error: WorkbenchError) -> None:
        """Shows an error in a dialog, over the earlier result, or over the sentence where there is none."""
        self.show_empty(self.NO_RESULT)  # in place of the waiting sentence
        self._show_sentence(self.result is None)
        self.show_error(error)

    def _show_sentence(self, in_place_of_result: bool) -> None:
        """Shows the sentence in place of the result, or else the result."""
        self.set_class(in_place_of_result, "-empty")
