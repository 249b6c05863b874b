"""`workbench validate`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from engine.errors import UsageError
from engine.filters import ListQuery
from workbench.commands import validate_completeness, validate_goals, validate_trees
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import Told, tell
from workbench.exits import DONE
from workbench.services import Workspace
from workbench.validation import picture
from workbench.validation.completeness import completeness_table, only_run
from workbench.validation.every import Everything, everything
from workbench.validation.goals import goal_validation
from workbench.validation.trees import tree_validation

OF_TREES = ("config",)
OF_COMPLETENESS = ("run_name", "adapter", "mode", "seed", "limit", "same_kind", "plot", "against")
"""Options that only one of the metrics has, as the parser stores them."""


def validate(arguments: argparse.Namespace) -> int:
    """Holds a metric against what is known, or every metric that the project has.

    Raises:
        UsageError: There is nothing to hold against anything, or an option cannot be understood here.
    """
    metric = arguments.metric
    if metric != "trees":
        _refuse(arguments, OF_TREES)
    if metric != "completeness":
        _refuse(arguments, OF_COMPLETENESS)
    if arguments.against and not arguments.plot:
        raise UsageError("--against says how to draw.", "Name the picture with --plot FILE.")
    teller = _every if metric == "all" else _TELLERS[metric]
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        told = teller(workspace, arguments)
    told.print(arguments.json)
    return DONE


def _refuse(arguments: argparse.Namespace, options: Sequence[str]) -> None:
    for name in options:
        if getattr(arguments, name) is not None:
            option = name.removesuffix("_name").replace("_", "-")
            raise UsageError(
                f"--{option} says nothing to `validate {arguments.metric}`.", "Leave it out."
            )


def _every(workspace: Workspace, arguments: argparse.Namespace) -> Told:
    """All metrics, and what each lacks.

    Raises:
        UsageError: None has anything to say.
    """
    query = ListQuery(asked_filter(arguments.filter))
    found = everything(workspace.project, workspace.catalog, query)
    for one in found.missing:
        tell(f"{one.metric}: {one.what} {one.how}".rstrip())
    told = told_of(found)
    if not told.lines:
        raise UsageError("There is nothing to hold against what is known.", "Run something first.")
    return told


def told_of(found: Everything) -> Told:
    """Everything that was found, in both forms; no lines where nothing was."""
    parts: list[Told] = []
    if found.goals is not None:
        goals = found.goals
        parts.append(Told(validate_goals.lines_of(goals), validate_goals.as_json(goals)))
    if found.completeness is not None:
        table = found.completeness
        lines = validate_completeness.lines_of(table)
        parts.append(Told(lines, validate_completeness.as_json(table)))
    if found.trees is not None:
        trees = found.trees
        parts.append(Told(validate_trees.lines_of(trees), validate_trees.as_json(trees)))
    lines = [line for part in parts for line in ("", *part.lines)][1:]
    as_json = {key: value for part in parts for key, value in part.as_json.items()}
    return Told(lines, {**as_json, "missing": [asdict(one) for one in found.missing]})


def _goals(workspace: Workspace, arguments: argparse.Namespace) -> Told:
    found = goal_validation(workspace.project, ListQuery(asked_filter(arguments.filter)))
    return Told(validate_goals.lines_of(found), validate_goals.as_json(found))


def _trees(workspace: Workspace, arguments: argparse.Namespace) -> Told:
    query = ListQuery(asked_filter(arguments.filter))
    found = tree_validation(workspace.project, query, arguments.config)
    if not found.tables:
        tell(validate_trees.without_truth(found))
    return Told(validate_trees.lines_of(found), validate_trees.as_json(found))


def _completeness(workspace: Workspace, arguments: argparse.Namespace) -> Told:
    found = completeness_table(
        workspace.project,
        workspace.catalog,
        arguments.run_name or only_run(Path(arguments.project)),
        query=ListQuery(asked_filter(arguments.filter)),
        mode=arguments.mode,
        adapter=arguments.adapter,
        seed=arguments.seed or 0,
        limit=arguments.limit,
        same_kind=bool(arguments.same_kind),
    )
    for note in validate_completeness.notes(found):
        tell(note)
    if arguments.plot:
        picture.draw(found, Path(arguments.plot), arguments.against or "rows")
        tell(f"Drew {arguments.plot}.")
    return Told(validate_completeness.lines_of(found), validate_completeness.as_json(found))


_TELLERS: Mapping[str, Callable[[Workspace, argparse.Namespace], Told]] = {
    "goals": _goals,
    "completeness": _completeness,
    "trees": _trees,
}
