"""What both apps share: how they end when they are told to or fail, and a clipboard that takes any text."""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from textual.app import App, ScreenStackError
from textual.css.query import NoMatches
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.worker import WorkerFailed

from engine.base.conversation import without_surrogates
from screens.shell.lost_terminal import TerminalDriver, calling_when_ended

ResultT = TypeVar("ResultT")


class BaseApp(App[ResultT], inherit_bindings=False):
    """Copies any text. Writes the traceback of an exception that ends the app to the log and the terminal, without the
    values of variables: API keys and conversations may be among them, and people paste tracebacks into reports.

    Attributes:
        interrupted: Whether the app ends because a signal said so, or because its terminal is gone.
    """

    interrupted = False

    async def run_async(self, **options: Any) -> ResultT | None:
        """Runs the app until it ends; SIGTERM and SIGHUP end it as `ctrl+q` does."""
        with calling_when_ended(self.interrupt):
            return await super().run_async(**options)

    def get_driver_class(self) -> type[Driver]:
        """The driver, of a terminal one that bears its loss."""
        found = super().get_driver_class()
        return TerminalDriver if found is LinuxDriver else found

    def interrupt(self) -> None:
        """Ends the app at once, whatever it shows."""
        self.interrupted = True
        self.call_later(self.action_quit_at_once)

    async def action_quit_at_once(self) -> None:
        """Ends the app without a question."""
        self.exit()

    def copy_to_clipboard(self, text: str) -> None:
        """Copies a text; a lone surrogate in it, which no terminal takes, becomes U+FFFD."""
        super().copy_to_clipboard(without_surrogates(text))

    def _handle_exception(self, error: Exception) -> None:
        """Logs the exception before Textual ends the app. While it ends, keys and work on their way find screens whose
        widgets are gone, or no screen: that is no fault."""
        log = logging.getLogger(__name__)
        cause = error.error if isinstance(error, WorkerFailed) else error
        if self._exit and isinstance(cause, (NoMatches, ScreenStackError)):
            log.info("while the app closed: %s", error)
            self._close_messages_no_wait()
            return
        log.error("the app ended", exc_info=error)
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
