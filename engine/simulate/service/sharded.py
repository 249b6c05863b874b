"""Simulation of sharded conversations after Laban et al. (2025), proposals of shards for full instructions, and the
file in which a person edits, approves or rejects them."""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from engine.base import folders
from engine.base.errors import NotFound, NotYet, UsageError
from engine.base.files import create_private_folder
from engine.base.line_files import write_file
from engine.model.chat import Completion, Role
from engine.model.interface import Sampling
from engine.simulate.draft import Draft, State, as_draft, state_of
from engine.simulate.records import PlayRow
from engine.simulate.request import Kind, SimulationRequest
from engine.simulate.service.simulations import BY_SCHEMA, ProjectSimulations, Simulation
from engine.simulate.sharded.aptitude import Scored
from engine.simulate.sharded.instruction import (
    BUNDLED,
    Instruction,
    bundled_instructions,
    read_instructions,
    records,
)
from engine.simulate.sharded.play import ShardedScenario, replay
from engine.simulate.sharded.scenario import CATEGORIES, CONDITIONS, ONE_TURN, Setting
from engine.simulate.sharded.shard_drafting import ShardDraftScenario, read_full_text
from engine.simulate.sharded.tasks import task_for

KIND: Kind = "sharded"
"""The kind of simulations of sharded conversations."""

MAKING: Kind = "shards"
"""The kind of simulations that propose shards."""

_ASKS: Mapping[Role, Sampling] = {
    "assistant": Sampling(),
    "user": BY_SCHEMA,
    "judge": BY_SCHEMA,
}
"""The roles of both kinds; user and judge reply by a schema."""


def sharded_simulation(simulations: ProjectSimulations, request: SimulationRequest) -> Simulation:
    """Returns the simulation that plays every instruction under every condition `request.runs` times.

    Raises:
        UsageError: The instructions cannot be read, one cannot be simulated, none has shards to merge, or a model
            cannot do this.
    """
    instructions, dataset = load_instructions(request.instructions, unapproved=request.unapproved)
    texts = simulations.texts(KIND)
    played_instructions = instructions[: request.limit]
    databases = _databases(request)
    with_tasks = [
        (instruction, task_for(instruction, texts, databases), False)
        for instruction in played_instructions
    ]
    merged_with_tasks = [
        (instruction, task_for(instruction, texts, databases), True)
        for instruction in _merged(played_instructions, request.merge_shards)
    ]
    setting = _setting(simulations, request, dataset, texts)

    def scenarios(labels: Mapping[Role, str]) -> list[ShardedScenario]:
        """Returns the scenarios once the names of the models are known."""
        with_models = _with_models(setting, labels)
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

    return simulations.simulation(KIND, scenarios, _params(setting), _ASKS, request, texts)


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


def making_simulation(simulations: ProjectSimulations, request: SimulationRequest) -> Simulation:
    """Returns the simulation that proposes shards for full instructions.

    With `request.checks` it also plays FULL and CONCAT so often for each, to see whether the shards lose something.

    Raises:
        UsageError: The instructions cannot be read, or a model cannot do this.
    """
    sources = load_sources(request.instructions)
    of_plays = simulations.texts(KIND)
    texts = {**of_plays, **simulations.texts(MAKING)}
    setting = _setting(simulations, request, Path(request.instructions).name, texts)
    bind_task = partial(task_for, texts=of_plays, databases=_databases(request))

    def scenarios(labels: Mapping[Role, str]) -> list[ShardDraftScenario]:
        """Returns the scenarios once the names of the models are known."""
        with_models = _with_models(setting, labels)
        return [
            ShardDraftScenario(with_models, source, text, bind_task, request.checks)
            for source, text in sources[: request.limit]
        ]

    # The assistant takes part only where FULL and CONCAT are played.
    asks = {role: sampling for role, sampling in _ASKS.items() if role == "judge" or request.checks}
    return simulations.simulation(MAKING, scenarios, _params(setting), asks, request, texts)


