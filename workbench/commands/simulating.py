"""`workbench simulate`: conversations with a known outcome, played by models, and the tables of their sources."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet
from engine.base.report_table import ReportTable
from engine.opener.open_project import OpenProject
from engine.project.records import estimate_lines
from engine.simulate.forms.table import FilledForm, filled_form, form_rows
from engine.simulate.records import PlayRow
from engine.simulate.recsim.play import by_task
from engine.simulate.service import forms as forms_service
from engine.simulate.service import sharded as sharded_service
from engine.simulate.service.result_tables import (
    aptitude_json,
    aptitude_table,
    form_table,
    module_table,
    tables_of,
)
from engine.simulate.service.service import Simulation
from engine.simulate.sharded.aptitude import ScoredPlay, aptitudes
from engine.simulate.sharded.scenario import CONDITIONS, Condition, place_of
from engine.simulate.simulation_request import COMMON, FIELDS, OPTIONS, Kind, SimulationRequest
from workbench.arguments import PROJECT, Argument, argument, read_request, request_arguments, takes
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import narrate, run_stages
from workbench.text_tables import table_lines

MAX_ROWS = 40
"""Most rows of a table that is printed for people."""

LONG_RESULT_PARTS = frozenset({"filled", "dialogue", "interactions"})
"""Parts of the result of a run of forms that the JSON leaves out: they are long, and the project has them."""


def _kind_arguments(kind: Kind) -> list[Argument]:
    """Returns the options of a kind of simulation; its instructions are a word, because they have to be named."""
    return request_arguments(SimulationRequest, (*COMMON, *FIELDS[kind]), without=("instructions",))


@takes(
    PROJECT,
    argument("instructions", help=OPTIONS["instructions"].help),
    *_kind_arguments("sharded"),
)
def simulate_sharded(arguments: argparse.Namespace) -> CommandResult:
    """Plays instructions under conditions; gives performance, aptitude and unreliability.

    Raises:
        WorkbenchError: The instructions cannot be read, or a model cannot do this.
    """
    request = read_request(SimulationRequest, arguments, kind="sharded")
    # A file that cannot be read is refused before a project is made.
    sharded_service.load_instructions(request.instructions)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        rows = play_scenarios(workspace, workspace.simulations.simulation(request))
    return report_of_plays(rows, request.conditions or CONDITIONS)


@takes(PROJECT, *_kind_arguments("forms"))
def simulate_forms(arguments: argparse.Namespace) -> CommandResult:
    """Has forms filled in conversation, in a project that is created if needed; gives the table of Hakimov et al.
    (2024).

    Raises:
        WorkbenchError: A model cannot be had, or a file is no form.
    """
    request = read_request(SimulationRequest, arguments, kind="forms")
    # Files that cannot be read are refused before a project is made.
    forms_service.forms_of(request)
    forms_service.profiles_of(request)
    forms_service.rules_of(request)
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = workspace.simulations.simulation(request)
        rows = play_scenarios(workspace, simulation)
    finished = [row for row in rows if row.reason is None]
    filled = [filled_form(simulation.play.setting, row) for row in finished]
    tables = [form_table(filled), module_table(finished)] if finished else []
    runs = [
        {
            "key": row.key,
            "conversation": row.conversation_id,
            **{name: value for name, value in row.result.items() if name not in LONG_RESULT_PARTS},
        }
        for row in finished
    ]
    return CommandResult(
        _tables_as_lines(tables),
        {
            "config": simulation.play.config_hash,
            "rows": [asdict(row) for row in form_rows(filled)],
            "runs": runs,
        },
        _exit_code(rows),
    )


@takes(PROJECT, *_kind_arguments("recsim"))
def simulate_recsim(arguments: argparse.Namespace) -> CommandResult:
    """Plays people with profiles who plan with an assistant; gives the results by task.

    Raises:
        WorkbenchError: A model cannot be had.
    """
    request = read_request(SimulationRequest, arguments, kind="recsim")
    with OpenProject(Path(arguments.project), create=True) as workspace:
        simulation = workspace.simulations.simulation(request)
        rows = play_scenarios(workspace, simulation)
    finished = [row for row in rows if row.reason is None]
    return CommandResult(
        _tables_as_lines(tables_of("recsim", rows)),
        {
            "config": simulation.play.config_hash,
            "tasks": [asdict(row) for row in by_task(row.result for row in finished)],
            "runs": [
                {"key": row.key, "conversation": row.conversation_id, **row.result}
                for row in finished
            ],
        },
        _exit_code(rows),
    )


def report_of_plays(rows: list[PlayRow], conditions: Sequence[Condition]) -> CommandResult:
    """Returns the table of Laban et al. (2025) and the counts of the kinds of replies, by condition."""
    finished = [row for row in rows if row.reason is None]
    table = sorted(
        aptitudes(sharded_service.scored(finished)),
        key=lambda row: (row.task, place_of(row.condition, conditions)),
    )
    return CommandResult(
        _tables_as_lines(tables_of("sharded", rows)),
        {
            "aptitude": aptitude_json(table),
            "instructions": _aptitude_by_instruction(finished),
            "replies": sharded_service.replies_by_condition(finished, conditions),
        },
        _exit_code(rows),
    )


def _aptitude_by_instruction(rows: Sequence[PlayRow]) -> list[dict[str, Any]]:
    """Returns aptitude and unreliability of each instruction alone."""
    scores: dict[str, list[ScoredPlay]] = {}
    for score in sharded_service.scored(rows):
        scores.setdefault(score.instruction, []).append(score)
    return [
        {"task_id": task_id, **asdict(row)}
        for task_id, plays in scores.items()
        for row in aptitudes(plays)
    ]


def _tables_as_lines(tables: Sequence[ReportTable]) -> list[str]:
    """Returns tables as text; a table with many rows is only counted, because `--json` has them."""
    lines: list[str] = []
    for table in tables:
        count = len(table.rows)
        body = table_lines(table) if count <= MAX_ROWS else [f"{count:,} rows; --json has them."]
        lines += [table.title, *body, *table.notes, ""]
    return lines[:-1]


@takes(argument("projects", nargs="+", metavar="project", help="project files"))
def list_results(arguments: argparse.Namespace) -> CommandResult:
    """Gives the tables of what was simulated here or elsewhere and imported: performance, aptitude and unreliability by
    task, condition and model, and models by forms.

    Raises:
        NotYet: No project has a simulation with a score, nor a filled form.
    """
    scores: list[ScoredPlay] = []
    filled: list[FilledForm] = []
    for project in arguments.projects:
        with OpenProject(Path(project), read_only=True) as workspace:
            scores += workspace.simulations.scores()
            filled += workspace.simulations.filled_forms()
    if not scores and not filled:
        raise NotYet(
            "There is no simulation with a score, and nobody filled a form.",
            "Use `workbench simulate`, or import logs with `conv_type`, `task_id` and `score`.",
        )
    rows = aptitudes(scores)
    tables = [aptitude_table(rows)] if rows else []
    tables += [form_table(filled)] if filled else []
    return CommandResult(
        [line for table in tables for line in (*table_lines(table), *table.notes)],
        {"aptitude": aptitude_json(rows), "forms": [asdict(row) for row in form_rows(filled)]},
    )


# Plays, with narration


def play_scenarios(workspace: OpenProject, simulation: Simulation) -> list[PlayRow]:
    """Plays the scenarios that were not played yet, with narration; returns all their plays, in the order of the
    scenarios. Plays that broke off are named on standard error.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    # The estimate is of the model as it is now; one that is tuned first may become another.
    if not simulation.before:
        narrate("\n".join(estimate_lines(simulation.play.estimate())))
    run_stages(workspace, simulation.stages)
    rows = {row.key: row for row in workspace.simulations.rows(simulation.play.config_hash)}
    plays = [rows[scenario.key] for scenario in simulation.play.scenarios if scenario.key in rows]
    for row in plays:
        if row.reason is not None:
            narrate(f"{row.key} broke off: {row.reason}")
    return plays


def _exit_code(rows: list[PlayRow]) -> int:
    """Returns the exit code: 3 where a play broke off, because the table then covers only the others."""
    return EXIT_INCOMPLETE if any(row.reason is not None for row in rows) else EXIT_DONE
