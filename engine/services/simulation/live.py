"""What is being said in simulations now: the newest replies of the newest plays, for whoever watches."""

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
    """Takes replies from the thread of the job, and gives them to that of the screen."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._run: object = None
        self._plays: OrderedDict[str, tuple[int, deque[LiveLine]]] = OrderedDict()

    def hear(self, run: object, key: str, line: Line) -> None:
        """Takes a reply; those of another run are forgotten."""
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
        """The play that heard something last first."""
        with self._guard:
            return [
                LivePlay(key, count, tuple(lines))
                for key, (count, lines) in reversed(self._plays.items())
            ]


def live_line(line: Line) -> LiveLine:
    """A reply as it is watched."""
    text = line.call.opening + line.said.text
    return LiveLine(line.call.module, line.call.role, text[:MOST_CHARACTERS], line.said.note)
