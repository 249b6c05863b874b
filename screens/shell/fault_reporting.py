"""How the app reports an uncaught exception that ends it."""

from __future__ import annotations

import logging
from typing import TypeVar

from textual.app import App

ResultT = TypeVar("ResultT")


class FaultReportingApp(App[ResultT], inherit_bindings=False):
    """Writes the traceback of an exception that ends the app to the log and the terminal, without the values of
    variables: API keys and conversations may be among them, and people paste tracebacks into reports."""

    def _handle_exception(self, error: Exception) -> None:
        """Logs the exception before Textual ends the app."""
        logging.getLogger(__name__).error("the app ended", exc_info=error)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """As Textual does it, but without the values of variables."""
        # imported where it is used: it brings the colouring of code, which no first frame needs
        import rich
        from rich.segment import Segments
        from rich.traceback import Traceback

        self.bell()
        traceback = Traceback(show_locals=False, suppress=[rich])
        self._exit_renderables.append(
            Segments(self.console.render(traceback, self.console.options))
        )
        self._close_messages_no_wait()
