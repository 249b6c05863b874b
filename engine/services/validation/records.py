"""What the validation screen needs of the rest of the program: every metric against what is known, as sheets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from engine.records.interval import Interval
from engine.records.validation import Curve, Metric, Missing

RowKind = Literal["measure", "plain", "way"]


@dataclass(slots=True)
class Watch:
    """Work that another thread watches.

    Attributes:
        told: What is worked out now.
        cancelled: Set by whoever watches: the work ends with `Cancelled` at its next step.
    """

    told: str = ""
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row of a table.

    Attributes:
        kind: A `measure` of trees, a `plain` figure that measures are held against, or one of several `way`s.
        means: What it is, a few words; may be empty.
        cells: A figure for each column of the sheet.
        p: Against chance, corrected for the rows of the sheet; None where that is not asked.
        curves: One for each plot of the sheet.
        said: Conclusions about this row, a sentence each.
    """

    name: str
    kind: RowKind
    means: str
    cells: tuple[Interval, ...]
    p: float | None
    curves: tuple[Curve, ...]
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """What curves of a sheet are drawn in; both axes from 0 to 1. `chance` is the curve of what tells nothing."""

    title: str
    across: str
    chance: Curve


@dataclass(frozen=True, slots=True)
class ReportTable:
    """One table: ways to value things against one thing that is known of them.

    Attributes:
        title: Against what, e.g. `reward 0`.
        about: What that means and over how many, a sentence each.
        columns: Names of the figures; the first is what rows are compared by.
        chance: What chance gives, for each column; None where it depends.
        said: Conclusions about all rows.
    """

    metric: Metric
    title: str
    about: tuple[str, ...]
    columns: tuple[str, ...]
    chance: tuple[float | None, ...]
    rows: tuple[SheetRow, ...]
    plots: tuple[Plot, ...]
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All sheets, and what is missing for more; `text` is the same as one JSON document."""

    sheets: tuple[ReportTable, ...]
    missing: tuple[Missing, ...]
    text: str


class Validation(Protocol):
    """Every metric of the project against all that is known of it. Only this reads truth."""

    def report(self, watch: Watch) -> ValidationReport:
        """Works everything out, which takes seconds; raises Cancelled when `watch` says so."""

    def export(self, report: ValidationReport, path: str) -> None:
        """Writes a report as JSON to a new file; raises ProjectError as `Exports.export` does."""
