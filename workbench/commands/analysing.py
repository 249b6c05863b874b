"""`workbench analyse`: tables of imported truth and of simulations, and ratings of conversations by a model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, NotYet
from engine.base.report_table import CellKind
from engine.base.text import one_line
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.questions.question_names import RATING
from engine.results.imported_truth import simulated_scores, turn_rows
from engine.results.metrics.known_outcomes import TurnRow, aptitudes
from engine.simulate.forms.table import by_model, draw_forms
from engine.simulate.records import PlayRow
from engine.simulate.request import SimulationOptions
from engine.simulate.service.ratings import (
    PARTS,
    AgreementRow,
    LabelRow,
    answer_ratings,
    label_rows,
    rated_by_turns,
    rating_agreement,
    rating_simulation,
    truths_of,
)
from engine.simulate.service.result_tables import aptitude_json, aptitude_table, form_model_table
from engine.simulate.service.simulations import Simulation
from workbench.arguments import (
    FILTER,
    LABELING,
    PROJECT,
    argument,
    number,
    read_request,
    switch,
    takes,
)
from workbench.command_result import CommandResult
from workbench.commands.listing import matching
from workbench.commands.simulating import exit_code, played
from workbench.narration import narrate
from workbench.text_tables import cell_lines, table_lines

MAX_NAME_CHARACTERS = 28
"""Most characters that are printed of the name of a column."""


@takes(PROJECT, FILTER)
def turns(arguments: argparse.Namespace) -> CommandResult:
    """Gives means by the number of turns.

    Raises:
        NotFound: No conversation matches.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        rows = turn_rows(workspace.project, matching(workspace, arguments.filter))
    if not any(row.means for row in rows):
        narrate("No conversation came with a rating, a reward or another number to average.")
    return CommandResult(turn_lines(rows), {"turns": [turn_json(row) for row in rows]})


