"""The base of screens that work out a result in the background: a summary, a table, and how it is to be read."""

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
    """Shows the newest result; before the first one, the keys that start one."""

    AUTO_FOCUS = "#rows"
    NO_RESULT: ClassVar[EmptyState]
    """Shown before there is a result."""
    table: ItemTable[Any]
    result: T | None = None
    """The newest result."""

    def compose_body(self) -> ComposeResult:
        """Yields the summary, the table, how it is to be read; or, without a result, why there is none."""
        yield Static(id="summary")
        with Horizontal(id="result"):
            yield self.table
            yield from self.beside()
        yield Static(id="notes")
        yield Static(classes="empty", id="empty")

    def beside(self) -> Iterable[Widget]:
        """Returns what stands beside the table."""
        return ()

    def refresh_data(self) -> None:
        """Keeps what is shown: a newer result is worked out when a person asks for it."""

    def work_out(self, waiting: str, work: Callable[[], T], show: Callable[[T], None]) -> None:
        """Calls `work` on another thread, then `show`; meanwhile the screen says `waiting`."""
        self.query_one("#empty", Static).update(waiting)
        self._show_only_sentence(True)
        self.in_background(work, show, group="result", failed=self._failed)

    def show_result(self, result: T, summary: Content, notes: Sequence[str]) -> None:
        """Shows the texts of a result; the caller fills the table."""
        self.result = result
        self._show_only_sentence(False)
        self.query_one("#summary", Static).update(summary)
        self.query_one("#notes", Static).update(Content("\n".join(notes)))
        self.table.focus()

    def _failed(self, error: WorkbenchError) -> None:
        """Shows an error in a dialog, and again what the screen showed before the work began."""
        self.show_empty(self.NO_RESULT)  # takes the place of the waiting sentence
        self._show_only_sentence(self.result is None)
        self.show_error(error)

    def _show_only_sentence(self, only: bool) -> None:
        """Shows a sentence in place of the result, or the result."""
        self.set_class(only, "-empty")
