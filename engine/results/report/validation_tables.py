"""The metrics against truth in a report: Tables 2 and 3 of Soroka et al., the tables of validation and their curves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.base.errors import WorkbenchError
from engine.base.interval import Interval
from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.conversations.filters import Filter, parse_filter
from engine.results.report.document import Block, Paragraph, Plot, Table
from engine.results.report_rendering import format_cell
from engine.results.validation.records import ValidationProgress
from engine.results.validation.service import ValidationService

TABLE_2 = ("accuracy", "precision", "recall", "f1")
"""Keys of the columns of the paper's table."""
MOST_LINES = 4
"""Rows of a table whose curves are drawn, the best by the first interval."""


MOST_VALIDATED = 5_000
"""Conversations that are compared; of more, about so many at random. All of 100,000 take minutes and gigabytes, and
intervals are narrow enough with these."""


def validation_blocks(service: ValidationService, conversations: int) -> Iterator[Block]:
    """Every metric against the truth that came with the conversations, whose number is given; takes seconds."""
    wanted = Filter()
    if conversations > MOST_VALIDATED:
        wanted = parse_filter(f"draw<{MOST_VALIDATED / conversations:.4f}")
        yield Paragraph(
            f"Over about {MOST_VALIDATED:,} of the {conversations:,} conversations, drawn at random ({wanted})."
            " `workbench validate PROJECT` takes all."
        )
    try:
        found = service.report(ValidationProgress(), wanted)
    except WorkbenchError as error:
        yield Paragraph(error.message)
        return
    for table in found.tables:
        if set(TABLE_2) <= {column.key for column in table.columns}:
            yield _table_2(table)
        shown = [column for column in table.columns if column.on_screen]
        yield table_block(f"{table.metric}: {table.title}", table, shown)
        yield from _curves(table)
        for sentence in (*table.conclusions, *table.notes):
            yield Paragraph(sentence)
    if found.correlations is not None and found.correlations.rows:
        yield table_block(
            "Correlations of response trees with the length of conversations (Table 3 of Soroka et al.)",
            found.correlations,
            found.correlations.columns,
            ends=True,
        )
    for one in found.missing:
        yield Paragraph(f"Missing ({one.metric}): {one.what} {one.how}")


def _table_2(table: ReportTable) -> Table:
    columns = [table.columns[0], *(one for one in table.columns if one.key in TABLE_2)]
    order = {key: at for at, key in enumerate(TABLE_2)}
    columns[1:] = sorted(columns[1:], key=lambda one: order[one.key])
    return table_block(
        "Whole conversations against cut ones at the threshold .5, with 95% intervals (Table 2 of Soroka et al.)",
        table,
        columns,
        ends=True,
    )


def table_block(
    caption: str, table: ReportTable, columns: Sequence[ReportColumn], *, ends: bool = False
) -> Table:
    """Some columns of a table; `ends` adds the ends of intervals."""
    return Table(
        caption,
        tuple(column.title for column in columns),
        tuple(
            tuple(_cell(column, _of(row, table, column), ends) for column in columns)
            for row in table.rows
        ),
        frozenset(at for at, column in enumerate(columns) if column.kind != "text"),
    )


def _of(row: ReportRow, table: ReportTable, column: ReportColumn) -> Cell:
    return row.cells[table.columns.index(column)]


def _cell(column: ReportColumn, cell: Cell, ends: bool) -> str:
    text = format_cell(column.kind, cell)
    if not (ends and isinstance(cell, Interval)):
        return text
    low, high = (format_cell(column.kind, end) for end in (cell.low, cell.high))
    return f"{text} ({low} to {high})"


def _curves(table: ReportTable) -> Iterator[Block]:
    """The plots of a table with the curves of its best rows."""
    at = next((n for n, one in enumerate(table.columns) if one.has_intervals), 0)
    rows = [row for row in table.rows if len(row.curves) == len(table.plots)]
    rows = sorted(rows, key=lambda row: -_value(row.cells[at]))[:MOST_LINES]
    if not rows:
        return
    name = table.columns[at].title
    for nth, one in enumerate(table.plots):
        lines = tuple(
            (f"{row.name}, {name} {format_cell('interval', row.cells[at])}", row.curves[nth])
            for row in rows
        )
        told = "; ".join(label for label, _ in lines)
        yield Plot(
            f"{table.metric}: {table.title}, {one.title}",
            one.across,
            "share found" if one.title == "ROC" else one.title,
            f"Curves of {told}; guessing is the last line",
            (*lines, ("guessing", one.chance)),
            unit=True,
        )


def _value(cell: Cell) -> float:
    return cell.value if isinstance(cell, Interval) else float("-inf")
