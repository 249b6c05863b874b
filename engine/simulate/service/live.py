"""The latest replies of the plays of the current run, for the live view."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from engine.simulate.play import Line
from engine.simulate.service.records import LiveLine, LivePlay

PLAYS, LINES = 24, 40
"""Most plays that are kept, and most replies of each."""
MOST_CHARACTERS = 4_000
"""Most characters of a reply that are kept; the transcript in the project has all of them."""


class LivePlays:
    """Buffer of replies between the thread of the job, which adds them, and the thread of the screen."""

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
            count, lines = self._plays.pop(key, (0, deque(maxlen=LINES)))
            lines.append(live_line(line))
            self._plays[key] = count + 1, lines
            if len(self._plays) > PLAYS:
                self._plays.popitem(last=False)

    def newest(self) -> list[LivePlay]:
        """The plays; the one with the newest reply is first."""
        with self._guard:
            return [
                LivePlay(key, count, tuple(lines))
                for key, (count, lines) in reversed(self._plays.items())
            ]


def live_line(line: Line) -> LiveLine:
    """The reply of a call, cut at `MOST_CHARACTERS`."""
    text = line.call.opening + line.reply.text
    return LiveLine(line.call.module, line.call.role, text[:MOST_CHARACTERS], line.reply.note)
