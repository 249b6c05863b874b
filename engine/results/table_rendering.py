"""Cells of tables of results as text, and the tables as JSON and with tabs.

`workbench.text_tables` prints tables, `screens.widgets.report_columns` draws them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base.interval import Interval
from engine.base.number_format import figure
from engine.base.report_table import Cell, CellKind, ReportColumn, ReportRow, ReportTable
from engine.results.document import Table

UNKNOWN = "–"


def format_cell(kind: CellKind, cell: Cell) -> str:
    """A cell as text, without the ends of its interval; a dash for None."""
    if cell is None:
        return UNKNOWN
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Interval):
        return format_cell(kind, cell.value)
    return {
        "count": lambda: f"{cell:,}",
        "number": lambda: f"{cell:.1f}",
        "mean": lambda: f"{cell:.4f}",
        "percent": lambda: f"{100 * cell:.0f}%",
        "difference": lambda: f"{'+' if cell >= 0 else ''}{figure(cell)}",
    }.get(kind, lambda: figure(cell))()


def row_as_json(table: ReportTable, row: ReportRow) -> dict[str, Any]:
    """A row by the keys of its columns, intervals in `ci` as [low, high], and its details."""
    cells = dict(zip((cell.key for cell in table.columns), row.cells, strict=True))
    return {
        **{key: cell.value if isinstance(cell, Interval) else cell for key, cell in cells.items()},
        **row.details,
        "ci": {
            key: [cell.low, cell.high] for key, cell in cells.items() if isinstance(cell, Interval)
        },
    }


def tab_separated(table: ReportTable, rows: Sequence[ReportRow]) -> str:
    """The columns that screens show, with tabs, and p where it was tested; conclusions and notes below.

    Args:
        rows: Those of the table, in the order that is wanted.
    """
    lines = tabbed_lines(table, rows, [column for column in table.columns if column.on_screen])
    if table.metric is not None:
        tested = ["p", *("" if row.p is None else f"{row.p:.4f}" for row in rows)]
        lines = [f"{line}\t{p}" for line, p in zip(lines, tested, strict=True)]
    sentences = (*table.conclusions, *(column for row in rows for column in row.conclusions))
    return "\n".join([*lines, *table.notes, *dict.fromkeys(sentences)])


def tabbed_lines(
    table: ReportTable, rows: Sequence[ReportRow], columns: Sequence[ReportColumn]
) -> list[str]:
    """A head and the rows with tabs between the cells; figures with both ends of their interval where they have one.

    Args:
        columns: Those of the table that are wanted.
    """
    lines = ["\t".join(part for column in columns for part in _titles(column))]
    for row in rows:
        cells = zip(table.columns, row.cells, strict=True)
        lines.append(
            "\t".join(
                part for column, cell in cells if column in columns for part in _parts(column, cell)
            )
        )
    return lines


def _titles(column: ReportColumn) -> list[str]:
    title = column.title
    return [title, f"{title} low", f"{title} high"] if column.has_intervals else [title]


def _parts(column: ReportColumn, cell: Cell) -> list[str]:
    if isinstance(cell, Interval):
        return [f"{end:.4f}" for end in (cell.value, cell.low, cell.high)]
    return [" ".join(format_cell(column.kind, cell).split())]


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
        frozenset(index for index, column in enumerate(columns) if column.kind != "text"),
    )


def _of(row: ReportRow, table: ReportTable, column: ReportColumn) -> Cell:
    return row.cells[table.columns.index(column)]


def _cell(column: ReportColumn, cell: Cell, ends: bool) -> str:
    text = format_cell(column.kind, cell)
    if not (ends and isinstance(cell, Interval)):
        return text
    low, high = (format_cell(column.kind, end) for end in (cell.low, cell.high))
    return f"{text} ({low} to {high})"
