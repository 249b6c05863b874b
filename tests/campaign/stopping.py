"""A campaign runs as long as one likes: ctrl+c ends it, and it reports what it saw."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator


def until_stopped(numbers: Iterable[int]) -> Iterator[int]:
    """The numbers up to the first SIGINT; the round under way then is the last. A shell that starts a command in the
    background lets it ignore the signal, so it is asked for here."""
    stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal stopped
        stopped = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        for number in numbers:
            yield number
            if stopped:
                return
    finally:
        signal.signal(signal.SIGINT, before)
