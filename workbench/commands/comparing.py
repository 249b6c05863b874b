"""`workbench compare`: two parts of a project, two projects, two clusterings, or the values of a field."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from engine.errors import UsageError
from engine.records.comparison import Breakdown, ClusteringComparison, Comparison
from engine.services.comparison.formatting import (
    breakdown_lines,
    clustering_lines,
    comparison_lines,
)
from engine.services.workspace import Workspace
from workbench.commands.narration import print_json, print_text
from workbench.commands.options import add_filter, read_filter
from workbench.exits import DONE


def compare_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `compare`."""
    parser.add_argument("project")
    parser.add_argument("other", nargs="?", help="another project, compared with the first")
    parser.add_argument(
        "--by",
        metavar="FIELD",
        help="the values of a field: year, month, day, source, model, tool, tag, meta.KEY or truth.KEY",
    )
    parser.add_argument("--a", metavar="FILTER", help="the conversations of the first side")
    parser.add_argument(
        "--b", metavar="FILTER", help="those of the second side; without it, all the others"
    )
    parser.add_argument(
        "--clusterings",
        nargs=2,
        type=int,
        metavar=("N", "M"),
        help="two clusterings of the project",
    )
    add_filter(parser)


def compare(arguments: argparse.Namespace) -> int:
    """Prints what differs, with intervals and tests.

    Raises:
        UsageError: It is not said what to compare, or a side has no conversation.
    """
    asked = [
        name
        for name, value in (
            ("another project", arguments.other),
            ("--by", arguments.by),
            ("--a", arguments.a),
            ("--clusterings", arguments.clusterings),
        )
        if value is not None
    ]
    if len(asked) != 1 or (arguments.b is not None and arguments.a is None):
        said = " and ".join(asked) if len(asked) > 1 else ""
        raise UsageError(
            f"One comparison at a time: {said}." if said else "It is not said what to compare.",
            "Name one of --by month, --a FILTER with or without --b FILTER, another project, or --clusterings 1 2.",
        )
    if arguments.filter and asked[0] in ("--a", "--clusterings"):
        raise UsageError(
            f"--filter has no meaning with {asked[0]}.", "Write the terms into --a and --b."
        )
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        found = _compared(workspace, arguments)
    if arguments.json:
        print_json(asdict(found))
    else:
        for line in _lines(found):
            print_text(line)
    return DONE


def _compared(
    workspace: Workspace, arguments: argparse.Namespace
) -> Comparison | Breakdown | ClusteringComparison:
    service = workspace.services().comparison
    wanted = read_filter(arguments.filter)
    if arguments.by is not None:
        return service.by(arguments.by, wanted)
    if arguments.clusterings is not None:
        return service.clusterings(*arguments.clusterings)
    if arguments.other is not None:
        with Workspace(Path(arguments.other), read_only=True) as other:
            return service.against(other.services().comparison, wanted)
    return service.compare(read_filter(arguments.a), read_filter(arguments.b or ""))


def _lines(found: Comparison | Breakdown | ClusteringComparison) -> list[str]:
    if isinstance(found, Comparison):
        return comparison_lines(found)
    if isinstance(found, Breakdown):
        return breakdown_lines(found)
    return clustering_lines(found)
