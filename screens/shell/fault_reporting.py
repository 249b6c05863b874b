"""What an app tells of its own faults."""

from __future__ import annotations

import logging
from typing import TypeVar

import rich
from rich.segment import Segments
from rich.traceback import Traceback
from textual.app import App

ResultT = TypeVar("ResultT")


class FaultTellingApp(App[ResultT], inherit_bindings=False):
    """Ends on an exception that nobody caught, with its places in the log and on the terminal, and without the values
    of variables: keys and conversations are among those, and what is told here is passed on in reports."""

    def _handle_exception(self, error: Exception) -> None:
        """Textual ends the app; before that the fault goes to the log."""
        logging.getLogger(__name__).error("the app ended", exc_info=error)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """As Textual's own, which shows the values."""
        self.bell()
        told = Traceback(show_locals=False, suppress=[rich])
        self._exit_renderables.append(Segments(self.console.render(told, self.console.options)))
        self._close_messages_no_wait()
