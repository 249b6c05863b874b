"""Runs plays in parallel: a play (mostly a simulated conversation) is a generator that yields one model call at a time.

A play knows neither models nor files. Many are played side by side: all calls that wait for the same model are
answered as one batch, so simulations of small models are as fast as the batches are wide.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.model.chat import Call, Completion, Ending, Play, Role, Scenario
from engine.model.interface import Sampling

_log = logging.getLogger(__name__)

DEFAULT_PARALLEL_PLAYS = 32
"""Default number of plays that run at once."""


BY_SCHEMA = Sampling(json_schema="{}")
"""Sampling by any JSON schema, to declare that a simulation asks a role for such replies; never sampled with."""


@dataclass(frozen=True, slots=True)
class PlannedPlays:
    """The plays that a request asks for.

    Attributes:
        scenarios, params: See `PlayStage`; the seed and the temperature belong to `params`.
        sampling_by_role: The roles that models play, each with the most constrained sampling of its replies:
            `Sampling()` or `BY_SCHEMA`.
    """

    scenarios: Callable[[Mapping[Role, str]], Sequence[Scenario]]
    params: Mapping[str, Any]
    sampling_by_role: Mapping[Role, Sampling]


@dataclass(frozen=True, slots=True)
class StoredPlay:
    """One play, as it is stored.

    Attributes:
        key: Identifies the play among those of its setting.
        conversation_id: The stored conversation; None if the play gave none.
        reason: Why it broke off; None if it ended.
        result: Scores, counts and labels. JSON.
    """

    key: str
    conversation_id: int | None
    reason: str | None
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FailedCall:
    """Stands in for a reply that no model could give, and aborts the play; `reason` says why there is none."""

    reason: str


@dataclass(frozen=True, slots=True)
class EndedPlay:
    """A finished or aborted play.

    Attributes:
        key: The key of its scenario.
        ending: The result; empty if the play was aborted.
        reason: Why it was aborted; None if it finished.
    """

    key: str
    ending: Ending
    reason: str | None = None


class RunOver(Exception):
    """Ends a play early: raised by a part of a play, and caught by the play, which returns its ending.

    Attributes:
        reason: How the play ended, e.g. `turns`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class _RunningPlay:
    """A running play with the call that waits for a reply.

    Attributes:
        number: Index of its scenario among all scenarios.
    """

    number: int
    key: str
    play: Play
    call: Call


class ParallelPlays:
    """Runs plays in parallel: collects their waiting calls into batches, and passes the replies back."""

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        *,
        parallel: int,
        model_of: Callable[[Role], Hashable],
    ) -> None:
        """Starts the first plays.

        Args:
            parallel: Largest number of plays that run at once; when one ends, the next starts.
            model_of: Returns a key of the model for a role; roles with equal keys share a batch.
        """
        self._not_started = deque(enumerate(scenarios))
        self._running: list[_RunningPlay] = []
        self._ended: list[tuple[int, EndedPlay]] = []
        self._parallel, self._model_of = parallel, model_of
        self._answering_model: Hashable = None
        self._start_plays()

    def take_ended(self) -> list[EndedPlay]:
        """Returns the plays that have ended since the last call, in order of the scenarios."""
        ended_plays = [ended for _, ended in sorted(self._ended, key=lambda pair: pair[0])]
        self._ended = []
        return ended_plays

    def next_calls(self) -> list[Call]:
        """Returns the calls to answer next, all for one model; [] when all plays have ended."""
        return [running.call for running in self._plays_to_answer()]

    def answer(self, replies: Sequence[Completion | FailedCall]) -> None:
        """Passes the replies to `next_calls` on to the plays, in the same order."""
        for running, reply in zip(self._plays_to_answer(), replies, strict=True):
            if isinstance(reply, FailedCall):
                running.play.close()
                self._abort(running, reply.reason)
                continue
            self._advance(running, reply)
        self._start_plays()

    def _plays_to_answer(self) -> list[_RunningPlay]:
        """Returns the plays that wait for the model that replied last, else for the model with most waiting plays,
        because a change of models costs a load."""
        models = Counter(self._model_of(running.call.role) for running in self._running)
        if models and self._answering_model not in models:
            self._answering_model = models.most_common(1)[0][0]
        return [
            running
            for running in self._running
            if self._model_of(running.call.role) == self._answering_model
        ]

    def _start_plays(self) -> None:
        """Starts plays until `parallel` of them run or all have started."""
        while self._not_started and len(self._running) < self._parallel:
            number, scenario = self._not_started.popleft()
            # The first call of the play replaces this empty one.
            running = _RunningPlay(number, scenario.key, scenario.play(), Call("", "assistant", ()))
            self._running.append(running)
            self._advance(running, None)

    def _advance(self, running: _RunningPlay, reply: Completion | None) -> None:
        """Gives the play its reply (None starts it), and stores its next call or its end."""
        try:
            running.call = next(running.play) if reply is None else running.play.send(reply)
        except StopIteration as stop:
            self._end_play(running, EndedPlay(running.key, stop.value))
        except Exception as error:  # noqa: BLE001 - a fault in one play must not end the others
            _log.exception("the play %s failed", running.key)
            self._abort(running, f"a fault: {type(error).__name__}: {error}")

    def _abort(self, running: _RunningPlay, reason: str) -> None:
        """Ends the play without a result."""
        self._end_play(running, EndedPlay(running.key, Ending(), reason))

    def _end_play(self, running: _RunningPlay, ended: EndedPlay) -> None:
        """Moves a play from the running ones to the ended ones."""
        self._running.remove(running)
        self._ended.append((running.number, ended))
