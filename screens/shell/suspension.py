"""What an app does when it was suspended with `ctrl+z` and is continued."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from textual.app import App


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
