"""`workbench validate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.records.scores import Mode
from engine.services.validation import (
    all_metrics,
    completeness_report,
    goals_report,
    picture,
    trees_report,
)
from engine.services.validation.completeness import completeness_table, only_run
from engine.services.validation.goals import goal_validation
from engine.services.validation.trees import tree_validation
from engine.services.workspace import Workspace
from workbench.commands.narration import Result, narrate
from workbench.commands.options import add_filter, positive, read_filter
from workbench.exits import DONE

OF_TREES = ("config",)
OF_COMPLETENESS = ("run_name", "adapter", "mode", "seed", "limit", "same_kind", "plot", "against")
"""The options that only one of the metrics has, by their names in the parsed arguments."""


def validate_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `validate`."""
    parser.add_argument("project")
    parser.add_argument("metric", choices=["goals", "completeness", "trees", "all"])
    add_filter(parser)
    of_trees = parser.add_argument_group("trees")
    of_trees.add_argument(
        "--config",
        metavar="HASH",
        help="the trees with this configuration hash (default: those that the screens show)",
    )
    test = parser.add_argument_group("completeness: whole conversations against cut ones")
    test.add_argument(
        "--run",
        dest="run_name",
        metavar="NAME",
        help="only what this training run held out (default: the project's only run, else all conversations)",
    )
    test.add_argument("--mode", choices=get_args(Mode), help="only scores of this mode")
    test.add_argument("--adapter", help="only scores with this adapter")
    test.add_argument("--seed", type=int, help="seed of the cuts (default: 0)")
    test.add_argument("--limit", type=positive, help="only the first N conversations")
    test.add_argument(
        "--same-kind",
        action="store_const",
        const=True,
        help="cut only after steps of the kind (assistant, tool) that a conversation ends with",
    )
    test.add_argument("--plot", metavar="FILE", help="also draw the table, as .svg or .png")
    test.add_argument(
        "--against",
        choices=["rows", "conversations", "cut"],
        help="draw it row by row (default), by how many conversations an adapter was trained on, or by what share"
        " of them was cut",
    )


def validate(arguments: argparse.Namespace) -> int:
    """Compares a metric, or all metrics, with the truth that was imported.

    Raises:
        UsageError: There is no truth or no result to compare, or an option does not apply here.
    """
    metric = arguments.metric
    if metric != "trees":
        _refuse(arguments, OF_TREES)
    if metric != "completeness":
        _refuse(arguments, OF_COMPLETENESS)
    if arguments.against and not arguments.plot:
        raise UsageError("--against says how to draw.", "Name the picture with --plot FILE.")
    report = _every if metric == "all" else _REPORTS[metric]
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        result = report(workspace, arguments)
    result.print(arguments.json)
    return DONE


def _refuse(arguments: argparse.Namespace, options: Sequence[str]) -> None:
    for name in options:
        if getattr(arguments, name) is not None:
            option = name.removesuffix("_name").replace("_", "-")
            raise UsageError(
                f"--{option} says nothing to `validate {arguments.metric}`.", "Leave it out."
            )


def _every(workspace: Workspace, arguments: argparse.Namespace) -> Result:
    """Compares all metrics, and prints what is missing for each.

    Raises:
        UsageError: No metric can be compared.
    """
    query = ListQuery(read_filter(arguments.filter))
    found = all_metrics.validate_all(workspace.project, workspace.catalog, query)
    for one in found.missing:
        narrate(f"{one.metric}: {one.what} {one.how}".rstrip())
    lines = all_metrics.lines_of(found)
    if not lines:
        raise UsageError("There is nothing to hold against what is known.", "Run something first.")
    return Result(lines, all_metrics.as_json(found))


def _goals(workspace: Workspace, arguments: argparse.Namespace) -> Result:
    found = goal_validation(workspace.project, ListQuery(read_filter(arguments.filter)))
    return Result(goals_report.lines_of(found), goals_report.as_json(found))


def _trees(workspace: Workspace, arguments: argparse.Namespace) -> Result:
    query = ListQuery(read_filter(arguments.filter))
    found = tree_validation(workspace.project, query, arguments.config)
    if not found.tables:
        narrate(trees_report.without_truth(found))
    return Result(trees_report.lines_of(found), trees_report.as_json(found))


def _completeness(workspace: Workspace, arguments: argparse.Namespace) -> Result:
    found = completeness_table(
        workspace.project,
        workspace.catalog,
        arguments.run_name or only_run(Path(arguments.project)),
        query=ListQuery(read_filter(arguments.filter)),
        mode=arguments.mode,
        adapter=arguments.adapter,
        seed=arguments.seed or 0,
        limit=arguments.limit,
        same_kind=bool(arguments.same_kind),
    )
    for note in completeness_report.notes(found):
        narrate(note)
    if arguments.plot:
        picture.draw(found, Path(arguments.plot), arguments.against or "rows")
        narrate(f"Drew {arguments.plot}.")
    return Result(completeness_report.lines_of(found), completeness_report.as_json(found))


_REPORTS: Mapping[str, Callable[[Workspace, argparse.Namespace], Result]] = {
    "goals": _goals,
    "completeness": _completeness,
    "trees": _trees,
}
