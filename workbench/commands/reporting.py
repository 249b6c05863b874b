"""`workbench report`: one document on a project, to hand on."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.services.report.files import write_report
from engine.services.workspace import Workspace
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


def report(arguments: argparse.Namespace) -> int:
    """Writes the report.

    Raises:
        UsageError: The file has another ending, or no conversation matches.
        ProjectError: The file is there already, or cannot be written.
    """
    path = Path(arguments.output)
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        written = write_report(
            workspace.services(),
            path,
            read_filter(arguments.filter),
            redact=arguments.redact,
            validate=not arguments.no_validation,
            force=arguments.force,
        )
    if arguments.json:
        print_json({"file": str(path), "bytes": written.bytes, "redacted": written.redacted})
    else:
        narrate(f"Wrote {path} ({written.bytes / 1000:,.0f} kB).")
        narrate_redacted(written.redacted if arguments.redact else None)
    return DONE
