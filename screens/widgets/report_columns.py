"""Tables of results as columns of a `RowTable`."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.number_format import ends, signed
from engine.base.report_table import UNKNOWN, Cell, ReportRow, ReportTable, format_cell
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from screens.widgets.row_table import Column, Piece

NO_COLUMNS: list[Column[ReportRow]] = [Column("name", "", 20, lambda row: [], flexible=True)]
"""Before there is a table."""
LONGEST_NAME = 60
"""Cells of a title or text; longer ones are cut."""
_LEAST_WIDTH, _MOST_WIDTH = 5, 30
"""Cells of a column without intervals: as many as its widest text needs."""
_INTERVAL_WIDTH, _SIGNED_WIDTH = 14, 19
"""Cells of a figure with its interval, without signs and with."""
_MOST_IMPORTANT = 100
"""`Column.keep` of the first column; each further one has one less."""


def report_columns(table: ReportTable) -> list[Column[ReportRow]]:
    """Returns the columns of a table: the name, which takes the width that is left, and the figures.

    In a narrow terminal the last columns go first.
    """
    return [_column(table, index) for index in range(len(table.columns))]


def _column(table: ReportTable, index: int) -> Column[ReportRow]:
    """Returns a column of the table, by its index; of a figure with an interval both are shown."""
    column = table.columns[index]
    title = one_line(column.title or table.title, LONGEST_NAME)
    keep = _MOST_IMPORTANT - index
    cells = [row.cells[index] for row in table.rows]
    if column.has_intervals:
        has_signs = any(isinstance(value, Interval) and value.low < 0 for value in cells)
        width = _SIGNED_WIDTH if has_signs else _INTERVAL_WIDTH
        return Column(str(index), title, width, lambda row: _interval(row.cells[index]), keep=keep)

    def cell(row: ReportRow) -> Sequence[Piece]:
        """Returns the text of the cell."""
        text = one_line(format_cell(column.kind, row.cells[index]), LONGEST_NAME)
        is_faint = text == UNKNOWN or index in row.faint
        return [(text, "tone--muted" if is_faint else "")]

    widest = max([len(title), *(len(format_cell(column.kind, value)) for value in cells)])
    width = min(max(widest, _LEAST_WIDTH), _MOST_WIDTH)
    return Column(
        str(index),
        title,
        width,
        cell,
        flexible=index == 0,
        right=column.kind != "text" and index > 0,
        keep=keep,
    )


def _interval(cell: Cell) -> Sequence[Piece]:
    """Returns a figure and the ends of its interval."""
    if not isinstance(cell, Interval):
        return [(UNKNOWN, "tone--muted")]
    return [(signed(cell.value), ""), (f" {ends(cell.low, cell.high)}", "tone--muted")]
