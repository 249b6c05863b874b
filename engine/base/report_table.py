"""Tables of results, which are rendered as text, as JSON and on screens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.base.statistics.intervals import Curve, Interval

CellKind = Literal["text", "count", "number", "mean", "share", "percent", "interval", "difference"]
"""The format of a cell: text, `1,204`, `31.0`, `3.2857`, `.63`, `63%`, and `.63` or `+.12` with its 95% interval."""

Cell = str | int | float | Interval | None
"""An unformatted value; None if unknown."""

Metric = Literal["goals", "completeness", "verdicts", "trees"]
"""What a table of results validates."""

RowKind = Literal["measure", "baseline", "method"]
"""A `measure` of response trees, a `baseline` that measures are compared with, or one of several equal `method`s."""


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column of a table.

    Attributes:
        title: What stands above it.
        kind: The format of its cells.
        key: Its name in JSON.
        means: Describes its cells, in one sentence.
        chance: The value that guessing gives; None if unknown.
        on_screen: Whether screens show it; text and JSON always do.
        text_title: Its title in tables that are rendered as text; empty for `title`.
        text_ends: Whether tables in text show the ends of its intervals; screens and JSON always do.
    """

    title: str
    kind: CellKind
    key: str = ""
    means: str = ""
    chance: float | None = None
    on_screen: bool = True
    text_title: str = ""
    text_ends: bool = True

    @property
    def has_intervals(self) -> bool:
        """Whether its cells are figures with an interval."""
        return self.kind in ("interval", "difference")


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row of a table.

    Attributes:
        cells: One for each column; the first of them is the name of the row.
        kind: What the row is in a comparison.
        means: Describes the row, in a few words.
        note: A remark that is needed to read it, a few words.
        conclusions: Conclusions about this row, a sentence each.
        p: p-value of the hypothesis that the row is no better than chance, corrected for all rows; None if not tested.
        curves: The curves of the row, one for each plot of the table.
        plays: Ids of the simulated conversations (plays) that are counted in the row.
        details: Further values for JSON, by name.
    """

    cells: tuple[Cell, ...]
    kind: RowKind = "method"
    means: str = ""
    note: str = ""
    conclusions: tuple[str, ...] = ()
    p: float | None = None
    curves: tuple[Curve, ...] = ()
    plays: tuple[int, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The first cell, as text."""
        return str(self.cells[0])


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the curves of a table; both axes run from 0 to 1.

    Attributes:
        title: Title of the plot, or of its vertical axis.
        across: Title of the horizontal axis.
        chance: The curve that guessing gives.
    """

    title: str
    across: str
    chance: Curve


@dataclass(frozen=True, slots=True)
class ReportTable:
    """One table of results.

    Attributes:
        title: The subject of the table, or what the rows are compared with, e.g. `reward 0`.
        columns: The columns. The first one names the rows; rows are compared by the first column of intervals.
        rows: The rows, in the order in which they are shown.
        notes: Remarks that are needed to read it, a sentence each.
        conclusions: Conclusions about all rows, a sentence each.
        metric: What the table validates; None in a table of simulations.
        plots: The plots of the curves of the rows.
    """

    title: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[ReportRow, ...]
    notes: tuple[str, ...] = ()
    conclusions: tuple[str, ...] = ()
    metric: Metric | None = None
    plots: tuple[Plot, ...] = ()
