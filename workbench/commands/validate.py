"""`workbench validate`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from engine.errors import UsageError
from engine.filters import ListQuery
from workbench.commands import validate_completeness, validate_trees
from workbench.commands.filtering import asked_filter
from workbench.commands.narration import say, show, tell
from workbench.exits import DONE
from workbench.services import Workspace
from workbench.validation import picture
from workbench.validation.completeness import completeness_table, only_run
from workbench.validation.trees import tree_validation

OF_TREES = ("config",)
OF_COMPLETENESS = ("run_name", "adapter", "mode", "seed", "limit", "same_kind", "plot", "against")
"""Options that only one of the metrics has, as the parser stores them."""


def validate(arguments: argparse.Namespace) -> int:
    """Holds a metric against what is known.

    Raises:
        UsageError: There is nothing to hold against anything, or an option cannot be understood here.
    """
    if arguments.metric == "trees":
        _refuse(arguments, OF_COMPLETENESS)
        return _trees(arguments)
    _refuse(arguments, OF_TREES)
    return _completeness(arguments)


def _refuse(arguments: argparse.Namespace, options: Sequence[str]) -> None:
    for name in options:
        if getattr(arguments, name) is not None:
            option = name.removesuffix("_name").replace("_", "-")
            raise UsageError(
                f"--{option} says nothing to `validate {arguments.metric}`.", "Leave it out."
            )


def _trees(arguments: argparse.Namespace) -> int:
    query = ListQuery(asked_filter(arguments.filter))
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        found = tree_validation(workspace.project, query, arguments.config)
    if not found.tables:
        tell(validate_trees.without_truth(found))
    if arguments.json:
        show(validate_trees.as_json(found))
    else:
        say("\n".join(validate_trees.lines_of(found)))
    return DONE


def _completeness(arguments: argparse.Namespace) -> int:
    path = Path(arguments.project)
    query = ListQuery(asked_filter(arguments.filter))
    if arguments.against and not arguments.plot:
        raise UsageError("--against says how to draw.", "Name the picture with --plot FILE.")
    with Workspace(path, read_only=True) as workspace:
        found = completeness_table(
            workspace.project,
            workspace.catalog,
            arguments.run_name or only_run(path),
            query=query,
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
    if arguments.json:
        show(validate_completeness.as_json(found))
    else:
        say("\n".join(validate_completeness.lines_of(found)))
    return DONE
