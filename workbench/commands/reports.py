"""`workbench report`, `compare`, `why`: a document on a project, what differs between its parts, what goes with one."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import UsageError
from engine.conversations.filters import NO_FILTER, Filter, Term
from engine.conversations.personal_data import format_replaced
from engine.opener.key_figures import last_change
from engine.opener.open_project import OpenProject
from engine.opener.report import STRONGEST_WORDS, write_report
from engine.results.associations.formatting import association_tables, conclusion, notes, side_lines
from engine.results.comparison.differences import Breakdown, Comparison, PeriodChange
from engine.results.comparison.formatting import (
    MAX_GOALS_LISTED,
    breakdown_table,
    comparison_table,
    side_sentences,
)
from workbench.arguments import FILTER, FORCE, PROJECT, REDACT, argument, read_filter, takes
from workbench.command_result import CommandResult
from workbench.text_tables import table_lines


@takes(
    PROJECT,
    argument("-o", "--output", metavar="FILE", required=True, help="FILE.html"),
    FORCE,
    REDACT,
    FILTER,
)
def report(arguments: argparse.Namespace) -> CommandResult:
    """Writes the report.

    Raises:
        UsageError: The file has another ending, or no conversation matches.
        ProjectError: The file is there already, or cannot be written.
    """
    path = Path(arguments.output)
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        written = write_report(
            workspace, path, arguments.filter, redact=arguments.redact, force=arguments.force
        )
        words = workspace.word_reasons.strongest(STRONGEST_WORDS) if arguments.json else []
    hints = [f"Wrote {path} ({written.bytes / 1000:,.0f} kB)."]
    if arguments.redact and written.redacted is not None:
        hints.append(format_replaced(written.redacted))
    document = {
        "file": str(path),
        "bytes": written.bytes,
        "redacted": written.redacted,
        "strongest_words": [asdict(word) for word in words],
    }
    return CommandResult([], document, hints=hints)


@takes(
    PROJECT,
    argument("--question", metavar="NAME", help="the answers no (A) and yes (B) to a question"),
    argument("--a", metavar="FILTER", default="", help="the conversations of side A"),
    argument(
        "--b", metavar="FILTER", default="", help="those of side B; without it, all the others"
    ),
    argument(
        "--within",
        choices=("goal", "none"),
        default="goal",
        help="compare conversations of one goal only, where there are goals",
    ),
)
def why(arguments: argparse.Namespace) -> CommandResult:
    """Says what goes with one of two sides.

    Raises:
        UsageError: It is not said which sides, or one has too few conversations.
    """
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        service = workspace.associations
        split = service.split(
            read_filter(arguments.a), read_filter(arguments.b), arguments.question
        )
        result = service.associations(split, within_goals=arguments.within == "goal")
        document = service.as_json(result)
        change = None if arguments.a else last_change(workspace)
    lines = [*side_lines(result), "", conclusion(result)]
    for table in association_tables(result):
        lines += ["", table.title, *table_lines(table)]
    return CommandResult([*lines, "", *notes(result)], document, hints=_changes_hints(change))


@takes(
    PROJECT,
    argument(
        "--by",
        metavar="FIELD",
        help="the values of a field: year, month, week, day, source, model, tool, tag, turns, meta.KEY or truth.KEY",
    ),
    argument("--a", metavar="FILTER", help="the conversations of the first side"),
    argument("--b", metavar="FILTER", help="those of the second side; without it, all the others"),
    FILTER,
)
def compare(arguments: argparse.Namespace) -> CommandResult:
    """Says what differs, with intervals and tests.

    Raises:
        UsageError: It is not said what to compare, or a side has no conversation.
    """
    by, a, b = arguments.by, arguments.a, arguments.b
    if (by is None and a is None) or (b is not None and a is None):
        raise UsageError(
            "Nothing to compare is named.",
            "Name one of --by month, --a FILTER with or without --b FILTER.",
        )
    if by is not None and a is not None:
        raise UsageError("One comparison at a time: --by and --a.", "Leave one of them out.")
    if arguments.filter and a is not None:
        raise UsageError("--filter has no meaning with --a.", "Write the terms into --a and --b.")
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        result: Comparison | Breakdown
        if by is not None:
            result = workspace.comparison.by(by, arguments.filter)
        else:
            result = workspace.comparison.compare(read_filter(a), read_filter(b or ""))
    change = result.last_change if isinstance(result, Breakdown) else None
    hints = _changes_hints(change, arguments.filter)
    return CommandResult(_lines(result), asdict(result), hints=hints)


def _changes_hints(change: PeriodChange | None, filter: Filter = NO_FILTER) -> list[str]:
    """Returns the command that lists the words and tools which are new in the later of two periods of a filter."""
    if change is None:
        return []
    first, last = (
        shlex.quote(str(Filter((*filter.terms, Term("date", ":", (period,))))))
        for period in (change.first, change.last)
    )
    command = f"`workbench why PROJECT --a {last} --b {first}`"
    return [f"Which words, tools and signs came with {change.last}: {command}."]


def _lines(comparison: Comparison | Breakdown) -> list[str]:
    """Returns a comparison as lines of text."""
    if isinstance(comparison, Comparison):
        lines, table = side_sentences(comparison), comparison_table(comparison, MAX_GOALS_LISTED)
    else:
        lines, table = [], breakdown_table(comparison)
    return [*lines, "", *table_lines(table), "", *table.notes]
