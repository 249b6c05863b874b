"""Conversations as they are played: each a generator that asks for one reply at a time.

A play knows neither models nor files. Many are played side by side: all calls that wait for the same model are
answered as one batch, so simulations of small models are as fast as the batches are wide. A play must be a function
of its scenario and the replies alone (its own randomness seeded), so that it is resumed by playing it again with the
replies that are known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.model.talking import Call, Said


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of a play.

    Attributes:
        record: The conversation as one record of an import format, or None where the play was no conversation.
        format: Name of that format.
        result: Everything that is worth a table: scores, counts, labels. JSON.
    """

    record: Mapping[str, Any] | None = None
    format: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)


Play = Generator[Call, Said, Ending]


class Scenario(Protocol):
    """One thing to simulate."""

    @property
    def key(self) -> str:
        """Names it among all scenarios of one run, e.g. `sharded/math/GSM8K-17/recap/3`."""

    def play(self) -> Play:
        """A new play of it."""


@dataclass(frozen=True, slots=True)
class Line:
    """One call of a play with its reply, for the transcript."""

    call: Call
    said: Said


@dataclass(frozen=True, slots=True)
class Played:
    """A play that ended, with its transcript."""

    key: str
    ending: Ending
    transcript: tuple[Line, ...]


@dataclass(slots=True)
class _Live:
    at: int
    key: str
    play: Play
    call: Call
    lines: list[Line] = field(default_factory=list)


def play_all(
    scenarios: Sequence[Scenario],
    say: Callable[[Sequence[Call]], Sequence[Said]],
    *,
    parallel: int,
) -> Iterator[Played]:
    """Plays scenarios side by side.

    Args:
        say: Answers calls, all of one role, in order.
        parallel: Plays that are on at once, at most; as one ends, the next begins.

    Yields:
        Plays as they end; of those that end in one round, in order of `scenarios`.
    """
    waiting = iter(enumerate(scenarios))
    live: list[_Live] = []
    while True:
        ended: list[tuple[int, Played]] = []
        while len(live) < parallel and (following := next(waiting, None)):
            at, scenario = following
            play = scenario.play()
            try:
                live.append(_Live(at, scenario.key, play, next(play)))
            except StopIteration as stop:
                ended.append((at, Played(scenario.key, stop.value, ())))
        asking = _widest(live)
        said = say([one.call for one in asking]) if asking else ()
        for one, reply in zip(asking, said, strict=True):
            one.lines.append(Line(one.call, reply))
            try:
                one.call = one.play.send(reply)
            except StopIteration as stop:
                live.remove(one)
                ended.append((one.at, Played(one.key, stop.value, tuple(one.lines))))
        yield from (played for _, played in sorted(ended, key=lambda pair: pair[0]))
        if not live and not ended:
            return


def _widest(live: Sequence[_Live]) -> list[_Live]:
    """The plays that wait for the role that most of them wait for: changing between models costs a load."""
    roles = Counter(one.call.role for one in live)
    if not roles:
        return []
    role, _ = roles.most_common(1)[0]
    return [one for one in live if one.call.role == role]
