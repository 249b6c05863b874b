"""What passes between the thread of a job that plays and that of a screen: new replies, and a person's answers."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from engine.base.errors import Cancelled
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
            lines.append(live_line(line))
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


def live_line(line: Line) -> LiveLine:
    """Returns the reply of a call, cut at `MAX_CHARACTERS`."""
    text = line.call.opening + line.reply.text
    return LiveLine(line.call.module, line.call.role, text[:MAX_CHARACTERS])


class Person:
    """Passes questions of a play to a person and the answers back. Safe to use from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._question: str | None = None
        self._answer: str | None = None
        self._stopping = self._gone = False

    @property
    def question(self) -> str | None:
        """The open question; None if there is none."""
        with self._changed:
            return self._question

    def say(self, text: str) -> None:
        """Answers the open question; does nothing if there is none."""
        with self._changed:
            if self._question is not None:
                self._question, self._answer = None, text
                self._changed.notify_all()

    def stop(self) -> None:
        """Ends the play at the open question, or at the next one."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def leave(self) -> None:
        """Makes `wait_for_answer` raise Cancelled, now and later."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    def wait_for_answer(self, question: str) -> str | None:
        """Opens a question and returns the answer of the person; None if the person ends the play.

        Raises:
            Cancelled: `leave` was called.
        """
        with self._changed:
            self._question, self._answer = question, None
            while self._answer is None and not self._stopping and not self._gone:
                self._changed.wait()
            self._question = None
            if self._gone:
                raise Cancelled("The person has left.")
            return self._answer
