"""Tables of results as JSON, with tabs between the cells, and as blocks of a document.

The command line prints tables (`workbench.text_tables`), screens draw them (`screens.widgets.report_columns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.base.number_format import figure
from engine.base.report_table import Cell, CellKind, ReportColumn, ReportRow, ReportTable
from engine.base.statistics.intervals import Interval
from engine.results.document import Table

UNKNOWN = "–"


def format_cell(kind: CellKind, cell: Cell) -> str:
    """Returns a cell as text, without the ends of its interval; a dash for None."""
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
    """Returns a row by the keys of its columns, intervals in `ci` as [low, high], and its details."""
    cells = dict(zip((cell.key for cell in table.columns), row.cells, strict=True))
    return {
        **{key: cell.value if isinstance(cell, Interval) else cell for key, cell in cells.items()},
        **row.details,
        "ci": {
            key: [cell.low, cell.high] for key, cell in cells.items() if isinstance(cell, Interval)
        },
    }


def tab_separated(table: ReportTable, rows: Sequence[ReportRow]) -> str:
    """Returns the columns that screens show, with tabs, and p where it was tested; conclusions and notes below.

    A figure is followed by both ends of its interval where it has one.

    Args:
        rows: Those of the table, in the order that is wanted.
    """
    shown = [index for index, column in enumerate(table.columns) if column.on_screen]
    lines = [[title for index in shown for title in _titles(table.columns[index])]]
    lines += [
        [text for index in shown for text in _texts(table.columns[index], row.cells[index])]
        for row in rows
    ]
    if table.metric is not None:
        tested = ["p", *("" if row.p is None else f"{row.p:.4f}" for row in rows)]
        lines = [[*line, p] for line, p in zip(lines, tested, strict=True)]
    conclusions = (*table.conclusions, *(one for row in rows for one in row.conclusions))
    return "\n".join(
        ["\t".join(line) for line in lines] + [*table.notes, *dict.fromkeys(conclusions)]
    )


def _titles(column: ReportColumn) -> list[str]:
    title = column.title
    return [title, f"{title} low", f"{title} high"] if column.has_intervals else [title]


def _texts(column: ReportColumn, cell: Cell) -> list[str]:
    if isinstance(cell, Interval):
        return [f"{end:.4f}" for end in (cell.value, cell.low, cell.high)]
    return [" ".join(format_cell(column.kind, cell).split())]


def table_block(
    caption: str, table: ReportTable, columns: Sequence[ReportColumn], *, ends: bool = False
) -> Table:
    """Returns some columns of a table as a block of a document; `ends` adds the ends of intervals."""
    indices = [table.columns.index(column) for column in columns]

    def text(index: int, row: ReportRow) -> str:
        kind, cell = table.columns[index].kind, row.cells[index]
        value = format_cell(kind, cell)
        if not (ends and isinstance(cell, Interval)):
            return value
        return f"{value} ({format_cell(kind, cell.low)} to {format_cell(kind, cell.high)})"

    return Table(
        caption,
        tuple(column.title for column in columns),
        tuple(tuple(text(index, row) for index in indices) for row in table.rows),
        frozenset(n for n, column in enumerate(columns) if column.kind != "text"),
    )
