"""Simulation of sharded conversations, and the making of shards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from engine import folders
from engine.errors import UsageError
from engine.model.chat import Completion, Role
from engine.model.interface import Sampling
from engine.records.simulation import PlayRow
from engine.services.line_files import write_file
from engine.services.simulation.options import SimulationOptions
from engine.services.simulation.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.sharded.instruction import (
    BUNDLED,
    Instruction,
    bundled_instructions,
    read_instructions,
    records,
)
from engine.simulate.sharded.log import CATEGORIES
from engine.simulate.sharded.making.draft import Draft, as_draft, state_of
from engine.simulate.sharded.making.play import MakingScenario, full_text
from engine.simulate.sharded.play import ShardedScenario, replayed
from engine.simulate.sharded.scenario import CONDITIONS, Case, Condition, Setting
from engine.simulate.sharded.tasks import task_for
from engine.validate.aptitude import Scored

KIND = "sharded"
MAKING = "shards"
_ASKS: Mapping[Role, Sampling] = {
    "assistant": Sampling(),
    "user": BY_SCHEMA,
    "judge": BY_SCHEMA,
}


@dataclass(frozen=True, slots=True)
class ShardedChoice:
    """Options of this kind.

    Attributes:
        dataset: File name of the instructions, for the logs.
        user_temperature: Of the simulated user; that of the assistant is among the options of all simulations.
        max_tokens: Longest reply of the assistant.
        databases: Folder with `DB_ID/*.sqlite`, or None.
        priced: A reply may cost something, so the logs say nothing of cost.
    """

    instructions: Sequence[Instruction]
    dataset: str
    conditions: Sequence[Condition] = CONDITIONS
    user_temperature: float = 1.0
    max_tokens: int = 1000
    databases: Path | None = None
    priced: bool = False


def sharded_simulation(
    simulations: ProjectSimulations, choice: ShardedChoice, options: SimulationOptions
) -> Simulation:
    """The simulation that plays every instruction under every condition `options.runs` times.

    Raises:
        UsageError: An instruction cannot be simulated, or a model cannot do this.
    """
    texts = simulations.texts(KIND)
    tasks = [
        (one, task_for(one, texts, choice.databases))
        for one in choice.instructions[: options.limit]
    ]
    setting = _setting(choice, options, texts)

    def scenarios(labels: Mapping[Role, str]) -> list[ShardedScenario]:
        named = _named(setting, labels)
        return [
            ShardedScenario(Case(named, instruction, task, condition, run))
            for condition in choice.conditions
            for instruction, task in tasks
            for run in range(options.runs)
        ]

    return simulations.simulation(KIND, scenarios, _params(setting), _ASKS, options, texts)


def making_simulation(
    simulations: ProjectSimulations,
    sources: Sequence[tuple[Mapping[str, Any], str]],
    choice: ShardedChoice,
    options: SimulationOptions,
    checks: int,
) -> Simulation:
    """What proposes shards for instructions.

    Args:
        sources: Record and full text of each.
        choice: Its instructions and conditions say nothing here.
        checks: Plays of FULL and of CONCAT for each, to see that the shards lose nothing; 0 for none.

    Raises:
        UsageError: A model cannot do this.
    """
    of_plays = simulations.texts(KIND)
    texts = {**of_plays, **simulations.texts(MAKING)}
    setting = _setting(choice, options, texts)
    bound = partial(task_for, texts=of_plays, databases=choice.databases)

    def scenarios(labels: Mapping[Role, str]) -> list[MakingScenario]:
        named = _named(setting, labels)
        return [
            MakingScenario(named, source, text, bound, checks)
            for source, text in sources[: options.limit]
        ]

    # The assistant is part of it only where FULL and CONCAT are played.
    asks = {role: one for role, one in _ASKS.items() if role == "judge" or checks}
    return simulations.simulation(MAKING, scenarios, _params(setting), asks, options, texts)


def load_instructions(words: str, *, unapproved: bool = False) -> tuple[list[Instruction], str]:
    """The instructions of a file, or bundled ones by their name; and their file name for the logs.

    Args:
        unapproved: Take shards that nobody approved, too; never those that were rejected.

    Raises:
        UsageError: There is no such file, or it holds no instructions that may be played.
    """
    if words in BUNDLED:
        return bundled_instructions(words), f"instructions_{words}.json"
    found = read_instructions(_read(Path(words)))
    states = ("approved", "proposed") if unapproved else ("approved",)
    allowed = [one for one in found if state_of(one) in states]
    if not allowed:
        raise UsageError(
            f"Nobody has approved a shard of {words} yet.",
            "Approve them, or play them as they are with --unapproved.",
        )
    return allowed, Path(words).name


def load_sources(words: str) -> list[tuple[dict[str, Any], str]]:
    """The full instructions of a file, each with its record.

    Raises:
        UsageError: There is no such file, or something in it is no full instruction.
    """
    found = []
    for where, record in records(_read(Path(words))):
        if not isinstance(record, dict):
            raise UsageError(f"{where} of {words} is no object.")
        found.append((record, full_text(record, where)))
    if not found:
        raise UsageError(f"There is no instruction in {words}.")
    return found


def drafts_of(rows: Iterable[PlayRow]) -> list[Draft]:
    """The proposed shards of the plays that ended."""
    return [as_draft(row.result) for row in rows if row.reason is None]


def read_drafts(path: Path) -> list[Draft]:
    """The drafts of a file that `write_drafts` wrote, with what was decided on each.

    Raises:
        UsageError: There is no such file, or something in it is no draft.
    """
    found = []
    for where, record in records(_read(path)):
        if not isinstance(record, dict):
            raise UsageError(f"{where} of {path} is no object.")
        found.append(as_draft(record))
    return found


def write_drafts(path: Path, drafts: Iterable[Draft]) -> None:
    """Writes drafts as a file of instructions, whole or not at all.

    Raises:
        ProjectError: It cannot be written.
    """
    write_file((draft.record() for draft in drafts), path, "jsonl")


def write_logs(
    folder: Path, simulations: ProjectSimulations, simulation: Simulation, rows: Iterable[PlayRow]
) -> list[Path]:
    """Writes the plays that ended as the source does: one file for each task, condition and model.

    Each log comes of its transcript, not of the conversation in the project: runs that went alike are one
    conversation there, and as many logs here.

    Raises:
        UsageError: A folder cannot be made.
        ProjectError: A file cannot be written.
    """
    scenarios = {one.key: one for one in simulation.play.scenarios}
    logs: dict[Path, list[dict[str, Any]]] = {}
    for row in rows:
        if row.reason is None:
            replies = [
                Completion(line.text, line.stopped, line.note)  # type: ignore[arg-type]  # the table checks it
                for line in simulations.transcript(row.id)
            ]
            record = replayed(scenarios[row.key], replies).record
            assert record is not None  # every play of this kind has one
            logs.setdefault(folder / _log_name(record), []).append(dict(record))
    for path, some in logs.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent} cannot be made: {error.strerror}.") from None
        write_file(some, path, "jsonl")
    return list(logs)


def _log_name(record: Mapping[str, Any]) -> Path:
    task, kind = record["task"], record["conv_type"]
    model = re.sub(r"[^\w.()-]+", "_", record["assistant_model"])
    return Path(task, kind, f"{kind}_{task}_{model}.jsonl")


def scored(rows: Iterable[PlayRow]) -> list[Scored]:
    """Scores of the plays that ended. A conversation in which no answer was attempted scores 0."""
    return [
        Scored(
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
    """What the replies were taken for, by condition; nothing of conditions in which they are not classified."""
    found: list[dict[str, Any]] = []
    for condition in conditions:
        results = [row.result for row in rows if row.result["condition"] == condition]
        counts = Counter(name for result in results for name in result["categories"])
        if counts:
            found.append(
                {
                    "condition": condition,
                    "turns": sum(result["turns"] for result in results),
                    "stand_ins": sum(result["stand_ins"] for result in results),
                    **{name: counts[name] for name in CATEGORIES},
                }
            )
    return found


def _setting(
    choice: ShardedChoice, options: SimulationOptions, texts: Mapping[str, str]
) -> Setting:
    warmth = options.temperature
    return Setting(
        texts,
        "",
        "",
        "",
        choice.dataset,
        folders.version(),
        datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
        None if choice.priced else 0.0,
        1.0 if warmth is None else warmth,
        choice.user_temperature,
        choice.max_tokens,
        options.seed,
    )


def _named(setting: Setting, labels: Mapping[Role, str]) -> Setting:
    judge = labels["judge"]
    assistant, user = labels.get("assistant", judge), labels.get("user", judge)
    return replace(setting, assistant=assistant, user=user, system=judge)


def _params(setting: Setting) -> dict[str, Any]:
    return {
        "seed": setting.seed,
        "temperature": setting.assistant_temperature,
        "user_temperature": setting.user_temperature,
        "max_tokens": setting.max_tokens,
    }


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"The instructions {path} cannot be read: {reason}.",
            f"Instructions that come along: {', '.join(BUNDLED)}.",
        ) from None
