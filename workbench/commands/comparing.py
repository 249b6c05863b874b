"""`workbench compare`: two parts of a project, two projects, two clusterings, or the values of a field."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import UsageError
from engine.opener.open_project import OpenProject
from engine.opener.report import Compared
from engine.results.comparison.formatting import breakdown_lines, clustering_lines, comparison_lines
from engine.results.comparison.records import Breakdown, ClusteringComparison, Comparison
from workbench.commands.narration import print_json, print_text
from workbench.commands.options import add_filter, read_filter
from workbench.exits import DONE


def compare_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `compare`."""
    parser.add_argument("project")
    parser.add_argument("other", nargs="?", help="another project, compared with the first")
    add_sides(parser)
    parser.add_argument(
        "--clusterings",
        nargs=2,
        type=int,
        metavar=("N", "M"),
        help="two clusterings of the project",
    )
    add_filter(parser)


def add_sides(parser: argparse.ArgumentParser) -> None:
    """Declares --by, --a and --b; `compared` reads their values."""
    parser.add_argument(
        "--by",
        metavar="FIELD",
        help="the values of a field: year, month, day, source, model, tool, tag, meta.KEY or truth.KEY",
    )
    parser.add_argument("--a", metavar="FILTER", help="the conversations of the first side")
    parser.add_argument(
        "--b", metavar="FILTER", help="those of the second side; without it, all the others"
    )


def compare(arguments: argparse.Namespace) -> int:
    """Prints what differs, with intervals and tests.

    Raises:
        UsageError: It is not said what to compare, or a side has no conversation.
    """
    found: Comparison | Breakdown | ClusteringComparison
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        if arguments.clusterings is None:
            with compared(workspace, arguments, arguments.other, ", or --clusterings 1 2") as made:
                found = made.comparison
        else:
            _only(arguments, "--clusterings", arguments.other)
            found = workspace.comparison.clusterings(*arguments.clusterings)
    if arguments.json:
        print_json(asdict(found))
    else:
        for line in _lines(found):
            print_text(line)
    return DONE


@contextmanager
def compared(
    workspace: OpenProject, arguments: argparse.Namespace, other: str | None, further: str = ""
) -> Iterator[Compared]:
    """The comparison that --by, --a, --b and --filter name, or that with the project at `other`, which is open
    meanwhile.

    Args:
        further: What else can be compared, for the hint of the error.

    Raises:
        UsageError: It is not said what to compare, or a side has no conversation.
    """
    chosen = [one for one in ("by", "a") if getattr(arguments, one) is not None]
    if (not chosen and other is None) or (arguments.b is not None and arguments.a is None):
        raise UsageError(
            "Nothing to compare is named.",
            f"Name one of --by month, --a FILTER with or without --b FILTER, another project{further}.",
        )
    _only(arguments, f"--{chosen[0]}" if chosen else "another project", other)
    wanted = read_filter(arguments.filter)
    if other is not None:
        with OpenProject(Path(other), read_only=True) as second:
            found = workspace.comparison.against(second.comparison, wanted)
            yield Compared(found, (workspace.conversations, second.conversations))
        return
    own = (workspace.conversations, workspace.conversations)
    if arguments.by is not None:
        yield Compared(workspace.comparison.by(arguments.by, wanted), own)
    else:
        sides = read_filter(arguments.a), read_filter(arguments.b or "")
        yield Compared(workspace.comparison.compare(*sides), own)


def _only(arguments: argparse.Namespace, asked: str, other: str | None) -> None:
    """Raises UsageError where more is asked than `asked`."""
    values = {"another project": other, "--by": arguments.by, "--a": arguments.a}
    more = [name for name, value in values.items() if value is not None and name != asked]
    if more:
        raise UsageError(
            f"One comparison at a time: {' and '.join([asked, *more])}.",
            "Leave all but one of them out.",
        )
    if arguments.filter and asked in ("--a", "--clusterings"):
        raise UsageError(
            f"--filter has no meaning with {asked}.", "Write the terms into --a and --b."
        )


def _lines(found: Comparison | Breakdown | ClusteringComparison) -> list[str]:
    if isinstance(found, Comparison):
        return comparison_lines(found)
    if isinstance(found, Breakdown):
        return breakdown_lines(found)
    return clustering_lines(found)
