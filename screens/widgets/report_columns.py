"""Tables of results as columns of a `RowTable`."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.number_format import ends, signed
from engine.base.report_table import UNKNOWN, Cell, ReportRow, ReportTable, format_cell
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from screens.widgets.row_table import Column, Piece

LEVEL = 0.05
"""A corrected p below it rules out chance; see `engine.base.statistics.ranking`."""
NO_COLUMNS: list[Column[ReportRow]] = [Column("name", "", 20, lambda row: [], flexible=True)]
"""Before there is a table."""
LONGEST_NAME = 60
"""Cells of a title or text; longer ones are cut."""
_NAME_WIDTH = 20
"""Cells of a column without intervals in a table of a metric: the name."""
_LEAST_WIDTH, _MOST_WIDTH = 5, 30
"""Cells of a column without intervals in other tables: as many as its widest text needs."""
_INTERVAL_WIDTH, _SIGNED_WIDTH = 14, 19
"""Cells of a figure with its interval, without signs and with."""
_CHANCE_WIDTH = 7
"""Cells of the column about chance."""
_MOST_IMPORTANT = 100
"""`Column.keep` of the first column; each further one has one less."""


def report_columns(table: ReportTable) -> list[Column[ReportRow]]:
    """Returns the columns of a table: the name, which takes the width that is left, the figures, and what p says of
    chance.

    In a narrow terminal the last columns go first.
    """
    shown = [index for index, column in enumerate(table.columns) if column.on_screen]
    columns = [_column(table, index, place) for place, index in enumerate(shown)]
    if any(row.p_value is not None for row in table.rows):
        columns.append(
            Column("chance", "chance?", _CHANCE_WIDTH, _chance, keep=_MOST_IMPORTANT - 2)
        )
    return columns


def _column(table: ReportTable, index: int, place: int) -> Column[ReportRow]:
    """Returns a column of the table; of a figure with an interval both are shown.

    Args:
        index: Of the column in the table.
        place: Of the column among those that are shown, from 0.
    """
    column = table.columns[index]
    title = one_line(column.title or table.title, LONGEST_NAME)
    keep = _MOST_IMPORTANT - place
    cells = [row.cells[index] for row in table.rows]
    if column.has_intervals:
        has_signs = any(isinstance(value, Interval) and value.low < 0 for value in cells)
        width = _SIGNED_WIDTH if has_signs else _INTERVAL_WIDTH
        return Column(str(index), title, width, lambda row: _interval(row.cells[index]), keep=keep)

    def cell(row: ReportRow) -> Sequence[Piece]:
        """Returns the text of the cell, in the first column of a metric after the sign of the row."""
        text = one_line(format_cell(column.kind, row.cells[index]), LONGEST_NAME)
        is_faint = text == UNKNOWN or index in row.faint
        piece = (text, "tone--muted" if is_faint else "")
        return [_mark(row), piece] if table.metric is not None and index == 0 else [piece]

    widest = max([len(title), *(len(format_cell(column.kind, value)) for value in cells)])
    width = min(max(widest, _LEAST_WIDTH), _MOST_WIDTH) if table.metric is None else _NAME_WIDTH
    return Column(
        str(index),
        title,
        width,
        cell,
        flexible=index == 0,
        right=column.kind != "text" and index > 0,
        keep=keep,
    )


def _mark(row: ReportRow) -> Piece:
    """Returns the sign of a row: a baseline, or what is compared."""
    return ("○ ", "tone--muted") if row.kind == "baseline" else ("● ", "tone--accent")


def _interval(cell: Cell) -> Sequence[Piece]:
    """Returns a figure and the ends of its interval."""
    if not isinstance(cell, Interval):
        return [(UNKNOWN, "tone--muted")]
    return [(signed(cell.value), ""), (f" {ends(cell.low, cell.high)}", "tone--muted")]


def _chance(row: ReportRow) -> Sequence[Piece]:
    """Returns whether the first figure of a row is above or below chance."""
    if row.p_value is None:
        return [("", "")]
    if row.p_value >= LEVEL:
        return [("no", "tone--muted")]
    above = first_figure(row) > 0.5
    return [("above", "tone--complete")] if above else [("below", "tone--incomplete")]


def first_figure(row: ReportRow) -> float:
    """Returns the figure that rows are compared by: the first one with an interval."""
    return next(cell.value for cell in row.cells if isinstance(cell, Interval))
