"""Tables of results: text, JSON and screens render the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.records.interval import Interval
from engine.records.validation import Curve, Metric

CellKind = Literal["text", "count", "number", "share", "percent", "interval"]
"""How a cell is written: `1,204`, `31.0`, `.63`, `63%`, `.63` with its 95% interval."""

Cell = str | int | float | Interval | None
"""A value, not yet written; None: nothing is known."""

RowKind = Literal["measure", "baseline", "method"]
"""A `measure` of response trees, a `baseline` that measures are compared with, or one of several equal `method`s."""


@dataclass(frozen=True, slots=True)
class ReportColumn:
    """One column.

    Attributes:
        key: Its name in JSON.
        means: What its cells hold, a sentence.
        chance: What guessing gives; None where that is not known.
        on_screen: Whether screens have room for it; text and JSON always have.
    """

    title: str
    kind: CellKind
    key: str = ""
    means: str = ""
    chance: float | None = None
    on_screen: bool = True


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row.

    Attributes:
        cells: One for each column, the first of them its name.
        means: What the row is, a few words.
        note: What must be known to read it, a few words.
        conclusions: About this row, a sentence each.
        p: Of the hypothesis that the row is no better than chance, corrected for all rows; None where not tested.
        curves: One for each plot of the table.
        plays: Ids of the simulated conversations that are counted in it.
        details: More of it for JSON, by name.
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
        """The first cell."""
        return str(self.cells[0])


@dataclass(frozen=True, slots=True)
class Plot:
    """What the curves of a table are drawn in; both axes from 0 to 1. `chance` is the curve of a guess."""

    title: str
    across: str
    chance: Curve


@dataclass(frozen=True, slots=True)
class ReportTable:
    """One table.

    Attributes:
        title: What it is about, or what the rows are compared with, e.g. `reward 0`.
        columns: The first one names the rows; with intervals, rows are compared by the first figure.
        notes: What must be known to read it, a sentence each.
        conclusions: About all rows, a sentence each.
        metric: The metric that it validates; None in a table of simulations.
        plots: What the curves of the rows are drawn in.
    """

    title: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[ReportRow, ...]
    notes: tuple[str, ...] = ()
    conclusions: tuple[str, ...] = ()
    metric: Metric | None = None
    plots: tuple[Plot, ...] = ()
