"""Makes lines of text out of tables of results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from engine.base.number_format import figure_range
from engine.base.report_table import (
    Cell,
    CellKind,
    ReportColumn,
    ReportRow,
    ReportTable,
    format_cell,
)
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line

UNKNOWN_FIGURE = "-"
"""Printed for a figure that is unknown."""


def table_lines(
    table: ReportTable,
    *,
    max_name_length: int = 200,
    indent: str = "",
    with_chance_row: bool = False,
) -> list[str]:
    """Returns a table as lines of text: the titles of its columns, then a line for each row with its note.

    Text is aligned to the left, figures to the right. Widths are counted in cells of the terminal. Both ends of an
    interval follow its figure in a column of their own.

    Args:
        table: The table; its title and its own notes are not printed.
        max_name_length: Most characters that are printed of the name of a row, which is its first cell.
        indent: Spaces before each line.
        with_chance_row: Whether a last line says what guessing gives in each column.
    """
    rows = list(table.rows)
    if with_chance_row:
        rows.append(ReportRow(("by chance", *(column.chance for column in table.columns[1:]))))
    text_columns: list[list[str]] = []
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in rows]
        texts = [
            UNKNOWN_FIGURE if cell is None else format_cell(column.kind, cell) for cell in cells
        ]
        if index == 0:
            texts = [one_line(name, max_name_length) for name in texts]
        text_columns.append(_aligned([column.text_title or column.title, *texts], column))
        if column.has_intervals and column.ends_in_text:
            text_columns.append(_aligned(["95%", *map(_interval_text, cells)], column))
    notes = ["", *(row.note for row in rows)]  # The line of titles has no note.
    return [
        f"{indent}{'  '.join(texts)}".rstrip() for texts in zip(*text_columns, notes, strict=True)
    ]


def fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Returns facts, as names and texts, a line each."""
    return [f"{name:<17}  {text}" for name, text in facts]


def cell_lines(
    columns: Sequence[tuple[str, CellKind]], rows: Iterable[Sequence[Cell]]
) -> list[str]:
    """Returns the rows of cells as lines of text, for a table that the command line prints and no screen or file shows.

    Args:
        columns: The title of each column, and the kind of its cells.
        rows: The cells of each row, one for each column.
    """
    report_columns = tuple(ReportColumn(title, kind) for title, kind in columns)
    report_rows = tuple(ReportRow(tuple(row)) for row in rows)
    return table_lines(ReportTable("", report_columns, report_rows))


def _interval_text(cell: Cell) -> str:
    """Returns both ends of an interval; `UNKNOWN_FIGURE` for None, and nothing for a cell without an interval."""
    if isinstance(cell, Interval):
        return figure_range(cell.low, cell.high)
    return UNKNOWN_FIGURE if cell is None else ""


def _aligned(texts: Sequence[str], column: ReportColumn) -> list[str]:
    """Returns the texts of a column padded to the same width: words to the left, figures to the right."""
    width = max(map(cell_len, texts))
    pads = [" " * (width - cell_len(text)) for text in texts]
    if column.kind == "text":
        return [text + pad for text, pad in zip(texts, pads, strict=True)]
    return [pad + text for text, pad in zip(texts, pads, strict=True)]