def load_instructions(name: str, *, unapproved: bool = False) -> tuple[list[Instruction], str]:
    """Returns the instructions of a file or with a bundled name, and their file name for the logs.

    Args:
        unapproved: Include shards that wait for approval; rejected ones are never included.

    Raises:
        UsageError: The file cannot be read, or no instruction of it may be played.
    """
    if name in BUNDLED:
        return bundled_instructions(name), f"instructions_{name}.json"
    instructions = read_instructions(_read(Path(name)))
    states = ("approved", "proposed") if unapproved else ("approved",)
    allowed = [instruction for instruction in instructions if state_of(instruction) in states]
    if not allowed:
        raise NotYet(
            f"Nobody has approved a shard of {name} yet.",
            "Approve them, or play them as they are with --unapproved.",
        )
    return allowed, Path(name).name


def load_sources(name: str) -> list[tuple[dict[str, Any], str]]:
    """Returns the records of a file, each with its full instruction as text.

    Raises:
        UsageError: The file cannot be read, or a record has no full instruction.
    """
    sources = []
    for where, record in records(_read(Path(name))):
        if not isinstance(record, dict):
            raise UsageError(f"{where} of {name} is no object.")
        sources.append((record, read_full_text(record, where)))
    if not sources:
        raise NotFound(f"There is no instruction in {name}.")
    return sources


def drafts_of(rows: Iterable[PlayRow]) -> list[Draft]:
    """Returns the drafts of the plays that ended; plays that broke off have none."""
    return [as_draft(row.result) for row in rows if row.reason is None]


def read_drafts(path: Path) -> list[Draft]:
    """Returns the drafts of a file that `write_drafts` wrote, each with its state.

    Raises:
        UsageError: The file cannot be read, or a record is no draft.
    """
    drafts = []
    for where, record in records(_read(path)):
        if not isinstance(record, dict):
            raise UsageError(f"{where} of {path} is no object.")
        drafts.append(as_draft(record))
    return drafts


def write_drafts(path: Path, drafts: Iterable[Draft]) -> None:
    """Writes drafts as a file of instructions, completely or not at all.

    Raises:
        ProjectError: It cannot be written.
    """
    write_file((draft.record() for draft in drafts), path, "jsonl")


def write_logs(
    folder: Path, simulations: ProjectSimulations, simulation: Simulation, rows: Iterable[PlayRow]
) -> list[Path]:
    """Writes the plays that ended in the log format of Laban et al. (2025); returns the paths.

    There is one file for each task, condition and model. Each log is made from the transcript, not from the
    conversation in the project: runs with the same messages share one conversation there, but each has a log here.

    Raises:
        UsageError: A folder cannot be made.
        ProjectError: A file cannot be written.
    """
    scenarios = {scenario.key: scenario for scenario in simulation.play.scenarios}
    logs: dict[Path, list[dict[str, Any]]] = {}
    for row in rows:
        if row.reason is None:
            replies = [
                Completion(line.text, line.stopped, line.note)  # type: ignore[arg-type]  # the table checks it
                for line in simulations.transcript(row.id)
            ]
            record = replay(scenarios[row.key], replies).record
            assert record is not None  # every play of this kind has one
            logs.setdefault(folder / _log_name(record), []).append(dict(record))
    for path, of_file in logs.items():
        try:
            create_private_folder(path.parent)
        except OSError as error:
            raise UsageError(f"{path.parent} cannot be made: {error.strerror}.") from None
        write_file(of_file, path, "jsonl")
    return list(logs)


def _log_name(record: Mapping[str, Any]) -> Path:
    """Returns the path of the file that a log belongs to, as in the published logs."""
    task, kind = record["task"], record["conv_type"]
    model = re.sub(r"[^\w.()-]+", "_", record["assistant_model"])
    return Path(task, kind, f"{kind}_{task}_{model}.jsonl")


def scored(rows: Iterable[PlayRow]) -> list[Scored]:
    """Returns the scores, 0 to 1, of the plays that ended. A conversation without an answer attempt scores 0."""
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


