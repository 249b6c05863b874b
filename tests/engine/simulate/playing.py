"""Plays with a function that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from engine.model.chat import Call, Completion, Scenario
from engine.simulate.play import EndedPlay, FailedCall, ParallelPlays


def play_all(
    scenarios: Sequence[Scenario],
    say: Callable[[Sequence[Call]], Sequence[Completion | FailedCall]],
    *,
    parallel: int,
) -> Iterator[EndedPlay]:
    """Plays scenarios side by side.

    Args:
        say: Answers calls, all of one role, in order.
        parallel: Most plays that run at once; when one is over, the next starts.

    Yields:
        Plays as they are over; of those that are over in one round, in order of `scenarios`.
    """
    playing = ParallelPlays(scenarios, parallel=parallel, model_of=lambda role: role)
    yield from playing.take_ended()
    while calls := playing.next_calls():
        playing.answer(say(calls))
        yield from playing.take_ended()
