"""`workbench export`: writes lines of JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import get_args

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.services.exports import ExportKind, export_lines
from engine.services.line_files import write_file, write_lines
from engine.services.workspace import Workspace
from workbench.commands.narration import narrate, print_json
from workbench.commands.options import add_filter, read_filter

OF_ALL = ("clusters", "decisions")


def export_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `export`."""
    parser.add_argument("project")
    parser.add_argument("what", choices=get_args(ExportKind))
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--format", choices=["jsonl", "csv"], help="default: by the file name, else jsonl"
    )
    add_filter(parser)


def export(arguments: argparse.Namespace) -> int:
    """Exports all conversations, or those that match a filter. The file is written completely or not at all."""
    wanted = read_filter(arguments.filter)
    if wanted and arguments.what in OF_ALL:
        raise UsageError(
            f"{arguments.what.capitalize()} concern all conversations, so --filter cannot be used.",
            "Export assignments with the filter instead.",
        )
    kind = arguments.format
    if kind is None:
        kind = "csv" if (arguments.output or "").endswith(".csv") else "jsonl"
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        chosen = None
        if wanted:
            chosen = workspace.services().conversations.ids(ListQuery(wanted))
        with (
            workspace.project.reading() as conn,
            closing(export_lines(conn, arguments.what, chosen)) as lines,
        ):
            if arguments.output is None:
                write_lines(lines, sys.stdout, kind)
                sys.stdout.flush()
                return 0
            count = write_file(lines, Path(arguments.output), kind)
    if arguments.json:
        print_json(
            {"what": arguments.what, "file": arguments.output, "format": kind, "lines": count}
        )
    else:
        narrate(f"Wrote {count:,} lines to {arguments.output}.")
    return 0
