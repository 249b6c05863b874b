"""`workbench export`: writes lines of JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import get_args

from engine.errors import UsageError
from engine.filters import ListQuery
from engine.number_format import counted
from engine.personal_data import KINDS, NAMES, Redactor
from engine.services.conversation_forms import ConversationForm
from engine.services.exports import ExportKind, export_lines, form_lines, redacted_lines
from engine.services.line_files import write_file, write_lines
from engine.services.table_export import TableColumns, table_lines, write_parquet
from engine.services.workspace import Workspace
from workbench.commands.narration import narrate, print_json
from workbench.commands.options import add_filter, read_filter
from workbench.commands.scores import narrate_set

OF_ALL = ("clusters", "decisions")
OF_SCORES = ("table", "scores", "clusters")
FORMATS = ("jsonl", "csv", "parquet")


def export_options(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `export`."""
    parser.add_argument("project")
    parser.add_argument("what", choices=get_args(ExportKind))
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="default: by the file name, else jsonl; parquet for the table",
    )
    parser.add_argument(
        "--truth", action="store_true", help="the table with what is known from elsewhere as well"
    )
    parser.add_argument(
        "--as",
        dest="form",
        choices=get_args(ConversationForm),
        help="conversations in this form (default: the uniform one, which holds everything)",
    )
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace e-mail addresses, phone numbers, payment cards, IBANs and IP addresses by names like [email 1]",
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
    if arguments.form and arguments.what != "conversations":
        raise UsageError("--as is for conversations.", "Leave it out, or export conversations.")
    if arguments.truth and arguments.what != "table":
        raise UsageError("--truth is for the table.", "Leave it out, or export the table.")
    left_behind: Counter[str] = Counter()
    redactor = Redactor() if arguments.redact else None
    ending = (arguments.output or "").rpartition(".")[2]
    kind = arguments.format or (ending if ending in FORMATS else "jsonl")
    if kind == "parquet" and (arguments.what != "table" or arguments.output is None):
        raise UsageError(
            "Parquet is for the table, in a file.", "Export the table with -o FILE, or JSON Lines."
        )
    with Workspace(Path(arguments.project), read_only=True) as workspace:
        chosen = None
        if wanted:
            chosen = workspace.services().conversations.ids(ListQuery(wanted))
        if arguments.what in OF_SCORES:
            narrate_set(workspace.services().score_sets)
        with (
            workspace.project.reading() as conn,
            closing(
                form_lines(conn, arguments.form, chosen, left_behind)
                if arguments.form
                else table_lines(conn, chosen, truth=arguments.truth)
                if arguments.what == "table"
                else export_lines(conn, arguments.what, chosen)
            ) as found,
        ):
            lines = found if redactor is None else redacted_lines(found, redactor)
            if arguments.output is None:
                write_lines(lines, sys.stdout, kind)
                sys.stdout.flush()
                _narrate_losses(arguments.form, left_behind)
                _narrate_redacted(redactor)
                return 0
            if kind == "parquet":
                columns = TableColumns.read(conn, chosen, truth=arguments.truth)
                count = write_parquet(lines, columns, Path(arguments.output))
            else:
                count = write_file(lines, Path(arguments.output), kind)
    if arguments.json:
        print_json(
            {
                "what": arguments.what,
                "file": arguments.output,
                "format": kind,
                "lines": count,
                **({"left_behind": left_behind} if arguments.form else {}),
                **({"redacted": redactor.counts} if redactor else {}),
            }
        )
    else:
        narrate(f"Wrote {count:,} lines to {arguments.output}.")
        _narrate_losses(arguments.form, left_behind)
        _narrate_redacted(redactor)
    return 0


def _narrate_redacted(redactor: Redactor | None) -> None:
    """Says what was replaced, and what cannot be found."""
    if redactor is None:
        return
    found = [
        f"{NAMES[kind]}: {redactor.counts[kind]:,}" for kind in KINDS if kind in redactor.counts
    ]
    narrate(
        f"Replaced {', '.join(found) or 'nothing'}. Names of people and postal addresses are not found: look before you"
        " hand it on."
    )


def _narrate_losses(form: str | None, left_behind: Counter[str]) -> None:
    for what, count in left_behind.most_common():
        narrate(f"{counted(count, 'message')} with {what}, which the form {form} has no place for.")
