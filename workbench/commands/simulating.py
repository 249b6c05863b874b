"""`workbench simulate`: conversations with a known outcome, played by models, and the tables of their sources."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NameTaken, NotYet
from engine.base.number_format import duration
from engine.base.text import one_line
from engine.opener.open_project import OpenProject
from engine.simulate.draft import Draft
from engine.simulate.forms.table import by_model, table_of
from engine.simulate.records import PlayEstimate, PlayRow
from engine.simulate.recsim.play import by_task
from engine.simulate.request import COMMON, FIELDS, OPTIONS, Kind, SimulationRequest
from engine.simulate.service import forms as forms_service
from engine.simulate.service import recsim as recsim_service
from engine.simulate.service import sharded as sharded_service
from engine.simulate.service.result_tables import (
    aptitude_json,
    aptitude_table,
    form_model_table,
    tables_of,
)
from engine.simulate.service.simulations import ProjectSimulations, Simulation
from engine.simulate.sharded.aptitude import Scored, aptitudes
from engine.simulate.sharded.scenario import CONDITIONS, Condition, place_of
from workbench.arguments import PROJECT, Argument, argument, read_request, request_arguments, takes
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import narrate, run_stages
from workbench.text_tables import table_lines

MAX_LINE_CHARACTERS = 80
"""Most characters of the line that names an instruction and counts its shards."""

MAX_ROWS = 40
"""Most rows of a table that is printed for people."""

MAX_SHARD_CHARS = 160
"""Most characters of a shard, or of what the shards lack, on one line."""

LONG_RESULT_PARTS = frozenset(
    {"filled", "dialogue", "interactions", "information", "manager", "chunks"}
)
"""Parts of the result of a run of forms that the JSON leaves out: they are long, and the project has them."""


def _kind_arguments(kind: Kind) -> list[Argument]:
    """Returns the options of a kind of simulation; its instructions are a word, because they have to be named."""
    return request_arguments(SimulationRequest, (*COMMON, *FIELDS[kind]), without=("instructions",))


@takes(
    PROJECT,
    argument("instructions", help=OPTIONS["instructions"].help),
    *_kind_arguments(sharded_service.KIND),
    argument(
        "--logs",
        type=Path,
        metavar="DIR",
        help="write the logs there, in the format of Laban et al. (2025)",
    ),
)
def sharded(arguments: argparse.Namespace) -> CommandResult:
    """Plays instructions under conditions; gives performance, aptitude and unreliability.

    Raises:
        WorkbenchError: The instructions cannot be read, a model cannot do this, or logs cannot be written.
    """
    request = read_request(SimulationRequest, arguments, kind=sharded_service.KIND)
    # Before a project is made for a file that cannot be read.
    sharded_service.load_instructions(request.instructions, unapproved=request.unapproved)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulations = workspace.simulation_runs
        simulation = sharded_service.sharded_simulation(simulations, request)
        rows = played(workspace, simulation)
        if arguments.logs:
            logs = sharded_service.write_logs(arguments.logs, simulations, simulation, rows)
            narrate(f"Wrote {len(logs):,} files of logs to {arguments.logs}.")
    return report_of_plays(rows, request.conditions or CONDITIONS)


@takes(
    PROJECT,
    argument("instructions", metavar="IN", help="JSON or JSONL file of full instructions"),
    argument("output", metavar="OUT", help="JSONL file of instructions with shards"),
    *_kind_arguments(sharded_service.MAKING),
)
def make_shards(arguments: argparse.Namespace) -> CommandResult:
    """Proposes shards for full instructions and writes them as a file of instructions that wait for approval.

    Raises:
        WorkbenchError: The instructions cannot be read, the file exists or cannot be written, or a model cannot do
            this.
    """
    request = read_request(SimulationRequest, arguments, kind=sharded_service.MAKING)
    # Before a project is made for a file that cannot be read.
    sharded_service.load_sources(request.instructions)
    output = Path(arguments.output)
    if output.exists():
        raise NameTaken(f"{output} is there already.", "Choose another name.")
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = sharded_service.making_simulation(workspace.simulation_runs, request)
        rows = played(workspace, simulation)
    drafts = sharded_service.drafts_of(rows)
    sharded_service.write_drafts(output, drafts)
    narrate(f"Wrote shards of {len(drafts):,} instructions to {output}; they wait for approval.")
    return report_of_drafts(drafts, exit_code(rows))


@takes(
    PROJECT,
    *_kind_arguments(forms_service.KIND),
    argument(
        "--files",
        metavar="DIR",
        help="also write each run there, in the files of Hakimov et al. (2024)",
    ),
)
def forms(arguments: argparse.Namespace) -> CommandResult:
    """Has forms filled in conversation, in a project that is created if needed; gives the table of Hakimov et al.
    (2024).

    Raises:
        WorkbenchError: A model cannot be had, a file is no form, or files cannot be written.
    """
    request = read_request(SimulationRequest, arguments, kind=forms_service.KIND)
    # Before a project is made for files that cannot be read.
    forms_service.forms_of(request), forms_service.profiles_of(request)
    forms_service.rules_of(request)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulations = workspace.simulation_runs
        simulation = forms_service.forms_simulation(simulations, request)
        rows = played(workspace, simulation)
        ended = [row for row in rows if row.reason is None]
        if arguments.files:
            _write_forms(simulations, simulation, request, ended, Path(arguments.files))
    table = table_of(row.result for row in ended)
    runs = [
        {
            "key": row.key,
            "conversation": row.conversation_id,
            **{name: value for name, value in row.result.items() if name not in LONG_RESULT_PARTS},
        }
        for row in ended
    ]
    return CommandResult(
        _lines(forms_service.KIND, rows),
        {
            "config": simulation.play.config_hash,
            "rows": [asdict(row) for row in table],
            "runs": runs,
        },
        exit_code(rows),
    )


def _write_forms(
    simulations: ProjectSimulations,
    simulation: Simulation,
    request: SimulationRequest,
    rows: Sequence[PlayRow],
    folder: Path,
) -> None:
    """Writes each run of a form into a folder."""
    settings = {
        setting.config_hash: setting.models for setting in simulations.settings(forms_service.KIND)
    }
    models = settings.get(simulation.play.config_hash, {})
    rules = forms_service.rules_of(request)
    for row in rows:
        forms_service.write_run(folder, row, simulations.transcript(row.id), models, rules)
    narrate(f"Wrote {len(rows):,} runs into {folder}.")


@takes(PROJECT, *_kind_arguments(recsim_service.KIND))
def recsim(arguments: argparse.Namespace) -> CommandResult:
    """Plays people with profiles who plan with an assistant; gives the results by task.

    Raises:
        WorkbenchError: A model cannot be had.
    """
    request = read_request(SimulationRequest, arguments, kind=recsim_service.KIND)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = recsim_service.recsim_simulation(workspace.simulation_runs, request)
        rows = played(workspace, simulation)
    ended = [row for row in rows if row.reason is None]
    return CommandResult(
        _lines(recsim_service.KIND, rows),
        {
            "config": simulation.play.config_hash,
            "tasks": [asdict(row) for row in by_task(row.result for row in ended)],
            "runs": [
                {"key": row.key, "conversation": row.conversation_id, **row.result} for row in ended
            ],
        },
        exit_code(rows),
    )


def report_of_plays(rows: list[PlayRow], conditions: Sequence[Condition]) -> CommandResult:
    """Returns the table of Laban et al. (2025) and the counts of the kinds of replies, by condition."""
    finished = [row for row in rows if row.reason is None]
    table = sorted(
        aptitudes(sharded_service.scored(finished)),
        key=lambda row: (row.task, place_of(row.condition, conditions)),
    )
    return CommandResult(
        _lines(sharded_service.KIND, rows),
        {
            "aptitude": aptitude_json(table),
            "instructions": _by_instruction(finished),
            "replies": sharded_service.replies_by_condition(finished, conditions),
        },
        exit_code(rows),
    )


def report_of_drafts(drafts: Sequence[Draft], code: int) -> CommandResult:
    """Returns the proposed shards of each instruction, and what the checks found missing."""
    lines: list[str] = []
    for draft in drafts:
        lines.append(
            one_line(f"{draft.task_id}: {len(draft.candidates)} shards", MAX_LINE_CHARACTERS)
        )
        lines += [
            f"  {number}. {one_line(shard.text, MAX_SHARD_CHARS)}"
            f"{'' if shard.by == 'model' else '  (as in the text)'}"
            for number, shard in enumerate(draft.candidates, 1)
        ]
        if draft.lost:
            lines.append(f"  no shard says: {one_line(', '.join(draft.lost), MAX_SHARD_CHARS)}")
        if draft.missing:
            lines.append(f"  the model misses: {one_line(draft.missing, MAX_SHARD_CHARS)}")
        if draft.check:
            verdict = "" if draft.holds else ", which is too little"
            lines.append(
                f"  FULL {100 * draft.check['full']:.0f}, CONCAT {100 * draft.check['concat']:.0f}{verdict}"
            )
    return CommandResult(lines, {"drafts": [draft.record() for draft in drafts]}, code)


def _by_instruction(rows: Sequence[PlayRow]) -> list[dict[str, Any]]:
    """Returns the same figures for each instruction alone."""
    scores: dict[str, list[Scored]] = {}
    for score in sharded_service.scored(rows):
        scores.setdefault(score.instruction, []).append(score)
    return [
        {"task_id": task_id, **asdict(row)}
        for task_id, several in scores.items()
        for row in aptitudes(several)
    ]


def _lines(kind: Kind, rows: Sequence[PlayRow]) -> list[str]:
    """Returns the tables of plays as text; of one with many rows only what there is, because `--json` has them."""
    lines: list[str] = []
    for table in tables_of(kind, rows):
        count = len(table.rows)
        shown = table_lines(table) if count <= MAX_ROWS else [f"{count:,} rows; --json has them."]
        lines += [table.title, *shown, *table.notes, ""]
    return lines[:-1]


@takes(argument("projects", nargs="+", metavar="project", help="project files"))
def results(arguments: argparse.Namespace) -> CommandResult:
    """Gives the tables of what was simulated here or elsewhere and imported: performance, aptitude and unreliability by
    task, condition and model, and models by forms.

    Raises:
        NotYet: No project has a simulation with a score, nor a filled form.
    """
    scores: list[Scored] = []
    runs: list[tuple[str, Mapping[str, Any]]] = []
    for project in arguments.projects:
        with OpenProject(Path(project), read_only=True) as workspace:
            scores += workspace.simulation_runs.scores()
            runs += workspace.simulation_runs.form_runs()
    if not scores and not runs:
        raise NotYet(
            "There is no simulation with a score, and nobody filled a form.",
            "Use `workbench simulate`, import what its --files wrote, or logs with `conv_type`, `task_id` and `score`.",
        )
    rows = aptitudes(scores)
    tables = [aptitude_table(rows)] if rows else []
    tables += [form_model_table(runs)] if runs else []
    return CommandResult(
        [line for table in tables for line in (*table_lines(table), *table.notes)],
        {"aptitude": aptitude_json(rows), "forms": [asdict(row) for row in by_model(runs)]},
    )


# Plays, with narration


def played(workspace: OpenProject, simulation: Simulation) -> list[PlayRow]:
    """Plays the scenarios that were not played yet, with narration; returns all their plays, in the order of the
    scenarios. Plays that broke off are named on standard error.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    # A model that is tuned first may change its name.
    if not simulation.before:
        narrate(estimate_text(simulation.play.estimate()))
    run_stages(workspace, simulation.stages)
    rows = {row.key: row for row in workspace.simulation_runs.rows(simulation.play.config_hash)}
    plays = [rows[scenario.key] for scenario in simulation.play.scenarios if scenario.key in rows]
    for row in plays:
        if row.reason is not None:
            narrate(f"{row.key} broke off: {row.reason}")
    return plays


def estimate_text(estimate: PlayEstimate) -> str:
    """Returns an estimate in words."""
    if not estimate.plays:
        return "Nothing is left to play."
    text = f"{estimate.plays:,} to play with {', '.join(estimate.models)}"
    if estimate.replies is None or estimate.seconds is None:
        return f"{text}; how long that takes is known once the first is over."
    return (
        f"{text}: about {estimate.replies:,} replies, {duration(estimate.seconds)}, as last time."
    )


def exit_code(rows: list[PlayRow]) -> int:
    """Returns the exit code: 3 where a play broke off, because the table then covers only the others."""
    return EXIT_INCOMPLETE if any(row.reason is not None for row in rows) else EXIT_DONE
