"""Simulation of sharded conversations after Laban et al. (2025)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import UsageError
from engine.model.chat import Role
from engine.model.interface import Sampling
from engine.simulate.play import BY_SCHEMA, PlannedPlays
from engine.simulate.records import PlayRow
from engine.simulate.sharded.aptitude import ScoredPlay
from engine.simulate.sharded.instruction import (
    BUNDLED,
    Instruction,
    bundled_instructions,
    read_instructions,
)
from engine.simulate.sharded.play import ShardedScenario
from engine.simulate.sharded.scenario import CATEGORIES, CONDITIONS, ONE_TURN, Setting
from engine.simulate.sharded.tasks import task_for
from engine.simulate.simulation_request import SimulationRequest

_ASKS: Mapping[Role, Sampling] = {
    "assistant": Sampling(),
    "user": BY_SCHEMA,
    "judge": BY_SCHEMA,
}
"""The roles that models play; user and judge reply by a schema."""


def plan_sharded(request: SimulationRequest, texts: Mapping[str, str]) -> PlannedPlays:
    """Returns the plays of every instruction under every condition, each `request.runs` times.

    Raises:
        UsageError: The instructions cannot be read, one cannot be simulated, or none has shards to merge.
    """
    instructions, dataset = load_instructions(request.instructions)
    played_instructions = instructions[: request.limit]
    databases = Path(os.path.expanduser(request.databases)) if request.databases else None
    with_tasks = [
        (instruction, task_for(instruction, texts, databases), False)
        for instruction in played_instructions
    ]
    merged_with_tasks = [
        (instruction, task_for(instruction, texts, databases), True)
        for instruction in _merged(played_instructions, request.merge_shards)
    ]
    setting = Setting(
        texts=texts,
        assistant="",
        user="",
        system="",
        dataset=dataset,
        version=folders.version(),
        moment=datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
        assistant_temperature=1.0 if request.temperature is None else request.temperature,
        user_temperature=request.user_temperature,
        max_tokens=request.max_tokens,
        seed=request.seed,
    )

    def scenarios(labels: Mapping[Role, str]) -> list[ShardedScenario]:
        """Returns the scenarios once the names of the models are known."""
        with_models = replace(
            setting, assistant=labels["assistant"], user=labels["user"], system=labels["judge"]
        )
        return [
            ShardedScenario(
                setting=with_models,
                instruction=instruction,
                task=task,
                condition=condition,
                run=run,
                merged=merged,
            )
            for condition in request.conditions or CONDITIONS
            for instruction, task, merged in (
                *with_tasks,
                *(() if condition in ONE_TURN else merged_with_tasks),
            )
            for run in range(request.runs)
        ]

    params = {
        "seed": setting.seed,
        "temperature": setting.assistant_temperature,
        "user_temperature": setting.user_temperature,
        "max_tokens": setting.max_tokens,
    }
    return PlannedPlays(scenarios, params, _ASKS)


def _merged(instructions: Sequence[Instruction], counts: Sequence[int]) -> list[Instruction]:
    """Returns each instruction merged into each number of shards that is below its own.

    Raises:
        UsageError: No instruction has more shards than one of the counts.
    """
    for count in counts:
        if all(len(instruction.shards) <= count for instruction in instructions):
            raise UsageError(
                f"No instruction has more than {count} shards to merge.",
                f"The longest has {max(len(instruction.shards) for instruction in instructions)}.",
            )
    return [
        instruction.merged(count)
        for count in counts
        for instruction in instructions
        if len(instruction.shards) > count
    ]


def load_instructions(name: str) -> tuple[list[Instruction], str]:
    """Returns the instructions of a file or with a bundled name, and their file name for the logs.

    Raises:
        UsageError: The file cannot be read.
    """
    if name in BUNDLED:
        return bundled_instructions(name), f"instructions_{name}.json"
    return read_instructions(_read(Path(name))), Path(name).name


def scored(rows: Iterable[PlayRow]) -> list[ScoredPlay]:
    """Returns the scores, 0 to 1, of the plays that ended. A conversation without an answer attempt scores 0."""
    return [
        ScoredPlay(
            row.result["task"],
            row.result["conv_type"],
            row.result["model"],
            row.result["task_id"],
            row.result["score"] or 0.0,
        )
        for row in rows
        if row.reason is None
    ]


def replies_by_condition(
    rows: Sequence[PlayRow], conditions: Sequence[str]
) -> list[dict[str, Any]]:
    """Counts of the kinds of replies, a row a condition; conditions whose replies are not classified have no row."""
    counts_by_condition: list[dict[str, Any]] = []
    for condition in conditions:
        results = [row.result for row in rows if row.result["condition"] == condition]
        counts = Counter(name for result in results for name in result["categories"])
        if counts:
            counts_by_condition.append(
                {
                    "condition": condition,
                    "turns": sum(result["turns"] for result in results),
                    "stand_ins": sum(result["stand_ins"] for result in results),
                    **{name: counts[name] for name in CATEGORIES},
                }
            )
    return counts_by_condition


def _read(path: Path) -> str:
    """Returns the text of a file of instructions.

    Raises:
        UsageError: It cannot be read."""
    try:
        return Path(os.path.expanduser(path)).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"The instructions {path} cannot be read: {reason}.",
            f"Instructions that come along: {', '.join(BUNDLED)}.",
        ) from None
