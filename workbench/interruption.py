"""SIGTERM and SIGHUP (a terminal that closes, a dropped ssh) end the program as ctrl+c does."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)

ECHO_SECONDS = 1.0
"""A signal this soon after another belongs to it: the system and the shell both tell that a terminal closed. It must
not cut short what the first one makes the program clean up."""


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """In the block these signals raise KeyboardInterrupt; one that the program was started to ignore, as by nohup,
    stays ignored."""
    last = -ECHO_SECONDS

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= ECHO_SECONDS:
            last = now
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
