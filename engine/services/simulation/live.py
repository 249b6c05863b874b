"""The newest replies of the newest plays of the run that is going on."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from engine.services.simulation.records import LiveLine, LivePlay
from engine.simulate.play import Line

PLAYS, LINES = 24, 40
"""Plays that are remembered, and replies of each."""
MOST_CHARACTERS = 4_000
"""Of a reply; the transcript in the project has the whole."""


class LivePlays:
    """Passes replies from the thread of the job to the thread of the screen."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._run: object = None
        self._plays: OrderedDict[str, tuple[int, deque[LiveLine]]] = OrderedDict()

    def add(self, run: object, key: str, line: Line) -> None:
        """Adds a reply to a play; the replies of any other run are dropped."""
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
        """The plays, the one with the newest reply first."""
        with self._guard:
            return [
                LivePlay(key, count, tuple(lines))
                for key, (count, lines) in reversed(self._plays.items())
            ]


def live_line(line: Line) -> LiveLine:
    """A call with its reply as screens show it, shortened."""
    text = line.call.opening + line.reply.text
    return LiveLine(line.call.module, line.call.role, text[:MOST_CHARACTERS], line.reply.note)
