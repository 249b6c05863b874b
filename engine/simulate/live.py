"""The newest replies of a job that plays, passed from its thread to that of a screen."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from engine.simulate.play import Line
from engine.simulate.records import LiveLine, LivePlay

MAX_PLAYS, MAX_LINES = 24, 40
"""Most plays that are kept, and most replies of each."""

MAX_CHARACTERS = 4_000
"""Most characters of a reply that are kept; the transcript in the project has all of them."""


class LivePlays:
    """Buffer of the newest replies of the current run. Safe to use from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._run: object = None
        self._plays: OrderedDict[str, tuple[int, deque[LiveLine]]] = OrderedDict()

    def add(self, run: object, key: str, line: Line) -> None:
        """Adds a reply to a play; a run that is not the last one clears the buffer first."""
        with self._guard:
            if run is not self._run:
                self._run = run
                self._plays.clear()
            count, lines = self._plays.pop(key, (0, deque(maxlen=MAX_LINES)))
            lines.append(_live_line(line))
            self._plays[key] = count + 1, lines
            if len(self._plays) > MAX_PLAYS:
                self._plays.popitem(last=False)

    def newest(self) -> list[LivePlay]:
        """Returns the plays; the one with the newest reply is first."""
        with self._guard:
            return [
                LivePlay(key, count, tuple(lines))
                for key, (count, lines) in reversed(self._plays.items())
            ]


def _live_line(line: Line) -> LiveLine:
    """Returns the reply of a call, cut at `MAX_CHARACTERS`."""
    text = line.call.opening + line.reply.text
    return LiveLine(line.call.module, line.call.role, text[:MAX_CHARACTERS])
