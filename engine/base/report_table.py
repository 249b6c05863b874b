"""Tables of results, the text of their cells, and their rows as JSON and as lines with tabs.

The command line prints tables (`workbench.text_tables`), screens draw them (`screens.comparison`), and
documents contain them (`engine.results.document`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.base.number_format import figure, with_minus
from engine.base.statistics.intervals import Interval

UNKNOWN = "–"
"""Shown in place of a value that is unknown."""

CellKind = Literal["text", "count", "number", "mean", "share", "percent", "interval", "difference"]
"""The format of a cell.

Examples: count `1,204`, number `31.0`, mean `3.2857`, share `.63`, percent `63%`; with its 95% interval, interval `.63`
and difference `+.12`.
"""

Cell = str | int | float | Interval | None
"""An unformatted value; None if unknown."""


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column of a table.

    Attributes:
        title: Stands above the column.
        kind: The format of the cells.
        key: Name of the column in JSON.
        chance: The value that guessing gives; None if unknown.
        text_title: Title in tables that are rendered as text; empty for `title`.
        ends_in_text: Whether tables in text show the ends of intervals; screens and JSON always do.
    """

    title: str
    kind: CellKind
    key: str = ""
    chance: float | None = None
    text_title: str = ""
    ends_in_text: bool = True

    @property
    def has_intervals(self) -> bool:
        """Whether the cells are figures with an interval."""
        return self.kind in ("interval", "difference")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row of a table.

    Attributes:
        cells: One for each column; the first of them is the name of the row.
        note: A remark that is needed to read the row, a few words.
        details: Further values for JSON, by name.
        faint: Indices of the cells whose figures are of so few conversations that they are drawn faint.
    """

    cells: tuple[Cell, ...]
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    faint: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportTable:
    """One table of results.

    Attributes:
        title: The subject of the table, or what the rows are compared with, e.g. `reward 0`.
        columns: The columns. The first one names the rows; rows are compared by the first column of intervals.
        rows: The rows, in the order in which they are shown.
        notes: Remarks that are needed to read the table, a sentence each.
        conclusions: Conclusions about all rows, a sentence each.
    """

    title: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[ReportRow, ...]
    notes: tuple[str, ...] = ()
    conclusions: tuple[str, ...] = ()


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
        "number": lambda: with_minus(f"{cell:.1f}"),
        "mean": lambda: with_minus(f"{cell:.4f}"),
        "percent": lambda: f"{100 * cell:.0f}%",
        "difference": lambda: f"{'+' if cell >= 0 else ''}{figure(cell)}",
    }.get(kind, lambda: figure(cell))()


def row_as_json(table: ReportTable, row: ReportRow) -> dict[str, Any]:
    """Returns a row by the keys of its columns, intervals in `ci` as [low, high], and its details."""
    cells = dict(zip((column.key for column in table.columns), row.cells, strict=True))
    return {
        **{key: cell.value if isinstance(cell, Interval) else cell for key, cell in cells.items()},
        **row.details,
        "ci": {
            key: [cell.low, cell.high] for key, cell in cells.items() if isinstance(cell, Interval)
        },
    }


def tab_separated(table: ReportTable, rows: Sequence[ReportRow]) -> str:
    """Returns the columns of a table, with tabs, and its notes below.

    A figure is followed by both ends of its interval where it has one.

    Args:
        rows: The rows of the table, in the order in which they are written.
    """
    lines = [[title for column in table.columns for title in _titles(column)]]
    lines += [
        [
            text
            for column, cell in zip(table.columns, row.cells, strict=True)
            for text in _texts(column, cell)
        ]
        for row in rows
    ]
    return "\n".join(["\t".join(line) for line in lines] + [*table.notes])


def _titles(column: ReportColumn) -> list[str]:
    """Returns the title of a column, and of the columns for both ends of its intervals if it has any."""
    title = column.title
    return [title, f"{title} low", f"{title} high"] if column.has_intervals else [title]


def _texts(column: ReportColumn, cell: Cell) -> list[str]:
    """Returns the text of a cell, and of both ends of its interval if it has one."""
    if isinstance(cell, Interval):
        return [f"{end:.4f}" for end in (cell.value, cell.low, cell.high)]
    return [" ".join(format_cell(column.kind, cell).split())]


def text_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[tuple[str, ...]],
    figures: Collection[int] = (),
    faint: Collection[tuple[int, int]] = (),
) -> ReportTable:
    """Returns a table of texts, such as a document has.

    Args:
        figures: Indices of the columns that are aligned right.
        faint: Row and column of the cells that are drawn faint, as in `ReportRow`.
    """
    return ReportTable(
        title,
        tuple(
            ReportColumn(name, "number" if index in figures else "text")
            for index, name in enumerate(columns)
        ),
        tuple(
            ReportRow(cells, faint=tuple(column for row, column in faint if row == index))
            for index, cells in enumerate(rows)
        ),
    )
