"""What both apps share: how they end, how they go on after the terminal is lost or continued, what it may be sent.

The apps are the workbench itself and the picker, which is shown where no project is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any, TypeVar, cast

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.actions import ActionParseResult
from textual.app import App, ScreenStackError
from textual.cache import LRUCache
from textual.color import Color
from textual.css.query import NoMatches
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.screen import Screen
from textual.worker import WorkerFailed

from engine.base.conversation import without_surrogates
from engine.base.text import MAX_COMBINING_MARKS, NOTICE_LIMIT, display_safe, one_line
from screens.shell.app_interface import Shell
from screens.shell.themes import DARK_TONES, LIGHT_TONES, THEMES
from screens.widgets.background import is_there

ResultT = TypeVar("ResultT")
"""What an app returns when it has ended."""

HANG_UP_MILLISECONDS = 500
"""Time for which the end of the app is not noticed while the thread waits for the terminal to hang up."""


class StyleSheets(Stylesheet):
    """Style sheets that are parsed again only where a variable has another value.

    Textual parses twice at the first visit of a mode, though nothing changed, which took half of the time until the
    screen was there.
    """

    _values: Mapping[str, str] | None = None
    """The variables at the last parse."""

    def __init__(self, *, variables: dict[str, str]) -> None:
        """Keeps what is parsed of all style sheets. Textual keeps 64, fewer than the widgets have."""
        super().__init__(variables=variables)
        self._parse_cache = LRUCache(1024)

    def reparse(self) -> None:
        """Parses as Textual does, if there is a reason."""
        if self._values != self._variables:
            self._values = self._variables
            super().reparse()


class BaseApp(App[ResultT], inherit_bindings=False):
    """The base of both apps.

    It writes the traceback of an exception that ends it to the log and the terminal, without the values of variables:
    API keys and conversations may be among them, and people paste tracebacks into reports.

    Attributes:
        shell: The settings that the app starts with.
        interrupted: Whether the app ends because of a signal, or because its terminal is gone.
    """

    interrupted = False

    def __init__(self, shell: Shell) -> None:
        """Takes the theme and the keys of the shell; with NO_COLOR the terminal's own two colors are the theme."""
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.stylesheet = StyleSheets(variables=self.get_css_variables())
        self.animation_level = "none"
        self.shell = shell
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = THEMES["ansi" if self.no_color else shell.theme].name
        self.set_keymap(shell.keymap)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Returns the tones, for themes that do not define them, and before a theme is set."""
        return DARK_TONES if self.current_theme.dark else LIGHT_TONES

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Returns Textual's own filters, and the guard against control bytes."""
        return [*super().get_line_filters(), CONTROL_GUARD]

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Runs an action as Textual does, but none of a screen whose widgets do not exist yet or are removed.

        A key may arrive after the one that opens or closes a screen, and before the screen is opened or closed.
        """
        if isinstance(default_namespace, Screen) and not (
            default_namespace.is_mounted and is_there(default_namespace)
        ):
            return False
        return await super().run_action(action, default_namespace, namespaces)

    def begin_session(self) -> None:
        """Draws again when the program is continued, and notifies of problems in the keymap and preferences files. To
        be called when the app is mounted."""
        draw_when_continued(self)
        for problem in self.shell.problems:
            text = one_line(problem, NOTICE_LIMIT)
            self.notify(text, severity="warning", markup=False, timeout=15)

    async def run_async(self, **options: Any) -> ResultT | None:
        """Runs the app until it ends; SIGTERM and SIGHUP end it as `ctrl+q` does."""
        with calling_when_ended(self.interrupt):
            return await super().run_async(**options)

    def get_driver_class(self) -> type[Driver]:
        """Returns the driver class of Textual; for a terminal `TerminalDriver`."""
        driver = super().get_driver_class()
        return TerminalDriver if driver is LinuxDriver else driver

    def interrupt(self) -> None:
        """Ends the app at once, whatever it shows; `interrupted` is true from now on."""
        self.interrupted = True
        self.call_later(self.action_quit_at_once)

    async def action_quit_at_once(self) -> None:
        """Ends the app without a question."""
        self.exit()

    def copy_to_clipboard(self, text: str) -> None:
        """Copies a text; a lone surrogate in it, which no terminal takes, becomes U+FFFD."""
        super().copy_to_clipboard(without_surrogates(text))

    def _handle_exception(self, error: Exception) -> None:
        """Logs the exception before Textual ends the app.

        While the app ends, late keys and results find screens whose widgets are removed, or no screen; that is no
        fault.
        """
        log = logging.getLogger(__name__)
        cause = error.error if isinstance(error, WorkerFailed) else error
        if self._exit and isinstance(cause, (NoMatches, ScreenStackError)):
            log.info("while the app closed: %s", error)
            self._close_messages_no_wait()
            return
        log.error("the app ended", exc_info=error)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Writes the traceback as Textual does, but without the values of variables."""
        # Imported where it is used: it brings the coloring of code, which no first frame needs.
        import rich
        from rich.segment import Segments
        from rich.traceback import Traceback

        self.bell()
        traceback = Traceback(show_locals=False, suppress=[rich])
        self._exit_renderables.append(
            Segments(self.console.render(traceback, self.console.options))
        )
        self._close_messages_no_wait()


