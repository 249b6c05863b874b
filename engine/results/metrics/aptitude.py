"""Aptitude and unreliability: how good answers to one instruction are at best, and how far good and bad runs lie apart.

As in Laban et al. 2025 (LLMs get lost in multi-turn conversation): each instruction is simulated several times under a
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


class Scored(NamedTuple):
    """One simulated conversation; `score` in [0, 1]."""

    task: str
    condition: str
    model: str
    instruction: str
    score: float


@dataclass(frozen=True, slots=True)
class Aptitude:
    """Means over the instructions of a task, under one condition and for one model; all but the counts in 0 to 100.

    Attributes:
        runs: Number of conversations over all instructions.
        fewest: Least number of runs of an instruction; with one run, unreliability is always 0.
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
    for conversation in scored:
        groups[conversation.task, conversation.condition, conversation.model][
            conversation.instruction
        ].append(100 * conversation.score)
    return [_row(*key, list(groups[key].values())) for key in sorted(groups)]


def _row(task: str, condition: str, model: str, scores: list[list[float]]) -> Aptitude:
    low, high = np.array([np.percentile(of_instruction, (10, 90)) for of_instruction in scores]).T
    return Aptitude(
        task,
        condition,
        model,
        len(scores),
        sum(map(len, scores)),
        min(map(len, scores)),
        float(np.mean([np.mean(of_instruction) for of_instruction in scores])),
        float(high.mean()),
        float((high - low).mean()),
    )
