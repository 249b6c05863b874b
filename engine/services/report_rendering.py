"""Tables of results as text and as JSON; screens draw them with `screens.widgets.report_columns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.number_format import figure, figure_range
from engine.records.interval import Interval
from engine.records.report import Cell, CellKind, ReportColumn, ReportRow, ReportTable
from engine.text import one_line

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """How a column of figures is laid out in text.

    Attributes:
        width: Of the figure, which is aligned to the right.
        interval: Width of its 95% interval; 0: none is printed.
    """

    title: str
    width: int
    interval: int = 0


def format_cell(kind: CellKind, cell: Cell) -> str:
    """A cell as text, without the ends of its interval; a dash for None."""
    if cell is None:
        return UNKNOWN
    if isinstance(cell, Interval):
        return figure(cell.value)
    if isinstance(cell, str):
        return cell
    return {
        "count": lambda: f"{cell:,}",
        "number": lambda: f"{cell:.1f}",
        "percent": lambda: f"{100 * cell:.0f}%",
    }.get(kind, lambda: figure(cell))()


def shown_cells(table: ReportTable, row: ReportRow) -> list[str]:
    """The cells of a row as text."""
    return [
        format_cell(column.kind, cell)
        for column, cell in zip(table.columns, row.cells, strict=True)
    ]


def table_lines(
    table: ReportTable,
    layout: Sequence[TextColumn],
    *,
    name: str = "",
    width: int,
    indent: str = "",
    by_chance: bool = False,
) -> list[str]:
    """A table as lines of text: a head, a line for each row, and what guessing gives.

    Args:
        layout: Of the columns after the first.
        name, width: Title and width of the first column.
        by_chance: Whether to print what guessing gives.
    """
    head = f"{name:<{width}}" + "".join(
        f"{one.title:>{one.width}}" + (f"  {'95%':<{one.interval}}" if one.interval else "")
        for one in layout
    )
    rows = list(table.rows)
    if by_chance:
        rows.append(ReportRow(("by chance", *(one.chance for one in table.columns[1:]))))
    lines = [head]
    for row in rows:
        line = f"{one_line(row.name, width):<{width}}"
        for column, cell, one in zip(table.columns[1:], row.cells[1:], layout, strict=True):
            ends = figure_range(cell.low, cell.high) if isinstance(cell, Interval) else ""
            line += f"{format_cell(column.kind, cell):>{one.width}}"
            line += f"  {ends:<{one.interval}}" if one.interval else ""
        lines.append(line + row.note)
    return [(indent + line).rstrip() for line in lines]


def row_as_json(table: ReportTable, row: ReportRow) -> dict[str, Any]:
    """A row by the keys of its columns, intervals in `ci` as [low, high], and its details."""
    cells = dict(zip((one.key for one in table.columns), row.cells, strict=True))
    return {
        **{key: one.value if isinstance(one, Interval) else one for key, one in cells.items()},
        **row.details,
        "ci": {key: [one.low, one.high] for key, one in cells.items() if isinstance(one, Interval)},
    }


def tab_separated(table: ReportTable, rows: Sequence[ReportRow]) -> str:
    """A table with tabs, each figure with both ends of its interval where it has one; conclusions and notes below it.

    Args:
        rows: Those of the table, in the order that is wanted.
    """
    columns = [one for one in table.columns if one.on_screen]
    tested = table.metric is not None
    lines = ["\t".join([part for one in columns for part in _titles(one)] + ["p"] * tested)]
    for row in rows:
        cells = [
            part
            for one, cell in zip(table.columns, row.cells, strict=True)
            if one.on_screen
            for part in _parts(one, cell)
        ]
        lines.append("\t".join(cells + [_p(row)] * tested))
    sentences = (*table.conclusions, *(one for row in rows for one in row.conclusions))
    return "\n".join([*lines, *table.notes, *dict.fromkeys(sentences)])


def _titles(column: ReportColumn) -> list[str]:
    title = column.title
    return [title, f"{title} low", f"{title} high"] if column.kind == "interval" else [title]


def _parts(column: ReportColumn, cell: Cell) -> list[str]:
    if isinstance(cell, Interval):
        return [f"{one:.4f}" for one in (cell.value, cell.low, cell.high)]
    return [" ".join(format_cell(column.kind, cell).split())]


def _p(row: ReportRow) -> str:
    return "" if row.p is None else f"{row.p:.4f}"
