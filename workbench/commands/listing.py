"""`workbench status` and `workbench list`: the counts, runs and conversations of a project."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from rich.cells import cell_len, set_cell_size

from engine.base.errors import UsageError
from engine.base.number_format import counted, probability, trouble
from engine.base.text import as_json, one_line
from engine.conversations.filter_fields import (
    ANY_VALUE,
    COUNTABLE_FIELDS,
    FIELDS,
    FIELDS_WITH_KEYS,
    QUESTION_FIELD,
    SortKey,
)
from engine.conversations.filters import Filter, ListQuery, Term, is_question
from engine.conversations.records import QuarantineRow
from engine.opener.conversations import ConversationRow, ConversationService
from engine.opener.open_project import OpenProject
from engine.project.project import Project
from engine.project.records import RunRow
from workbench import text_tables
from workbench.arguments import FILTER, PROJECT, argument, number, switch, takes
from workbench.command_result import EXIT_DONE, CommandResult
from workbench.narration import narrate, print_text

ROWS_PER_BATCH = 500
"""Number of rows that are read at a time; the widths of the columns are those of the first batch."""

MAX_QUARANTINE_ROWS = 20
"""Most records that could not be imported which `status` lists."""


class ListColumn(NamedTuple):
    """A column of the list; `align` is that of `str.format`, and `text` returns the text of a row."""

    title: str
    align: Literal["<", ">"]
    text: Callable[[ConversationRow], str]

    def padded(self, text: str, width: int) -> str:
        """Returns a text with spaces, so that it takes `width` cells of the terminal."""
        spaces = " " * (width - cell_len(text))
        return spaces + text if self.align == ">" else text + spaces


LIST_COLUMNS = (
    ListColumn("state", "<", lambda row: row.state.word),
    ListColumn("p", ">", lambda row: probability(row.p_end_normalised)),
    ListColumn("success", ">", lambda row: probability(row.success)),
    ListColumn("trouble", ">", lambda row: trouble(row.trouble)),
    ListColumn("turns", ">", lambda row: f"{row.turns}"),
    ListColumn("messages", ">", lambda row: f"{row.messages}"),
    ListColumn("length", ">", lambda row: f"{row.chars}"),
    ListColumn("date", "<", lambda row: one_line((row.created_at or "–")[:10])),
    ListColumn("succeeded", "<", lambda row: str(row.verdict or "–")),
    ListColumn("tags", "<", lambda row: one_line(",".join(row.tags)) or "–"),
    ListColumn("signs", "<", lambda row: ",".join(reading.sign for reading in row.signs) or "–"),
    ListColumn("source", "<", lambda row: one_line(row.source)),
    ListColumn("name", "<", lambda row: one_line(row.external_id)),
    ListColumn("opening", "<", lambda row: one_line(row.opening, 100)),
)
"""The columns of the list, from left to right."""

LEAVABLE_COLUMNS = (
    "source", "length", "messages", "signs", "tags", "turns", "succeeded", "date", "trouble", "p"
)  # fmt: skip
"""Columns that a terminal without room leaves out: first those that have only dashes, then the others in this order."""

MIN_OPENING = 20
"""Fewest cells of the terminal for the opening; while there is less room, further columns are left out."""


@takes(PROJECT, FILTER)
def status(arguments: argparse.Namespace) -> CommandResult:
    """Gives the counts of a project, or of the conversations that match a filter, and its runs."""
    filter: Filter = arguments.filter
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        conversations = workspace.conversations
        counts, rule = conversations.counts(ListQuery(filter)), conversations.rule()
        runs = _with_interrupted(workspace.jobs.history(), workspace.project)
        quarantined = conversations.quarantined(MAX_QUARANTINE_ROWS)
        sets, shared = workspace.score_sets.all(), conversations.shared_text()
        sources, verdicts = conversations.sources(), workspace.triage.tally()
    lines = [text_tables.headline(counts, rule), *text_tables.set_lines(sets)]
    lines += [
        f"  shared: {block.conversations:,} of {shared.looked_at:,}, {block.role}: {one_line(block.text, 100)}"
        for block in shared.shown
    ]
    lines += quarantine_lines(quarantined, counts.quarantined)
    lines += [
        f"  run {run.id} {run.stage} {run.state} {run.started_at[:16]} {one_line(run.message or '')}"
        for run in runs
    ]
    document = {
        "project": str(workspace.project.path),
        "filter": str(filter) or None,
        **text_tables.counts_json(counts, rule),
        **text_tables.sets_json(sets),
        "sources": sources,
        "shared_text": [
            {
                "role": block.role, "conversations": block.conversations,
                "of": shared.looked_at, "text": block.text,
            }
            for block in shared.shown
        ],
        "verdicts": {str(verdict): count for verdict, count in verdicts.items()},
        "runs": [{name: getattr(run, name) for name in RUN_JSON_FIELDS} for run in runs],
        "quarantine": [
            {"source": row.source, "line": row.line, "reason": row.reason} for row in quarantined
        ],
    }  # fmt: skip
    return CommandResult(lines, document)


def quarantine_lines(rows: Sequence[QuarantineRow], count: int) -> list[str]:
    """Returns lines on records that could not be imported.

    Those of one file and one reason are on one line.

    Args:
        rows: The first of the records.
        count: Number of all such records; a last line says how many are not among `rows`.
    """
    rows_by_fault: dict[tuple[str, str], list[QuarantineRow]] = {}
    for row in rows:
        rows_by_fault.setdefault((row.source, row.reason), []).append(row)
    lines = []
    for (source, reason), (first, *others) in rows_by_fault.items():
        where = f"{one_line(source)}:{first.line or ''}"
        more = f" and {counted(len(others), 'record')} after it" if others else ""
        lines.append(f"  quarantined: {where}{more}: {one_line(reason)}")
    if count > len(rows):
        lines.append(f"  quarantined: {count - len(rows):,} more, in `Q` on the overview")
    return lines


RUN_JSON_FIELDS = (
    "id", "stage", "state", "config_hash", "started_at", "finished_at", "done", "total", "message"
)  # fmt: skip


def _with_interrupted(runs: list[RunRow], project: Project) -> list[RunRow]:
    """Returns the runs; one that is stored as running was interrupted if no process writes the project."""
    if not any(run.state == "running" for run in runs) or project.is_written():
        return runs
    return [replace(run, state="interrupted") if run.state == "running" else run for run in runs]


@takes(
    PROJECT,
    FILTER,
    argument(
        "--sort",
        choices=get_args(SortKey),
        default="id",
        help="what to sort by, where id is the order of import",
    ),
    switch("--reverse", "reverse the order"),
    number("--limit", "only the first N"),
    argument(
        "--by",
        metavar="FIELD",
        help="count by the values of a field instead: goal, model, tool, month, week, meta.channel, ...",
    ),
)
def list_conversations(arguments: argparse.Namespace) -> int:
    """Lists conversations as an aligned table or as JSON Lines, on standard output, as they are read."""
    query = ListQuery(arguments.filter, arguments.sort, arguments.reverse)
    if arguments.by and (query.descending or query.sort != "id"):
        raise UsageError("--by has an order of its own.", "Leave out --sort and --reverse.")
    with OpenProject(Path(arguments.project), read_only=True) as workspace:
        if arguments.by is not None:
            _print_counts(
                workspace, query.filter, arguments.by, arguments.limit, json=arguments.json
            )
        else:
            ids = workspace.conversations.ids(query)[: arguments.limit]
            batches = _row_batches(workspace.conversations, ids)
            if arguments.json:
                for row in chain.from_iterable(batches):
                    print(as_json(_row_json(row)))
            else:
                _print_table(batches)
        sys.stdout.flush()
        text_tables.narrate_set(workspace.score_sets)
    return EXIT_DONE


def _print_counts(
    workspace: OpenProject, filter: Filter, field: str, limit: int | None, *, json: bool
) -> None:
    """Prints the values of a field with the number of conversations that match a filter.

    The most frequent come first, but months in their order, and of weeks the latest.

    Raises:
        UsageError: Conversations cannot be counted by the field.
        WorkbenchError: No conversation has this field of metadata or truth.
    """
    title = field
    if field in ("month", "week"):  # names in `compare --by`
        field = "date"
    if is_question(field):
        field = f"{QUESTION_FIELD}.{field}"
    if field not in COUNTABLE_FIELDS:
        if field.partition(".")[0] not in FIELDS_WITH_KEYS or not field.partition(".")[2]:
            raise UsageError(
                f"Conversations cannot be counted by “{field}”.",
                f"Fields: {', '.join(COUNTABLE_FIELDS)}, meta.KEY, truth.KEY, the names of questions.",
            )
        # raises where no conversation has this field
        workspace.conversations.ids(ListQuery(Filter((Term(field, ":", (ANY_VALUE,)),))))
    values: Sequence[tuple[str, int | None]]
    if title == "week":
        values = sorted(workspace.comparison.sizes(title, filter).items(), reverse=True)[:limit]
    else:
        values = workspace.conversations.values(field, filter)[:limit]
    if json:
        for value, count in values:
            print(as_json({title: value, "conversations": count}))
    else:
        write_value = FIELDS[field.partition(".")[0]].written
        rows = [(write_value(value), count or 0) for value, count in values]
        print_text(
            "\n".join(text_tables.cell_lines([(title, "text"), ("conversations", "count")], rows))
        )
        matching_filter = f" that match {filter}" if filter else ""
        total = len(workspace.conversations.ids(ListQuery(filter)))
        narrate(f"Of {counted(total, 'conversation')}{matching_filter}.")


def _row_batches(
    conversations: ConversationService, ids: Sequence[int]
) -> Iterator[list[ConversationRow]]:
    """Yields the rows of conversations in batches."""
    for start in range(0, len(ids), ROWS_PER_BATCH):
        yield conversations.rows(ids[start : start + ROWS_PER_BATCH])


def _print_table(batches: Iterator[list[ConversationRow]]) -> None:
    """Prints the rows as a table, with the widths of the first batch, so that no row waits for the last one.

    On a terminal no line is wider than the terminal: columns without room are left out, and named below the table.
    """
    first_batch = next(batches, [])
    # most projects have no probe of success, so the column would have only dashes
    without_success = all(row.success is None for row in first_batch)
    columns = [
        column for column in LIST_COLUMNS if column.title != "success" or not without_success
    ]
    texts = {column.title: set(map(column.text, first_batch)) for column in columns}
    widths = {title: max(map(cell_len, (title, *texts[title]))) for title in texts}
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    needed = dict(widths, opening=min(widths["opening"], MIN_OPENING))
    left_out: list[str] = []
    for title in sorted(LEAVABLE_COLUMNS, key=lambda title: texts[title] != {"–"}):
        if sum(width + 2 for width in needed.values()) - 2 > room:
            left_out.append(title)
            del needed[title]
    columns = [column for column in columns if column.title not in left_out]
    rows = chain(first_batch, chain.from_iterable(batches))
    row_texts = ([column.text(row) for column in columns] for row in rows)
    for line_texts in chain([[column.title for column in columns]], row_texts):
        cells = (
            column.padded(text, widths[column.title])
            for column, text in zip(columns, line_texts, strict=True)
        )
        line = "  ".join(cells).rstrip()
        print(line if cell_len(line) <= room else f"{set_cell_size(line, room - 1)}…")
    if left_out:
        narrate(f"Not shown for want of room (`| cat` shows all): {', '.join(left_out)}.")


def _row_json(row: ConversationRow) -> dict[str, Any]:
    """Returns a row as JSON values."""
    return {
        "id": row.external_id,
        "source": row.source,
        "state": str(row.state),
        "p_end": row.p_end,
        "p_end_normalised": row.p_end_normalised,
        "p_succeeded": row.success,
        "reason": row.reason,
        "trouble": row.trouble,
        "signs": [
            {"sign": reading.sign, "messages": list(reading.messages), "reason": reading.reason}
            for reading in row.signs
        ],
        "turns": row.turns,
        "messages": row.messages,
        "length": row.chars,
        "created_at": row.created_at,
        "succeeded": None if row.verdict is None else str(row.verdict),
        "tags": list(row.tags),
        "opening": row.opening,
    }
