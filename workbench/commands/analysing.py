"""`workbench analyse turns`, `aptitude` and `forms`: tables of imported truth and of simulations."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.base.errors import NotFound, NotYet
from engine.base.report_table import CellKind
from engine.base.text import one_line
from engine.completeness.turns import TurnRow
from engine.conversations.filters import Filter, ListQuery
from engine.opener.workspace import Workspace
from engine.results.imported_truth import simulated_scores, turn_rows
from engine.results.metrics.aptitude import aptitudes
from engine.simulate.forms.table import by_model
from engine.simulate.service.form_picture import draw_forms
from engine.simulate.service.result_tables import (
    aptitude_json,
    aptitude_table,
    form_model_table,
)
from workbench.arguments import FILTER, PROJECT, argument, takes
from workbench.narration import narrate
from workbench.result import Result
from workbench.text_tables import cell_lines, table_lines

LONGEST_NAME = 28


@takes(PROJECT, FILTER)
def turns(arguments: argparse.Namespace) -> Result:
    """Gives means by the number of turns.

    Raises:
        NotFound: No conversation matches.
    """
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        rows = turn_rows(workspace.project, _matching(workspace, arguments.filter))
    if not any(row.means for row in rows):
        narrate("No conversation came with a rating, a reward or another number to average.")
    return Result(turn_lines(rows), {"turns": [turn_json(row) for row in rows]})


@takes(PROJECT, FILTER)
def aptitude(arguments: argparse.Namespace) -> Result:
    """Gives performance, aptitude and unreliability of simulated conversations.

    Raises:
        NotFound: No conversation matches.
        NotYet: None that matches is a simulation with a score.
    """
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        scores = simulated_scores(workspace.project, _matching(workspace, arguments.filter))
    if not scores:
        raise NotYet(
            "None of these conversations is a scored simulation.",
            "Import logs with `conv_type`, `task_id` and `score`.",
        )
    rows = aptitudes(scores)
    if any(row.fewest == 1 for row in rows):
        narrate("Where an instruction was simulated once, nothing is known of its reliability.")
    return Result(table_lines(aptitude_table(rows)), {"aptitude": aptitude_json(rows)})


def _matching(workspace: Workspace, filter: Filter) -> Sequence[int]:
    ids = workspace.services().conversations.ids(ListQuery(filter))
    if not ids:
        raise NotFound("No conversation matches.", "Leave out --filter, or import some.")
    return ids


def turn_lines(rows: Sequence[TurnRow]) -> list[str]:
    """The table of means by number of turns."""
    names = list(dict.fromkeys(name for row in rows for name in row.means))
    columns: list[tuple[str, CellKind]] = [(one_line(name, LONGEST_NAME), "mean") for name in names]
    means = [
        [row.means[name].value if name in row.means else None for name in names] for row in rows
    ]
    return cell_lines(
        [("turns", "count"), ("conversations", "count"), *columns],
        [(row.turns, row.conversations, *values) for row, values in zip(rows, means, strict=True)],
    )


def turn_json(row: TurnRow) -> dict[str, Any]:
    """The means of a number of turns as JSON values."""
    return {
        "turns": row.turns,
        "conversations": row.conversations,
        "means": {name: one.value for name, one in row.means.items()},
        "counts": {name: one.count for name, one in row.means.items()},
    }


@takes(
    argument("projects", nargs="+", metavar="project", help="project files"),
    argument(
        "--plot",
        metavar="FILE",
        help="also draw Figure 2 of the paper (means over forms; fields and turns by form), as .svg or .png",
    ),
)
def forms(arguments: argparse.Namespace) -> Result:
    """Gives a row for each model, variant and form of all runs in the projects, simulated or imported, as in the tables
    of Hakimov et al. (2024), and draws them.

    Raises:
        NotYet: No project has a run.
        UsageError: The picture cannot be drawn.
        ProjectError: The picture cannot be written.
    """
    runs: list[tuple[str, Mapping[str, Any]]] = []
    for project in arguments.projects:
        with Workspace(Path(project), read_only=True) as workspace:
            runs += workspace.simulations().form_runs()
    if not runs:
        raise NotYet(
            "Nobody filled a form here.",
            "Use `workbench simulate forms`, or import what its --files wrote.",
        )
    rows = by_model(runs)
    if arguments.plot:
        draw_forms(rows, Path(arguments.plot))
        narrate(f"Drew {arguments.plot}.")
    return Result(table_lines(form_model_table(runs)), {"forms": [asdict(row) for row in rows]})
