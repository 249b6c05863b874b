"""Tables of results as columns of a `RowTable`."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.number_format import ends, signed
from engine.base.report_table import (
    UNKNOWN,
    Cell,
    ReportColumn,
    ReportRow,
    ReportTable,
    format_cell,
)
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from screens.widgets.row_table import Column, Piece

LEVEL = 0.05
"""A corrected p below it rules out chance; see `engine.base.statistics.ranking`."""
NO_COLUMNS: list[Column[ReportRow]] = [Column("name", "", 20, lambda row: [], flexible=True)]
"""Before there is a table."""
LONGEST_NAME = 60
_NAME_WIDTH = 20
_LEAST_WIDTH, _MOST_WIDTH = 5, 30
_INTERVAL_WIDTH, _SIGNED_WIDTH = 14, 19
"""Of a figure with its interval, without signs and with."""
_MOST_IMPORTANT = 100


def report_columns(table: ReportTable) -> list[Column[ReportRow]]:
    """Returns the columns of a table: the name, which takes the width that is left, the figures, and what p says of
    chance.

    In a narrow terminal the last columns go first.
    """
    shown = [(nth, column) for nth, column in enumerate(table.columns) if column.on_screen]
    columns = [_column(table, nth, column, place) for place, (nth, column) in enumerate(shown)]
    if any(row.p_value is not None for row in table.rows):
        columns.append(Column("chance", "chance?", 7, _chance, keep=_MOST_IMPORTANT - 2))
    return columns


def _column(table: ReportTable, nth: int, column: ReportColumn, place: int) -> Column[ReportRow]:
    """Returns a column of the table; of a figure with an interval both are shown."""
    title = one_line(column.title or table.title, LONGEST_NAME)
    keep = _MOST_IMPORTANT - place
    cells = [row.cells[nth] for row in table.rows]
    if column.has_intervals:
        signed = any(isinstance(value, Interval) and value.low < 0 for value in cells)
        width = _SIGNED_WIDTH if signed else _INTERVAL_WIDTH
        return Column(str(nth), title, width, lambda row: _interval(row.cells[nth]), keep=keep)

    def cell(row: ReportRow) -> Sequence[Piece]:
        text = one_line(format_cell(column.kind, row.cells[nth]), LONGEST_NAME)
        piece = (text, "tone--muted" if text == UNKNOWN else "")
        return [_mark(row), piece] if table.metric is not None and nth == 0 else [piece]

    widest = max([len(title), *(len(format_cell(column.kind, value)) for value in cells)])
    width = min(max(widest, _LEAST_WIDTH), _MOST_WIDTH) if table.metric is None else _NAME_WIDTH
    return Column(str(nth), title, width, cell, nth == 0, column.kind != "text" and nth > 0, keep)


def _mark(row: ReportRow) -> Piece:
    """Returns the sign of a row: a baseline, or what is compared."""
    return ("○ ", "tone--muted") if row.kind == "baseline" else ("● ", "tone--accent")


def _interval(cell: Cell) -> Sequence[Piece]:
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