def _setting(
    simulations: ProjectSimulations,
    request: SimulationRequest,
    dataset: str,
    texts: Mapping[str, str],
) -> Setting:
    """Returns what all plays share, without the models; `dataset` is the file name of the instructions."""
    return Setting(
        texts=texts,
        assistant="",
        user="",
        system="",
        dataset=dataset,
        version=folders.version(),
        moment=datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
        # The logs name no cost where a reply may cost something: it is not known.
        cost=None if simulations.may_cost(request) else 0.0,
        assistant_temperature=1.0 if request.temperature is None else request.temperature,
        user_temperature=request.user_temperature,
        max_tokens=request.max_tokens,
        seed=request.seed,
    )


def _with_models(setting: Setting, labels: Mapping[Role, str]) -> Setting:
    """Returns the setting with the names of the models; those without a role have the name of the judge."""
    judge = labels["judge"]
    assistant, user = labels.get("assistant", judge), labels.get("user", judge)
    return replace(setting, assistant=assistant, user=user, system=judge)


def _databases(request: SimulationRequest) -> Path | None:
    """Returns the folder of databases that a request names."""
    return Path(os.path.expanduser(request.databases)) if request.databases else None


def _params(setting: Setting) -> dict[str, Any]:
    """Returns what determines a play of a given key, apart from prompts and models."""
    return {
        "seed": setting.seed,
        "temperature": setting.assistant_temperature,
        "user_temperature": setting.user_temperature,
        "max_tokens": setting.max_tokens,
    }


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


class DraftsFile:
    """The drafts of one file. Every change is written to the file before it is returned.

    Changes raise UsageError where they cannot be made, and ProjectError where the file cannot be written.
    """

    def __init__(self, path: str, drafts: list[Draft]) -> None:
        self._path, self._drafts = path, drafts
        self._guard = threading.Lock()

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._path

    def items(self) -> list[Draft]:
        """Returns all drafts in order."""
        with self._guard:
            return list(self._drafts)

    def decide(self, index: int, state: State) -> Draft:
        """Sets the state of the draft at an index; returns the changed draft."""
        return self._change(index, lambda draft: draft.decided(state))

    def edit(self, index: int, shard_id: int, text: str) -> Draft:
        """Replaces the text of a shard; returns the changed draft."""
        return self._change(index, lambda draft: draft.edited(shard_id, text))

    def move(self, index: int, shard_id: int, by: int) -> Draft:
        """Moves a shard by some places, towards the start if `by` is negative; returns the changed draft."""
        return self._change(index, lambda draft: draft.moved(shard_id, by))

    def leave_out(self, index: int, shard_id: int) -> Draft:
        """Removes a shard; returns the changed draft.

        Raises:
            UsageError: It is the only shard of the instruction.
        """
        if len(self._drafts[index].candidates) == 1:
            raise UsageError("The last shard cannot be left out.", "Reject the instruction.")
        return self._change(index, lambda draft: draft.without(shard_id))

    def _change(self, index: int, act: Callable[[Draft], Draft]) -> Draft:
        """Changes a draft, and writes the file."""
        with self._guard:
            changed = list(self._drafts)
            changed[index] = act(changed[index])
            # The file is written first: if that fails, the drafts in memory stay as they are in the file.
            write_drafts(Path(self._path), changed)
            self._drafts = changed
            return changed[index]


def opened_drafts(path: str, proposed: Callable[[], Iterable[PlayRow]]) -> DraftsFile:
    """Returns the drafts of a file; if there is no file, the proposed drafts are written to a new one.

    Args:
        proposed: Reads the plays that proposed shards.

    Raises:
        UsageError: The file holds no drafts, or there is neither a file nor a proposal.
        ProjectError: The file cannot be written.
    """
    place = Path(os.path.expanduser(path.strip()))
    if place.exists():
        return DraftsFile(str(place), read_drafts(place))
    # A later proposal for the same instruction, by another model or with a check, replaces the earlier one.
    drafts = list({draft.task_id: draft for draft in drafts_of(proposed())}.values())
    if not drafts:
        raise NotFound(
            f"There is no file {place}, and this project has proposed no shards.",
            "Name a file of proposed shards, or have some proposed: simulate `shards`.",
        )
    write_drafts(place, drafts)
    return DraftsFile(str(place), drafts)
