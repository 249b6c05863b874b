"""Aptitude and unreliability of simulated conversations with a score.

Aptitude says how good answers to one instruction are at best, unreliability how far good and bad runs lie apart. As in
Laban et al. 2025 (LLMs get lost in multi-turn conversation): each instruction is simulated several times under a
condition, with scores S of 0 to 100. Averaged performance P is their mean, aptitude A90 their 90th percentile,
unreliability U90-10 the 90th less the 10th percentile; percentiles are interpolated linearly. All three are computed
for each instruction and then averaged over instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

SCORE_SCALE = 100
"""Aptitude is given on a scale from 0 to this, as in the paper; scores of conversations are in [0, 1]."""

LOW_PERCENTILE, HIGH_PERCENTILE = 10, 90
"""Percentiles of the runs of one instruction that count as its bad and its good runs."""


class ScoredPlay(NamedTuple):
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


def aptitudes(plays: Iterable[ScoredPlay]) -> list[Aptitude]:
    """Returns a row for each task, condition and model, sorted in that order."""
    groups: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for play in plays:
        scores_by_instruction = groups[play.task, play.condition, play.model]
        scores_by_instruction[play.instruction].append(SCORE_SCALE * play.score)
    return [
        _row(task, condition, model, list(groups[task, condition, model].values()))
        for task, condition, model in sorted(groups)
    ]


def _row(task: str, condition: str, model: str, scores: list[list[float]]) -> Aptitude:
    """Returns the means over instructions; `scores` has for each instruction the scores of its runs, in 0 to 100."""
    percentiles = [
        np.percentile(run_scores, (LOW_PERCENTILE, HIGH_PERCENTILE)) for run_scores in scores
    ]
    low, high = np.array(percentiles).T  # each of shape (instructions,)
    return Aptitude(
        task=task,
        condition=condition,
        model=model,
        instructions=len(scores),
        runs=sum(map(len, scores)),
        fewest=min(map(len, scores)),
        performance=float(np.mean([np.mean(run_scores) for run_scores in scores])),
        aptitude=float(high.mean()),
        unreliability=float((high - low).mean()),
    )