@contextmanager
def calling_when_ended(call: Callable[[], None]) -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP call a function on the running event loop; an ignored signal stays ignored."""
    loop = asyncio.get_running_loop()

    def handle_signal(number: int, frame: FrameType | None) -> None:
        """Leaves the call to the loop: a handler runs between any two steps of the main thread."""
        loop.call_soon_threadsafe(call)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handle_signal)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


class TerminalDriver(LinuxDriver):
    """Textual's driver, but for a terminal that may be lost.

    In Textual's own, a thread then ends with an error, and the app waits for it without end. Here what is drawn is
    dropped, and the app ends.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast(Any, _MayBeGone(cast(IO[str], self._file)))

    def _sigcont_application(self, *_: Any) -> None:
        """Takes the terminal back, after it is given back where the app was stopped without that: Textual would begin
        to read keys a second time. Nothing is taken where a shell that closes continues its app, which is ending."""
        if self._has_hung_up(0) or (self.exit_event.is_set() and not self._must_signal_resume):
            return
        if not self._must_signal_resume:
            self.suspend_application_mode()
            self._app.call_later(self._app.refresh, layout=True)
        super()._sigcont_application()

    def run_input_thread(self) -> None:
        """Reads keys until the app ends; ends the app where the terminal is gone."""
        threading.Thread(target=self._wait_for_hang_up, name="hang-up", daemon=True).start()
        try:
            super().run_input_thread()
        except OSError as error:
            self._end_without_terminal(error)

    def _wait_for_hang_up(self) -> None:
        """Ends the app when the terminal hangs up: where SIGHUP is ignored nothing else says so, and Textual would read
        nothing again and again."""
        while not self.exit_event.is_set():
            if self._has_hung_up(HANG_UP_MILLISECONDS):
                self._end_without_terminal("it hung up")
                return

    def _has_hung_up(self, milliseconds: int) -> bool:
        """Returns whether the terminal hangs up within this time."""
        poll = select.poll()
        poll.register(self.fileno, 0)
        return any(event & select.POLLHUP for _, event in poll.poll(milliseconds))

    def _end_without_terminal(self, reason: object) -> None:
        """Ends the app at once."""
        logging.getLogger(__name__).info("the terminal is gone: %s", reason)
        self._app.call_later(cast(Any, self._app).interrupt)  # of BaseApp


class _MayBeGone:
    """A terminal that takes text as long as it exists, and drops it afterwards."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal

    def write(self, text: str) -> None:
        """Writes a text if the terminal exists."""
        with contextlib.suppress(OSError):
            self._terminal.write(text)

    def flush(self) -> None:
        """Writes what is waiting if the terminal exists."""
        with contextlib.suppress(OSError):
            self._terminal.flush()

    def fileno(self) -> int:
        """Returns the number of the file, by which Textual sets the terminal."""
        return self._terminal.fileno()


def draw_when_continued(app: App[Any]) -> None:
    """Draws the whole screen again each time the program is continued. Call it once, when the app is mounted.

    Textual's handler of the signal takes the terminal back. Python runs a handler on the main thread only, and the
    system may give the signal to another thread: the main thread, which waits for keys that nobody reads, then never
    hears of it. A handler of the event loop wakes the main thread.
    """
    app.app_resume_signal.subscribe(app, lambda _: app.refresh(layout=True))
    takes_terminal_back = signal.getsignal(signal.SIGCONT)
    if callable(takes_terminal_back):  # not where the app has no terminal
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGCONT, takes_terminal_back, signal.SIGCONT, None
        )


class ControlGuard(LineFilter):
    """Rewrites segments that hold control characters, just before a line goes to the terminal.

    This is a second guard: every widget makes untrusted text safe where it takes it in, before widths are measured.
    Not covered: titles that the terminal driver writes itself, and text that a person copies out.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Returns the segments with every control character replaced; the same list when there was none."""
        if not any(_is_suspect(segment.text) for segment in segments):
            return segments
        return [
            Segment(_flat(segment.text), segment.style, segment.control)
            if _is_suspect(segment.text)
            else segment
            for segment in segments
        ]


CONTROL_GUARD = ControlGuard()
"""The only guard: Textual keeps filtered lines for each filter, and would filter all again for a new one."""


def _is_suspect(text: str) -> bool:
    """Returns whether a text has control characters, or more combining marks than it has cells for."""
    if not text.isprintable():
        return True
    return not text.isascii() and len(text) - cell_len(text) > MAX_COMBINING_MARKS


def _flat(text: str) -> str:
    """Returns the text made safe, in as many cells as were measured for it, so that the rest of the line stays."""
    return set_cell_size(display_safe(text.replace("\n", " ").replace("\t", " ")), cell_len(text))
