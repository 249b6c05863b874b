"""Runs simulated conversations ("plays"): each is a generator that yields one call of a model at a time.

A play knows neither models nor files. Many are played side by side: all calls that wait for the same model are
answered as one batch, so simulations of small models are as fast as the batches are wide.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

from engine.model.asking import Ending, Play, Scenario
from engine.model.chat import Call, Completion, Role

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


class RunOver(Exception):
    """Ends a play early; the play catches it and returns its ending.

    Attributes:
        reason: How the play ended, e.g. `turns`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class _Live:
    """A play that runs, with the call that waits for a reply."""

    number: int
    key: str
    play: Play
    call: Call
    lines: list[Line] = field(default_factory=list)


def _role_itself(role: Role) -> Hashable:
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
        model_of: Callable[[Role], Hashable] = _role_itself,
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
        return {live.key: len(live.lines) for live in self._live}

    def over(self) -> list[Played]:
        """Returns the plays that are over since the last call, in order of the scenarios."""
        over = [played for _, played in sorted(self._over, key=lambda pair: pair[0])]
        self._over = []
        return over

    def calls(self) -> list[Call]:
        """Returns the calls to answer next, all for one model; [] when all plays are over."""
        return [live.call for live in self._asking()]

    def answer(self, replies: Sequence[Completion | FailedCall | RunOver]) -> None:
        """Passes the replies to `calls` on to the plays, in the same order; a `RunOver` is raised in its play."""
        for live, reply in zip(self._asking(), replies, strict=True):
            if isinstance(reply, FailedCall):
                live.play.close()
                self._break_off(live, reply.reason)
                continue
            if isinstance(reply, Completion):
                line = Line(live.call, reply)
                live.lines.append(line)
                self._on_reply(live.key, line)
            self._go_on(live, reply)
        self._fill()

    def _asking(self) -> list[_Live]:
        """Returns the plays that wait for the model that replied last, else for the model with most waiting plays,
        because a change of models costs a load."""
        models = Counter(self._model_of(live.call.role) for live in self._live)
        if models and self._answering not in models:
            self._answering = models.most_common(1)[0][0]
        return [live for live in self._live if self._model_of(live.call.role) == self._answering]

    def _fill(self) -> None:
        while self._waiting and len(self._live) < self._parallel:
            number, scenario = self._waiting.popleft()
            # What is asked first replaces this call.
            live = _Live(number, scenario.key, scenario.play(), Call("", "assistant", ()))
            self._live.append(live)
            self._go_on(live, None)

    def _go_on(self, live: _Live, reply: Completion | RunOver | None) -> None:
        try:
            if isinstance(reply, RunOver):
                live.call = live.play.throw(reply)
            else:
                live.call = next(live.play) if reply is None else live.play.send(reply)
        except StopIteration as stop:
            self._end(live, Played(live.key, stop.value, tuple(live.lines)))
        except Exception as error:  # noqa: BLE001 - a fault in one play must not end the others
            _log.exception("the play %s failed", live.key)
            self._break_off(live, f"a fault: {type(error).__name__}: {error}")

    def _break_off(self, live: _Live, reason: str) -> None:
        self._end(live, Played(live.key, Ending(), tuple(live.lines), reason))

    def _end(self, live: _Live, played: Played) -> None:
        self._live.remove(live)
        self._over.append((live.number, played))


LONGER = 0.25
"""Share of its replies so far that is estimated to remain of a play that took more replies than expected."""


class ReplyForecast:
    """Estimates the number of replies of a run: the expected replies of each play, scaled by the ratio of actual to
    expected replies of the finished plays."""

    def __init__(
        self, playing: Playing, scenarios: Sequence[Scenario], missing: Collection[str]
    ) -> None:
        self._playing, self._missing = playing, missing
        self._expected = {scenario.key: scenario.expected for scenario in scenarios}
        self._taken = self._expected_taken = 0.0
        self._kept = 0

    @property
    def note(self) -> str:
        """The number of finished plays, of those that were missing."""
        return f"{self._kept:,} of {len(self._missing):,} played"

    def take(self, played: Played) -> None:
        """Records a finished play."""
        self._taken += len(played.transcript)
        self._expected_taken += self._expected[played.key]
        self._kept += played.key in self._missing

    def total(self, written: int) -> int | None:
        """Returns the estimated replies of the whole run, after `written` of them; None before a play is finished."""
        if not self._expected_taken:
            return None
        scale = self._taken / self._expected_taken
        left = scale * sum(self._expected[key] for key in self._playing.waiting)
        for key, lines in self._playing.live.items():
            rest = scale * self._expected[key] - lines
            left += rest if rest > 0 else max(LONGER * lines, 1)
        return written + round(left)
