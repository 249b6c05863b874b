"""`workbench report`: one document on a project, to hand on."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.base.errors import UsageError
from engine.opener.open_project import OpenProject
from engine.opener.report import Compared, write_report
from engine.results.document_files import WrittenDocument
from workbench.commands.comparing import add_sides, compared
from workbench.commands.narration import narrate, narrate_redacted, print_json
from workbench.commands.options import add_filter, add_redact, read_filter
from workbench.exits import DONE


def report_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `report`."""
    parser.add_argument("project")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="FILE.html or FILE.md"
    )
    parser.add_argument(
        "--force", action="store_true", help="write over a file that is there already"
    )
    add_redact(parser)
    parser.add_argument(
        "--no-validation",
        action="store_true",
        help="leave out the tables that compare metrics with truth",
    )
    add_filter(parser)
    parser.add_argument(
        "--compare",
        nargs="?",
        const="",
        metavar="OTHER",
        help="add what differs: from another project, by --by, or between --a and --b",
    )
    add_sides(parser)


def report(arguments: argparse.Namespace) -> int:
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
            written = _written(workspace, arguments, None)
        else:
            with compared(workspace, arguments, arguments.compare or None) as found:
                written = _written(workspace, arguments, found)
    if arguments.json:
        print_json({"file": str(path), "bytes": written.bytes, "redacted": written.redacted})
    else:
        narrate(f"Wrote {path} ({written.bytes / 1000:,.0f} kB).")
        narrate_redacted(written.redacted if arguments.redact else None)
    return DONE


def _written(
    workspace: OpenProject, arguments: argparse.Namespace, found: Compared | None
) -> WrittenDocument:
    return write_report(
        workspace,
        Path(arguments.output),
        read_filter(arguments.filter),
        redact=arguments.redact,
        validate=not arguments.no_validation,
        compared=found,
        force=arguments.force,
    )
