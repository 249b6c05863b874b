"""Figures of known outcomes: aptitude and unreliability of simulations, and means of truth by number of turns.

Aptitude says how good answers to one instruction are at best, unreliability how far good and bad runs lie apart. As in
Laban et al. 2025 (LLMs get lost in multi-turn conversation): each instruction is simulated several times under a
condition, with scores S of 0 to 100. Averaged performance P is their mean, aptitude A90 their 90th percentile,
unreliability U90-10 the 90th less the 10th percentile; percentiles are interpolated linearly. All three are computed
for each instruction and then averaged over instructions.

The means by number of turns are the statistics table of the RecLLMSim data set, for any truth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SCORE_SCALE = 100
"""Aptitude is given on a scale from 0 to this, as in the paper; scores of conversations are in [0, 1]."""

LOW_PERCENTILE, HIGH_PERCENTILE = 10, 90
"""Percentiles of the runs of one instruction that count as its bad and its good runs."""


class Scored(NamedTuple):
    """One simulated conversation: what was simulated, under which condition and by which model; `score` in [0, 1]."""

    task: str
    condition: str
    model: str
    instruction: str
    score: float


@dataclass(frozen=True, slots=True)
class Aptitude:
    """Means over the instructions of a task, under one condition and for one model; all but the counts in 0 to 100.

    Attributes:
        instructions: Number of instructions.
        runs: Number of conversations over all instructions.
        fewest: Least number of runs of an instruction; with one run, unreliability is always 0.
        performance, aptitude, unreliability: P, A90 and U90-10 of the module docstring.
    """

    task: str
    condition: str
    model: str
    instructions: int
    runs: int
    fewest: int
    performance: float
    aptitude: float
    unreliability: float


def aptitudes(scored: Iterable[Scored]) -> list[Aptitude]:
    """Returns a row for each task, condition and model, sorted in that order."""
    groups: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in scored:
        scores_by_instruction = groups[run.task, run.condition, run.model]
        scores_by_instruction[run.instruction].append(SCORE_SCALE * run.score)
    return [
        _row(task, condition, model, list(groups[task, condition, model].values()))
        for task, condition, model in sorted(groups)
    ]


def _row(task: str, condition: str, model: str, scores: list[list[float]]) -> Aptitude:
    """Returns the means over instructions; `scores` has for each instruction the scores of its runs, in 0 to 100."""
    percentiles = [
        np.percentile(of_instruction, (LOW_PERCENTILE, HIGH_PERCENTILE))
        for of_instruction in scores
    ]
    low, high = np.array(percentiles).T  # each of shape (instructions,)
    return Aptitude(
        task=task,
        condition=condition,
        model=model,
        instructions=len(scores),
        runs=sum(map(len, scores)),
        fewest=min(map(len, scores)),
        performance=float(np.mean([np.mean(of_instruction) for of_instruction in scores])),
        aptitude=float(high.mean()),
        unreliability=float((high - low).mean()),
    )


# Means of truth by number of turns

SINGLE = ("reward", "complete")
"""Fields of truth with one value for each conversation, in addition to the ratings; `complete` counts as 1 or 0."""

OF_ANSWERS = "satisfaction"
"""Field of truth with a value for each answer; a conversation's value is the mean over the answers that have one."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over the `count` conversations of a row that have the value."""

    value: float
    count: int


@dataclass(frozen=True, slots=True)
class TurnRow:
    """The conversations with one number of turns, and the mean of each figure that any of them has."""

    turns: int
    conversations: int
    means: Mapping[str, Mean]


def by_turns(conversations: Iterable[tuple[int, Mapping[str, Any] | None]]) -> list[TurnRow]:
    """Returns a row for each number of turns that occurs, ascending.

    Args:
        conversations: Number of turns and truth of each conversation. A turn is a user message, as in RecLLMSim.
    """
    counts: dict[int, int] = defaultdict(int)
    values_by_turns: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turns, truth in conversations:
        counts[turns] += 1
        for name, value in figures(truth or {}).items():
            values_by_turns[turns][name].append(value)
    return [
        TurnRow(
            turns,
            counts[turns],
            {
                name: Mean(sum(values) / len(values), len(values))
                for name, values in values_by_turns[turns].items()
            },
        )
        for turns in sorted(counts)
    ]


def figures(truth: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers in a truth: ratings by name, and the fields `SINGLE` and `OF_ANSWERS`."""
    rating = truth.get("rating")
    named = dict(rating) if isinstance(rating, Mapping) else {}
    named |= {name: truth[name] for name in SINGLE if name in truth}
    ratings = truth.get(OF_ANSWERS)
    if isinstance(ratings, list) and (
        answer_ratings := [rating for rating in ratings if _is_number(rating)]
    ):
        named[OF_ANSWERS] = sum(answer_ratings) / len(answer_ratings)
    return {str(name): float(value) for name, value in named.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    """Whether a value of truth can be averaged; true and false count as 1 and 0."""
    return isinstance(value, int | float)
