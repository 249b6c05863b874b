"""What the apps do when they are told to end, or when their terminal is gone: a window that closes, a dropped ssh."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO, Any, cast

from textual.drivers.linux_driver import LinuxDriver


@contextmanager
def calling_when_ended(call: Callable[[], None]) -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP call a function on the running event loop; an ignored one stays ignored."""
    loop = asyncio.get_running_loop()

    def ended(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(call)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, ended)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


class TerminalDriver(LinuxDriver):
    """Textual's driver, whose threads end with an error when the terminal is gone; then the app waits for them without
    end. Here what is drawn is dropped, and the app is told."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._file = cast(Any, _MayBeGone(cast(IO[str], self._file)))

    def run_input_thread(self) -> None:
        """Reads keys until the app ends, or tells it that the terminal is gone."""
        try:
            super().run_input_thread()
        except OSError as error:
            logging.getLogger(__name__).info("the terminal is gone: %s", error)
            self._app.call_later(cast(Any, self._app).interrupt)


class _MayBeGone:
    """A terminal that takes text for as long as it is there."""

    def __init__(self, terminal: IO[str]) -> None:
        self._terminal = terminal

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._terminal.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._terminal.flush()

    def fileno(self) -> int:
        return self._terminal.fileno()
