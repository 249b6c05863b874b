"""Conversations as they are played: each a generator that asks for one reply at a time.

A play knows neither models nor files. Many are played side by side: all calls that wait for the same model are
answered as one batch, so simulations of small models are as fast as the batches are wide. A play must be a function
of its scenario and the replies alone (its own randomness seeded), so that it is resumed by playing it again with the
replies that are known.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.model.chat import Call, Completion, Role

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """The result of a play.

    Attributes:
        record: The conversation as one record of an import format, or None where the play was no conversation.
        format: Name of that format.
        result: Everything that is worth a table: scores, counts, labels. JSON.
    """

    record: Mapping[str, Any] | None = None
    format: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


Play = Generator[Call, Completion, Ending]


class Scenario(Protocol):
    """One thing to simulate."""

    @property
    def key(self) -> str:
        """Names it among all scenarios of one run, e.g. `sharded/math/GSM8K-17/recap/3`."""

    @property
    def expected(self) -> float:
        """Roughly how many replies it takes. Only the proportion to others of its run counts: estimates are corrected
        by those that are over."""

    def play(self) -> Play:
        """A new play of it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One call of a play with its reply, for the transcript."""

    call: Call
    reply: Completion


@dataclass(frozen=True, slots=True)
class FailedCall:
    """In place of a reply: why no model gave one. The play breaks off."""

    reason: str


@dataclass(frozen=True, slots=True)
class Played:
    """A play that is over, with its transcript.

    Attributes:
        reason: Why it broke off, or None where it ended; there is nothing in `ending` then.
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
    """Nobody listens."""


class Playing:
    """Plays side by side: collects the calls that wait, and hands out the replies."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        *,
        parallel: int,
        model_of: Callable[[Role], Hashable] = _each_its_own,
        on_reply: Callable[[str, Line], None] = _ignore,
    ) -> None:
        """Begins.

        Args:
            parallel: Plays that are on at once, at most; as one is over, the next begins.
            model_of: What answers for a role; roles with equal answers are answered together.
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
        """The keys of plays that have not begun."""
        return [scenario.key for _, scenario in self._waiting]

    @property
    def live(self) -> dict[str, int]:
        """How many replies each play that is on has had, by its key."""
        return {one.key: len(one.lines) for one in self._live}

    def over(self) -> list[Played]:
        """Plays that are over since this was asked last, in order of the scenarios."""
        over = [played for _, played in sorted(self._over, key=lambda pair: pair[0])]
        self._over = []
        return over

    def calls(self) -> list[Call]:
        """The calls to answer now, all of one model; none when all plays are over."""
        return [one.call for one in self._asking()]

    def answer(self, replies: Sequence[Completion | FailedCall]) -> None:
        """Takes the replies to `calls`, in order."""
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
        """The plays that wait for the model that answered last, else for that which most of them wait for: changing
        between models costs a load."""
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


def play_all(
    scenarios: Sequence[Scenario],
    say: Callable[[Sequence[Call]], Sequence[Completion | FailedCall]],
    *,
    parallel: int,
) -> Iterator[Played]:
    """Plays scenarios side by side.

    Args:
        say: Answers calls, all of one role, in order.
        parallel: Plays that are on at once, at most; as one is over, the next begins.

    Yields:
        Plays as they are over; of those that are over in one round, in order of `scenarios`.
    """
    playing = Playing(scenarios, parallel=parallel)
    yield from playing.over()
    while calls := playing.calls():
        playing.answer(say(calls))
        yield from playing.over()
