"""`workbench validate`: compares goals, scores and trees with the truth that was imported and with verdicts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.base.errors import NotYet, UsageError
from engine.base.number_format import counted, figure
from engine.base.request_options import options_of
from engine.conversations.filters import ListQuery
from engine.opener.open_project import OpenProject
from engine.results.records import CompletenessTable, TruncationTest
from engine.results.validation import completeness_report, goals, trees
from engine.results.validation.completeness import completeness_table
from engine.results.validation.goals import GoalValidation, goal_validation
from engine.results.validation.trees import TreeValidation, config_name, tree_validation
from engine.training.run_files import only_run
from workbench.arguments import (
    FILTER,
    PROJECT,
    argument,
    read_request,
    request_arguments,
    takes,
    titled,
)
from workbench.command_result import CommandResult
from workbench.narration import narrate
from workbench.text_tables import table_lines

MAX_GOAL_NAME_CHARS = 27
"""Most characters that are printed of the name of a row in the table of goals."""

METRIC_OPTIONS = {
    "trees": ("config",),
    "completeness": options_of(TruncationTest),
}
"""The options that only one of the metrics has, by their names in the parsed arguments, where they are if given."""

_ALL_EQUAL_TEXT = "  All are the same: there is nothing to tell apart."
"""Stands for a table in which the truth is the same for all."""


@takes(
    PROJECT,
    argument(
        "metric",
        choices=["goals", "completeness", "trees", "all"],
        help="what is compared; `all`: every one for which there is truth",
    ),
    FILTER,
    titled(
        "trees",
        argument(
            "--config",
            metavar="HASH",
            default=argparse.SUPPRESS,
            help="the trees with this configuration hash (default: those that the screens show)",
        ),
    ),
    titled(
        "completeness: whole conversations against cut ones",
        *request_arguments(TruncationTest),
    ),
)
def validate(arguments: argparse.Namespace) -> CommandResult:
    """Compares a metric, or all metrics, with the truth that was imported.

    Raises:
        UsageError: There is no truth or no result to compare, or an option does not apply here.
    """
    for metric, names in METRIC_OPTIONS.items():
        for name in names if metric != arguments.metric else ():
            if name in arguments:
                option = name.removesuffix("_name").replace("_", "-")
                raise UsageError(
                    f"--{option} has no effect on `validate {arguments.metric}`.", "Leave it out."
                )
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        if arguments.metric == "all":
            return _validate_all(workspace, arguments)
        return _VALIDATE_METRIC[arguments.metric](workspace, arguments)


def _validate_goals(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    """Compares the goals with those that are known.

    Raises:
        UsageError: Nothing is clustered, or no two known goals can be told apart.
    """
    validation = goal_validation(workspace.project, ListQuery(arguments.filter))
    return CommandResult(_goals_lines(validation), goals.goals_json(validation))


def _goals_lines(validation: GoalValidation) -> list[str]:
    """Returns the table of goals, with its two notes."""
    table = goals.goal_table(validation)
    return [
        f"{'goals':<15}{table.notes[0]}",
        f"{'':<15}{table.notes[1]}",
        "",
        *table_lines(table, max_name_length=MAX_GOAL_NAME_CHARS),
    ]


def _validate_completeness(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    """Compares the scores of whole conversations with those of cut ones, and with truth.

    Raises:
        UsageError: There is no such run, there are no such scores, or no conversation can be cut.
    """
    test = read_request(TruncationTest, arguments)
    if test.run_name is None:
        test = replace(test, run_name=only_run(Path(arguments.project)))
    validation = completeness_table(
        workspace.project, workspace.catalog, test, query=ListQuery(arguments.filter)
    )
    return CommandResult(
        _completeness_lines(validation),
        completeness_report.as_json(validation),
        notes=completeness_report.notes(validation),
    )


def _completeness_lines(validation: CompletenessTable) -> list[str]:
    """Returns the table of the truncation test, and one for each truth."""
    cut, *by_truth = completeness_report.tables(validation)
    lines = [
        f"{'completeness':<15}{cut.notes[0]}",
        f"{'':<15}{cut.notes[1]}",
        "",
        *table_lines(cut, max_name_length=completeness_report.MAX_NAME_CHARS),
        *(f"  {line}" for line in cut.conclusions),
    ]
    for table in by_truth:
        lines += ["", f"{table.title}: {table.notes[0]}", f"  {table.notes[1]}"]
        if not table.rows:
            lines.append(_ALL_EQUAL_TEXT)
            continue
        head, *rows = table_lines(table, max_name_length=completeness_report.MAX_NAME_CHARS)
        chance = " and ".join(figure(column.chance or 0.0) for column in table.columns[1:])
        lines += [f"{head}  (by chance {chance})", *rows]
    return lines


def _validate_trees(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    """Compares the measures of response trees with truth.

    Raises:
        UsageError: There are no trees, or not exactly one configuration has the hash.
    """
    query = ListQuery(arguments.filter)
    validation = tree_validation(workspace.project, query, vars(arguments).get("config"))
    notes = [] if validation.tables else [trees.without_truth(validation)]
    return CommandResult(_trees_lines(validation), trees.trees_json(validation), notes=notes)


def _trees_lines(validation: TreeValidation) -> list[str]:
    """Returns how many trees there are, a table for each claim about them, and their correlations."""
    lines = [
        f"{'trees':<15}{config_name(validation.config)}",
        f"{'':<15}{counted(validation.grown, 'tree')} of {counted(validation.conversations, 'conversation')},"
        f" {validation.asked_for:,} asked for; median of {validation.leaves:g} leaves",
    ]
    for table in trees.tree_tables(validation):
        lines += ["", f"{table.title}: {table.notes[0]}", f"  {table.notes[1]}"]
        lines += (
            table_lines(table, indent="  ", with_chance_row=True)
            if table.rows
            else [_ALL_EQUAL_TEXT]
        )
        lines += [f"  {line}" for line in table.conclusions]
    correlations = trees.correlation_table(validation)
    return [*lines, "", *table_lines(correlations)] if correlations.rows else lines


_VALIDATE_METRIC: Mapping[str, Callable[[OpenProject, argparse.Namespace], CommandResult]] = {
    "goals": _validate_goals,
    "completeness": _validate_completeness,
    "trees": _validate_trees,
}
"""The function that compares each metric, by its name on the command line."""


def _validate_all(workspace: OpenProject, arguments: argparse.Namespace) -> CommandResult:
    """Compares every metric that can be compared, and prints what is missing for each of the others.

    Raises:
        UsageError: No metric can be compared.
    """
    lines: list[str] = []
    document: dict[str, Any] = {}
    missing: list[dict[str, str]] = []
    for metric, validate_metric in _VALIDATE_METRIC.items():
        try:
            result = validate_metric(workspace, arguments)
        except UsageError as error:
            missing.append({"metric": metric, "what": error.message, "how": error.hint})
            narrate(f"{metric}: {error.message} {error.hint}".rstrip())
            continue
        lines += ["", *result.lines] if lines else result.lines
        document |= result.json
    if not lines:
        raise NotYet(
            "There is no result to compare with a known outcome.",
            "Score, cluster or grow trees first, on conversations whose truth is known: `workbench help validation`.",
        )
    return CommandResult(lines, {**document, "missing": missing})
