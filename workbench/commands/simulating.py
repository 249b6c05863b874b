"""`workbench simulate`: conversations with a known outcome, played by models, and the tables of their sources."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet
from engine.opener.open_project import OpenProject
from engine.simulate import result_tables
from engine.simulate.service import load_forms, load_instructions
from engine.simulate.simulation_request import COMMON, FIELDS, OPTIONS, Kind, SimulationRequest
from workbench.arguments import PROJECT, Argument, argument, read_request, request_arguments, takes
from workbench.command_result import EXIT_DONE, EXIT_INCOMPLETE, CommandResult
from workbench.narration import narrate, run_stages
from workbench.text_tables import table_lines

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
        Cancelled: A stage was cancelled from the keyboard.
    """
    request = read_request(SimulationRequest, arguments, kind="sharded")
    # A file that cannot be read is refused before a project is made.
    load_instructions(request.instructions)
    return _play(arguments.project, request)


@takes(PROJECT, *_kind_arguments("forms"))
def simulate_forms(arguments: argparse.Namespace) -> CommandResult:
    """Has forms filled in conversation, in a project that is created if needed; gives the table of Hakimov et al.
    (2024).

    Raises:
        WorkbenchError: A model cannot be had, or a file is no form.
        Cancelled: A stage was cancelled from the keyboard.
    """
    request = read_request(SimulationRequest, arguments, kind="forms")
    # Files that cannot be read are refused before a project is made.
    load_forms(request)
    return _play(arguments.project, request)


@takes(PROJECT, *_kind_arguments("recsim"))
def simulate_recsim(arguments: argparse.Namespace) -> CommandResult:
    """Plays people with profiles who plan with an assistant.

    Raises:
        WorkbenchError: A model cannot be had.
        Cancelled: A stage was cancelled from the keyboard.
    """
    return _play(arguments.project, read_request(SimulationRequest, arguments, kind="recsim"))


def _play(project: str, request: SimulationRequest) -> CommandResult:
    """Plays the scenarios that were not played yet, with narration; returns all their plays, in the order of the
    scenarios, with the results of their setting. Plays that broke off are named on standard error.

    Raises:
        WorkbenchError: A stage failed.
        Cancelled: A stage was cancelled from the keyboard.
    """
    with OpenProject(Path(project), create=True) as workspace:
        stages, plan = workspace.simulations.stages(request)
        run_stages(workspace, stages)
        stored = workspace.simulations.plays(plan.config_hash)
        results = workspace.simulations.results(plan.config_hash)
    plays = [stored[scenario.key] for scenario in plan.scenarios if scenario.key in stored]
    broken_off = [play for play in plays if play.reason is not None]
    for play in broken_off:
        narrate(f"{play.key} broke off: {play.reason}")
    lines, tables = _tables(*results)
    return CommandResult(
        [
            f"{len(plays) - len(broken_off):,} played; their conversations have the source {plan.source}.",
            *lines,
        ],
        {
            "source": plan.source,
            **tables,
            "plays": [
                {
                    **{
                        name: part
                        for name, part in play.result.items()
                        if name not in LONG_RESULT_PARTS
                    },
                    "key": play.key,
                    "conversation": play.conversation_id,
                    "reason": play.reason,
                }
                for play in plays
            ],
        },
        # The tables leave out plays that broke off, so the exit code says that they are incomplete.
        EXIT_INCOMPLETE if broken_off else EXIT_DONE,
    )


def _tables(
    scores: Sequence[result_tables.ScoredPlay], filled: Sequence[result_tables.FilledForm]
) -> tuple[list[str], dict[str, Any]]:
    """Returns the tables of results as text, and as JSON values."""
    rows = result_tables.aptitudes(scores)
    tables = [result_tables.aptitude_table(rows)] if rows else []
    if filled:
        tables.append(result_tables.form_table(filled))
    lines = [line for table in tables for line in (*table_lines(table), *table.notes)]
    forms = [asdict(row) for row in result_tables.form_rows(filled)]
    return lines, {"aptitude": result_tables.aptitude_json(rows), "forms": forms}


@takes(argument("projects", nargs="+", metavar="project", help="project files"))
def list_results(arguments: argparse.Namespace) -> CommandResult:
    """Gives the tables of what was simulated here or elsewhere and imported: performance, aptitude and unreliability by
    task, condition and model, and models by forms.

    Raises:
        NotYet: No project has a simulation with a score, nor a filled form.
    """
    scores: list[result_tables.ScoredPlay] = []
    filled: list[result_tables.FilledForm] = []
    for project in arguments.projects:
        with OpenProject(Path(project), read_only=True) as workspace:
            scores_here, filled_here = workspace.simulations.results()
        scores += scores_here
        filled += filled_here
    if not scores and not filled:
        raise NotYet(
            "There is no simulation with a score, and nobody filled a form.",
            "Use `workbench simulate`, or import logs with `conv_type`, `task_id` and `score`.",
        )
    return CommandResult(*_tables(scores, filled))
