"""Runs simulated conversations ("plays"): each is a generator that yields one call of a model at a time.

A play knows neither models nor files. Many are played side by side: all calls that wait for the same model are
answered as one batch, so simulations of small models are as fast as the batches are wide.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from engine.model.asking import Ending, Play, Scenario
from engine.model.chat import Call, Completion, Role
from engine.simulate.records import LiveLine, LivePlay

_log = logging.getLogger(__name__)

PARALLEL = 32
"""Default number of plays at a time."""


@dataclass(frozen=True, slots=True)
class Line:
    """One call of a play with its reply, for the transcript."""

    call: Call
    reply: Completion


@dataclass(frozen=True, slots=True)
class FailedCall:
    """Replaces a reply that no model could give; `reason` says why. The play is aborted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Played:
    """A finished or aborted play with its transcript.

    Attributes:
        ending: The result; empty if the play was aborted.
        reason: Why it was aborted; None if it finished.
    """

    key: str
    ending: Ending
    transcript: tuple[Line, ...]
    reason: str | None = None


@dataclass(slots=True, eq=False)
class _Live:
    at: int
    key: str
    play: Play
    call: Call
    lines: list[Line] = field(default_factory=list)


def _each_its_own(role: Role) -> Hashable:
    return role


def _ignore(key: str, line: Line) -> None:
    """The default of `on_reply`: does nothing."""


class Playing:
    """Runs plays in parallel: collects their waiting calls into batches, and passes the replies back."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        *,
        parallel: int,
        model_of: Callable[[Role], Hashable] = _each_its_own,
        on_reply: Callable[[str, Line], None] = _ignore,
    ) -> None:
        """Starts the first plays.

        Args:
            parallel: Most plays that run at once; when one is over, the next starts.
            model_of: Returns a key of the model for a role; roles with equal keys share a batch.
            on_reply: Called with the key of the play and each call with its reply.
        """
        self._waiting = deque(enumerate(scenarios))
        self._live: list[_Live] = []
        self._over: list[tuple[int, Played]] = []
        self._parallel, self._model_of, self._on_reply = parallel, model_of, on_reply
        self._answering: Hashable = None
        self._fill()

    @property
    def waiting(self) -> list[str]:
        """Keys of the plays that have not started."""
        return [scenario.key for _, scenario in self._waiting]

    @property
    def live(self) -> dict[str, int]:
        """Number of replies so far of each running play, by its key."""
        return {one.key: len(one.lines) for one in self._live}

    def over(self) -> list[Played]:
        """Returns the plays that are over since the last call, in order of the scenarios."""
        over = [played for _, played in sorted(self._over, key=lambda pair: pair[0])]
        self._over = []
        return over

    def calls(self) -> list[Call]:
        """Returns the calls to answer next, all for one model; [] when all plays are over."""
        return [one.call for one in self._asking()]

    def answer(self, replies: Sequence[Completion | FailedCall]) -> None:
        """Passes the replies to `calls` on to the plays, in the same order."""
        for one, reply in zip(self._asking(), replies, strict=True):
            if isinstance(reply, FailedCall):
                one.play.close()
                self._break_off(one, reply.reason)
            else:
                line = Line(one.call, reply)
                one.lines.append(line)
                self._on_reply(one.key, line)
                self._go_on(one, reply)
        self._fill()

    def _asking(self) -> list[_Live]:
        """Returns the plays that wait for the model that replied last, else for the model with most waiting plays,
        because a change of models costs a load."""
        models = Counter(self._model_of(one.call.role) for one in self._live)
        if models and self._answering not in models:
            self._answering = models.most_common(1)[0][0]
        return [one for one in self._live if self._model_of(one.call.role) == self._answering]

    def _fill(self) -> None:
        while self._waiting and len(self._live) < self._parallel:
            at, scenario = self._waiting.popleft()
            # What is asked first replaces this call.
            one = _Live(at, scenario.key, scenario.play(), Call("", "assistant", ()))
            self._live.append(one)
            self._go_on(one, None)

    def _go_on(self, one: _Live, reply: Completion | None) -> None:
        try:
            one.call = next(one.play) if reply is None else one.play.send(reply)
        except StopIteration as stop:
            self._end(one, Played(one.key, stop.value, tuple(one.lines)))
        except Exception as error:  # noqa: BLE001 - a fault in one play must not end the others
            _log.exception("the play %s failed", one.key)
            self._break_off(one, f"a fault: {type(error).__name__}: {error}")

    def _break_off(self, one: _Live, reason: str) -> None:
        self._end(one, Played(one.key, Ending(), tuple(one.lines), reason))

    def _end(self, one: _Live, played: Played) -> None:
        self._live.remove(one)
        self._over.append((one.at, played))


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
