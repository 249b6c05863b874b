"""`workbench report`, `compare`, `why`: a document on a project, what differs between its parts, what goes with one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from engine.base.errors import UsageError
from engine.conversations.filters import Filter
from engine.conversations.text_checks import replaced_text
from engine.opener.open_project import OpenProject
from engine.opener.report import STRONGEST_WORDS, Compared, write_report
from engine.results.associations.formatting import association_tables, conclusion, notes, side_lines
from engine.results.comparison.formatting import (
    MAX_GOALS_LISTED,
    breakdown_tables,
    comparison_table,
    side_sentences,
)
from engine.results.comparison.records import Breakdown, Comparison
from engine.results.document_files import WrittenDocument
from workbench.arguments import FILTER, PROJECT, REDACT, argument, read_filter, switch, takes
from workbench.command_result import CommandResult
from workbench.text_tables import table_lines

_SIDES = (
    argument(
        "--by",
        metavar="FIELD",
        help="the values of a field: year, month, day, source, model, tool, tag, turns, meta.KEY or truth.KEY",
    ),
    argument("--a", metavar="FILTER", help="the conversations of the first side"),
    argument("--b", metavar="FILTER", help="those of the second side; without it, all the others"),
)
"""What is compared; `_compared` reads their values."""


@takes(
    PROJECT,
    argument("-o", "--output", metavar="FILE", required=True, help="FILE.html or FILE.md"),
    switch("--force", "write over a file that is there already"),
    REDACT,
    switch("--no-validation", "leave out the tables that compare metrics with truth"),
    FILTER,
    argument(
        "--compare",
        nargs="?",
        const="",
        metavar="OTHER",
        help="add what differs: from another project, by --by, or between --a and --b",
    ),
    *_SIDES,
)
def report(arguments: argparse.Namespace) -> CommandResult:
    """Writes the report.

    Raises:
        UsageError: The file has another ending, or no conversation matches.
        ProjectError: The file is there already, or cannot be written.
    """
    if arguments.compare is None and any((arguments.by, arguments.a, arguments.b)):
        raise UsageError("--by, --a and --b belong to a comparison.", "Add --compare.")
    path = Path(arguments.output)
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        if arguments.compare is None:
            written = _write(workspace, arguments, None)
        else:
            with _compared(workspace, arguments, arguments.compare or None) as comparison:
                written = _write(workspace, arguments, comparison)
        words = workspace.word_reasons.strongest(STRONGEST_WORDS) if arguments.json else []
    hints = [f"Wrote {path} ({written.bytes / 1000:,.0f} kB)."]
    if arguments.redact and written.redacted is not None:
        hints.append(replaced_text(written.redacted))
    document = {
        "file": str(path),
        "bytes": written.bytes,
        "redacted": written.redacted,
        "strongest_words": [asdict(word) for word in words],
    }
    return CommandResult([], document, hints=hints)


def _write(
    workspace: OpenProject, arguments: argparse.Namespace, comparison: Compared | None
) -> WrittenDocument:
    """Writes the report, with the comparison if there is one."""
    return write_report(
        workspace,
        Path(arguments.output),
        arguments.filter,
        redact=arguments.redact,
        validate=not arguments.no_validation,
        compared=comparison,
        force=arguments.force,
    )


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
    lines = [*side_lines(result), "", conclusion(result)]
    for table in association_tables(result):
        lines += ["", table.title, *table_lines(table)]
    return CommandResult([*lines, "", *notes(result)], document)


@takes(
    PROJECT,
    argument("other", nargs="?", help="another project, compared with the first"),
    *_SIDES,
    FILTER,
)
def compare(arguments: argparse.Namespace) -> CommandResult:
    """Says what differs, with intervals and tests.

    Raises:
        UsageError: It is not said what to compare, or a side has no conversation.
    """
    with (
        OpenProject(Path(arguments.project), read_only=True) as workspace,
        _compared(workspace, arguments, arguments.other) as compared,
    ):
        comparison = compared.comparison
    return CommandResult(_lines(comparison), asdict(comparison))


@contextmanager
def _compared(
    workspace: OpenProject, arguments: argparse.Namespace, other: str | None
) -> Iterator[Compared]:
    """Yields the comparison that --by, --a, --b and --filter name, or that with the project at `other`, which is open
    meanwhile.

    Raises:
        UsageError: It is not said what to compare, or a side has no conversation.
    """
    chosen = [option for option in ("by", "a") if getattr(arguments, option) is not None]
    if (not chosen and other is None) or (arguments.b is not None and arguments.a is None):
        raise UsageError(
            "Nothing to compare is named.",
            "Name one of --by month, --a FILTER with or without --b FILTER, another project.",
        )
    _refuse_others(arguments, f"--{chosen[0]}" if chosen else "another project", other)
    within: Filter = arguments.filter
    if other is not None:
        with OpenProject(Path(other), read_only=True) as second:
            comparison = workspace.comparison.against(second.comparison, within)
            yield Compared(comparison, (workspace.conversations, second.conversations))
        return
    sides = (workspace.conversations, workspace.conversations)
    if arguments.by is not None:
        yield Compared(workspace.comparison.by(arguments.by, within), sides)
    else:
        filters = read_filter(arguments.a), read_filter(arguments.b or "")
        yield Compared(workspace.comparison.compare(*filters), sides)


def _refuse_others(arguments: argparse.Namespace, option: str, other: str | None) -> None:
    """Refuses every comparison that is named beside `option`.

    Raises:
        UsageError: More is named, or a filter that has no meaning with the option.
    """
    values = {"another project": other, "--by": arguments.by, "--a": arguments.a}
    more = [name for name, value in values.items() if value is not None and name != option]
    if more:
        raise UsageError(
            f"One comparison at a time: {' and '.join([option, *more])}.",
            "Leave all but one of them out.",
        )
    if arguments.filter and option == "--a":
        raise UsageError("--filter has no meaning with --a.", "Write the terms into --a and --b.")


def _lines(comparison: Comparison | Breakdown) -> list[str]:
    """Returns a comparison as lines of text."""
    if isinstance(comparison, Comparison):
        lines, tables = side_sentences(comparison), [comparison_table(comparison, MAX_GOALS_LISTED)]
    else:
        lines, tables = [], breakdown_tables(comparison)
    for table in tables:
        lines += ["", *table_lines(table)]
    return [*lines, "", *tables[0].notes]
