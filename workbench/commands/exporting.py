"""`workbench export`: writes lines of JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

from engine.base.errors import UsageError
from engine.base.line_files import check_target, write_file, write_lines
from engine.base.number_format import counted
from engine.conversations.filters import ListQuery
from engine.conversations.personal_data import Redactor, format_replaced
from engine.opener.conversation_forms import (
    ENDINGS,
    Companion,
    ConversationForm,
    form_lines,
    losses_in_words,
    settings_file,
    write_form,
    write_form_to_stream,
)
from engine.opener.exports import ExportKind, export_lines, redacted_lines
from engine.opener.open_project import OpenProject
from engine.opener.table_export import TableColumns, table_lines, write_table
from workbench.arguments import FILTER, FORCE, FORMULAS, PROJECT, REDACT, argument, switch, takes
from workbench.command_result import EXIT_DONE, CommandResult
from workbench.narration import narrate
from workbench.text_tables import narrate_set

KINDS_WITHOUT_FILTER = ("clusters", "decisions")
"""Kinds of exports that are always of all conversations, so that no filter applies."""
KINDS_WITH_SCORES = ("table", "scores", "clusters")
FORMATS = ("jsonl", "csv", "parquet")
"""The kinds of files of exports; forms of conversations have kinds of their own."""


@takes(
    PROJECT,
    argument("what", choices=get_args(ExportKind), help="what is written"),
    argument(
        "-o", "--output", metavar="FILE", help="the file to write (default: - for standard output)"
    ),
    FORCE,
    argument(
        "--format",
        choices=FORMATS,
        help="kind of file (default: by the file name, else jsonl); parquet is for the table",
    ),
    switch(
        "--truth",
        "the table, or conversations with --as, with what is known from elsewhere as well",
    ),
    argument(
        "--as",
        dest="form",
        choices=get_args(ConversationForm),
        help="conversations in this form (default: the uniform one, which holds everything); csv and parquet have one"
        " row for each message, label-studio has tasks for a person",
    ),
    argument(
        "--with",
        dest="companions",
        metavar="WHAT",
        help=f"beside the messages of conversations, of {', '.join(get_args(Companion))}: one or more, with commas",
    ),
    argument(
        "--question",
        action="append",
        default=[],
        metavar="NAME",
        help="--as label-studio: what the person answers; may be repeated (default: succeeded)",
    ),
    FORMULAS,
    REDACT,
    FILTER,
)
def export(arguments: argparse.Namespace) -> CommandResult | int:
    """Exports all conversations, or those that match a filter. The file is written completely or not at all.

    Raises:
        UsageError: Options do not go together.
        ProjectError: The file is there already, or cannot be written.
    """
    if arguments.output == "-":
        arguments.output = None
    companions = _companions(arguments.companions)
    file_format = _checked_format(arguments, companions)
    if arguments.output is not None:
        _check_output(Path(arguments.output), arguments.form, force=arguments.force)
    form, filter = arguments.form, arguments.filter
    left_behind: Counter[str] = Counter()
    redactor = Redactor() if arguments.redact else None
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        ids = workspace.conversations.ids(ListQuery(filter)) if filter else None
        if arguments.what in KINDS_WITH_SCORES or "scores" in companions:
            narrate_set(workspace.score_sets)
        questions = [workspace.questions.find(name) for name in arguments.question]
        task = Path(workspace.project.path).stem
        with (
            workspace.project.reading() as conn,
            closing(_lines_to_write(conn, arguments, ids, companions, left_behind)) as source,
        ):
            lines = source if redactor is None else redacted_lines(source, redactor)
            if arguments.output is None:
                _write_to_stdout(lines, arguments, file_format, task)
                narrate(*_remarks(form, left_behind, redactor))
                return EXIT_DONE
            path = Path(arguments.output)
            if _has_own_kind_of_file(form):
                count = write_form(
                    lines,
                    form,
                    path,
                    task,
                    companions,
                    truth=arguments.truth,
                    formulas=arguments.formulas,
                    questions=questions,
                )
            elif file_format == "parquet":
                columns = TableColumns.read(conn, ids, truth=arguments.truth)
                count = write_table(lines, columns, path)
            else:
                count = write_file(lines, path, file_format, formulas=arguments.formulas)
    return _export_result(arguments, file_format, count, left_behind, redactor)


def _export_result(
    arguments: argparse.Namespace,
    file_format: str,
    count: int,
    left_behind: Counter[str],
    redactor: Redactor | None,
) -> CommandResult:
    """Returns the result of an export to a file.

    Args:
        count: Number of lines that were written.
        left_behind: Counts of what the form has no place for.
        redactor: Replaced the personal data; None where it was not replaced.
    """
    form = arguments.form
    hints = [f"Wrote {counted(count, 'line')} to {arguments.output}."]
    document = {
        "what": arguments.what,
        "file": arguments.output,
        "format": file_format,
        "lines": count,
    }
    if form:
        if settings := settings_file(form, Path(arguments.output)):
            settings_path, _ = settings
            hints.append(f"Wrote the settings of the annotation to {settings_path}.")
            document["settings"] = str(settings_path)
        document["left_behind"] = +left_behind  # without counts of 0
    if redactor:
        document["redacted"] = redactor.counts
    return CommandResult([], document, hints=[*hints, *_remarks(form, left_behind, redactor)])


def _lines_to_write(
    conn: Any,
    arguments: argparse.Namespace,
    ids: Sequence[int] | None,
    companions: Sequence[Companion],
    left_behind: Counter[str],
) -> Generator[dict[str, Any], None, None]:
    """Returns a generator of the lines to write, which reads the project while it is used.

    Args:
        conn: Connection to the project file.
        ids: Ids of the conversations; None for all.
        companions: What is written beside the messages of conversations.
        left_behind: Gets the counts of what the form has no place for.
    """
    if arguments.form:
        return form_lines(conn, arguments.form, ids, left_behind, companions, truth=arguments.truth)
    if arguments.what == "table":
        return table_lines(conn, ids, truth=arguments.truth)
    return export_lines(conn, arguments.what, ids, companions)


def _has_own_kind_of_file(form: ConversationForm | None) -> bool:
    """Returns whether a form has a kind of file of its own, and is not written as JSON Lines."""
    return form is not None and ENDINGS[form] != "jsonl"


def _write_to_stdout(
    lines: Iterable[dict[str, Any]], arguments: argparse.Namespace, file_format: str, task: str
) -> None:
    """Writes the lines on standard output."""
    form, formulas = arguments.form, arguments.formulas
    if _has_own_kind_of_file(form):
        write_form_to_stream(lines, form, sys.stdout, task, formulas=formulas)
    else:
        write_lines(lines, sys.stdout, file_format, formulas=formulas)
    sys.stdout.flush()


def _companions(words: str | None) -> list[Companion]:
    """Returns the companions that are named by words with commas between them.

    Raises:
        UsageError: A word is not known.
    """
    names = [word.strip() for word in (words or "").split(",") if word.strip()]
    choices = get_args(Companion)
    if unknown := [name for name in names if name not in choices]:
        raise UsageError(
            f"--with does not know {unknown[0]!r}.", f"Choose of {', '.join(choices)}."
        )
    return [name for name in choices if name in names]


def _checked_format(arguments: argparse.Namespace, companions: Sequence[Companion]) -> str:
    """Returns the kind of file: one of `FORMATS`, or the form if it has a kind of file of its own.

    Raises:
        UsageError: Options do not go together.
    """
    what, form = arguments.what, arguments.form
    if arguments.filter and what in KINDS_WITHOUT_FILTER:
        raise UsageError(
            f"{what.capitalize()} concern all conversations, so --filter cannot be used.",
            "Export assignments with the filter instead.",
        )
    if arguments.question and form != "label-studio":
        raise UsageError("--question is for tasks for a person.", "Add --as label-studio.")
    if (form or companions) and what != "conversations":
        option = "--as" if form else "--with"
        raise UsageError(
            f"{option} is for conversations.", "Leave it out, or export conversations."
        )
    if arguments.truth and what != "table" and not form:
        raise UsageError(
            "--truth is for the table, and for conversations with --as.",
            "Leave it out: conversations in the uniform form have their truth.",
        )
    if _has_own_kind_of_file(form):
        if arguments.format:
            raise UsageError(
                f"The form {form} has a kind of file of its own.", "Leave --format out."
            )
        return str(form)
    ending = (arguments.output or "").rpartition(".")[2]
    file_format = arguments.format or (ending if ending in FORMATS else "jsonl")
    if file_format == "parquet" and (what != "table" or arguments.output is None):
        raise UsageError(
            "Parquet is for the table, in a file.",
            "Export the table with -o FILE, or conversations with --as parquet, or JSON Lines.",
        )
    return str(file_format)


def _check_output(path: Path, form: ConversationForm | None, *, force: bool) -> None:
    """Checks that the file of an export, and that of its settings if it has any, may be written.

    Raises:
        ProjectError: One of them is there already.
    """
    check_target(path, force=force)
    if form is not None and (settings := settings_file(form, path)):
        settings_path, _ = settings
        check_target(settings_path, force=force)


def _remarks(form: str | None, left_behind: Counter[str], redactor: Redactor | None) -> list[str]:
    """Returns sentences on what the form has no place for, and on what was replaced."""
    replaced = [] if redactor is None else [format_replaced(redactor.counts)]
    return [*losses_in_words(form or "", left_behind), *replaced]
