"""Prints tables of results as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from engine.base.interval import Interval
from engine.base.number_format import figure_range
from engine.base.report_table import Cell, CellKind, ReportColumn, ReportRow, ReportTable
from engine.base.text import one_line
from engine.results.table_rendering import format_cell

NOTHING = "-"
"""Printed for a figure that is unknown."""


def table_lines(
    table: ReportTable, *, longest: int = 200, indent: str = "", by_chance: bool = False
) -> list[str]:
    """A table as lines: a head, a line for each row with its note, and what guessing gives.

    Text is aligned to the left, figures to the right, in cells of the terminal. Both ends of an interval follow its
    figure.

    Args:
        longest: Most characters of the name of a row.
        by_chance: Whether to print what guessing gives.
    """
    rows = list(table.rows)
    if by_chance:
        rows.append(ReportRow(("by chance", *(one.chance for one in table.columns[1:]))))
    columns: list[list[str]] = []
    for nth, column in enumerate(table.columns):
        cells = [row.cells[nth] for row in rows]
        texts = [NOTHING if one is None else format_cell(column.kind, one) for one in cells]
        if nth == 0:
            texts = [one_line(one, longest) for one in texts]
        columns.append(_aligned([column.text_title or column.title, *texts], column))
        if column.has_intervals and column.text_ends:
            columns.append(_aligned(["95%", *map(_ends, cells)], column))
    notes = ["", *(row.note for row in rows)]
    return [f"{indent}{'  '.join(line)}".rstrip() for line in zip(*columns, notes, strict=True)]


def cell_lines(
    columns: Sequence[tuple[str, CellKind]], rows: Iterable[Sequence[Cell]]
) -> list[str]:
    """Rows of cells as lines, under these titles: a table that only text has."""
    heads = tuple(ReportColumn(title, kind) for title, kind in columns)
    return table_lines(ReportTable("", heads, tuple(ReportRow(tuple(row)) for row in rows)))


def _ends(cell: Cell) -> str:
    if isinstance(cell, Interval):
        return figure_range(cell.low, cell.high)
    return NOTHING if cell is None else ""


def _aligned(texts: Sequence[str], column: ReportColumn) -> list[str]:
    width = max(map(cell_len, texts))
    pads = [" " * (width - cell_len(text)) for text in texts]
    if column.kind == "text":
        return [text + pad for text, pad in zip(texts, pads, strict=True)]
    return [pad + text for text, pad in zip(texts, pads, strict=True)]