@takes(PROJECT, FILTER)
def aptitude(arguments: argparse.Namespace) -> CommandResult:
    """Gives performance, aptitude and unreliability of simulated conversations.

    Raises:
        NotFound: No conversation matches.
        NotYet: None that matches is a simulation with a score.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        scores = simulated_scores(workspace.project, matching(workspace, arguments.filter))
    if not scores:
        raise NotYet(
            "None of these conversations is a scored simulation.",
            "Import logs with `conv_type`, `task_id` and `score`.",
        )
    rows = aptitudes(scores)
    if any(row.fewest == 1 for row in rows):
        narrate("Where an instruction was simulated once, nothing is known of its reliability.")
    return CommandResult(table_lines(aptitude_table(rows)), {"aptitude": aptitude_json(rows)})


def turn_lines(rows: Sequence[TurnRow]) -> list[str]:
    """Returns the table of means by number of turns."""
    names = list(dict.fromkeys(name for row in rows for name in row.means))
    columns: list[tuple[str, CellKind]] = [
        (one_line(name, MAX_NAME_CHARACTERS), "mean") for name in names
    ]
    means = [
        [row.means[name].value if name in row.means else None for name in names] for row in rows
    ]
    return cell_lines(
        [("turns", "count"), ("conversations", "count"), *columns],
        [(row.turns, row.conversations, *values) for row, values in zip(rows, means, strict=True)],
    )


def turn_json(row: TurnRow) -> dict[str, Any]:
    """Returns the means of a number of turns as JSON values."""
    return {
        "turns": row.turns,
        "conversations": row.conversations,
        "means": {name: mean.value for name, mean in row.means.items()},
        "counts": {name: mean.count for name, mean in row.means.items()},
    }


@takes(
    argument("projects", nargs="+", metavar="project", help="project files"),
    argument(
        "--plot",
        metavar="FILE",
        help="also draw Figure 2 of the paper (means over forms; fields and turns by form), as .svg",
    ),
)
def forms(arguments: argparse.Namespace) -> CommandResult:
    """Gives a row for each model, variant and form of all runs in the projects, simulated or imported, as in the tables
    of Hakimov et al. (2024), and draws them.

    Raises:
        NotYet: No project has a run.
        UsageError: The picture cannot be drawn.
        ProjectError: The picture cannot be written.
    """
    runs: list[tuple[str, Mapping[str, Any]]] = []
    for project in arguments.projects:
        with OpenProject(Path(project), read_only=True) as workspace:
            runs += workspace.simulation_runs.form_runs()
    if not runs:
        raise NotYet(
            "Nobody filled a form here.",
            "Use `workbench simulate forms`, or import what its --files wrote.",
        )
    rows = by_model(runs)
    if arguments.plot:
        draw_forms(rows, Path(arguments.plot))
        narrate(f"Drew {arguments.plot}.")
    return CommandResult(
        table_lines(form_model_table(runs)), {"forms": [asdict(row) for row in rows]}
    )


# Ratings by a model


@takes(
    PROJECT,
    argument(
        "--part", action="append", choices=list(PARTS), help="may be repeated (default: all four)"
    ),
    *LABELING,
    number("--limit", "only the first N"),
    argument("--seed", type=int, default=0, help="seed of the replies"),
    switch("--keep", "also store the ratings as answers to questions, such as `diversity@model:2`"),
    FILTER,
)
def ratings(arguments: argparse.Namespace) -> CommandResult:
    """Annotates what was not annotated yet; gives ratings, their means by turns, and agreements.

    Raises:
        NotFound: Nothing matches.
        WorkbenchError: A model cannot be had.
    """
    parts = tuple(dict.fromkeys(arguments.part or PARTS))
    options = read_request(SimulationOptions, arguments)
    with OpenProject(Path(arguments.project)) as workspace:
        conversations = workspace.conversations
        ids = conversations.ids(ListQuery(arguments.filter))
        simulation = rating_simulation(
            workspace.simulation_runs, workspace.project, ids, parts, options
        )
        rows, finished = _play_all(workspace, simulation)
        if arguments.keep and "ratings" in parts:
            config, model = simulation.play.config_hash, _judge_model(workspace, simulation)
            given = answer_ratings(workspace.project, finished, config, model)
            narrate(f"Stored {given:,} answers; `--filter diversity@model:2` finds them.")
        keys = {int(row.result["conversation"]) for row in finished}
        truths = truths_of(workspace.project, keys)
        listed = {row.id: row for row in conversations.rows(sorted(keys))}
        given_by_people = {
            key: dict(row.answers) for key in keys if (row := workspace.triage.current(key))
        }
    labels = label_rows(finished) if "ratings" in parts else []
    turns = (
        rated_by_turns(finished, {key: row.turns for key, row in listed.items()}) if labels else []
    )
    agreements = rating_agreement(finished, truths, given_by_people)
    lines: list[str] = []
    if labels:
        lines += [*_label_lines(labels), "", *turn_lines(turns)]
    if agreements:
        lines += ["", *_agreement_lines(agreements)]
    document = {
        "config": simulation.play.config_hash,
        "labels": [asdict(row) for row in labels],
        "turns": [turn_json(row) for row in turns],
        "agreement": [_flat_agreement(row) for row in agreements],
        "conversations": [
            {"id": listed[int(row.result["conversation"])].external_id, **_annotations(row.result)}
            for row in finished
        ],
    }
    return CommandResult(
        lines or [f"Annotated {len(finished):,}; --json prints what was said of each."],
        document,
        exit_code(rows),
    )


def _play_all(
    workspace: OpenProject, simulation: Simulation
) -> tuple[list[PlayRow], list[PlayRow]]:
    """Plays what was not played yet; returns all plays, and those that did not break off.

    Raises:
        NotFound: There is nothing to play.
    """
    if not simulation.play.scenarios:
        raise NotFound("In no conversation that matches does a user speak.", "Leave out --filter.")
    rows = played(workspace, simulation)
    return rows, [row for row in rows if row.reason is None]


def _judge_model(workspace: OpenProject, simulation: Simulation) -> str:
    """Returns the name of the model that annotated."""
    settings = {
        setting.config_hash: setting.models for setting in workspace.simulation_runs.settings()
    }
    return settings.get(simulation.play.config_hash, {}).get("judge", "a model")


def _label_lines(rows: Sequence[LabelRow]) -> list[str]:
    """Returns how often each label was given, as a table."""
    return cell_lines(
        [("schema", "text"), ("label", "text"), ("labelled", "text"), ("labels", "text")],
        [
            (
                row.schema, row.label, f"{row.labelled:,} of {row.asked:,}",
                ", ".join(f"{name} {count:,}" for name, count in row.counts.items()),
            )
            for row in rows
        ],
    )  # fmt: skip


def _agreement_lines(rows: Sequence[AgreementRow]) -> list[str]:
    """Returns how far two annotators agree on each label, as a table."""
    return cell_lines(
        [
            ("schema", "text"), ("label", "text"), ("against", "text"), ("n", "count"),
            ("accuracy", "interval"), ("frequent", "share"), ("kappa", "interval"), ("weighted", "share"),
        ],
        [
            (
                row.schema, row.label, f"{row.one} / {row.other}", row.found.count,
                row.found.accuracy, row.found.frequent, row.found.kappa,
                row.found.weighted and row.found.weighted.value,
            )
            for row in rows
        ],
    )  # fmt: skip


def _flat_agreement(row: AgreementRow) -> dict[str, Any]:
    """Returns an agreement as JSON values."""
    named = {"schema": row.schema, "label": row.label, "one": row.one, "other": row.other}
    return {**named, **asdict(row.found)}


def _annotations(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the model said of a conversation, in the fields of the data set."""
    fields = {
        name: value for name, value in result.items() if name not in ("conversation", "labels")
    }
    ratings = result["labels"].get(RATING, {}).get("final")
    return fields if ratings is None else {RATING: ratings, **fields}
