"""The report of a validation, and the progress of one that is running."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.report_table import ReportTable
from engine.results.records import Missing


@dataclass(slots=True)
class ValidationProgress:
    """Progress of a validation that runs in another thread.

    Attributes:
        step: Name of the step that is being computed.
        cancelled: Set to True by the caller to make the validation raise `Cancelled` at its next step.
    """

    step: str = ""
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All tables, and what is missing for further ones; `text` holds the report as one JSON document.

    Attributes:
        correlations: Of the measures of response trees with each other and with the length; None without trees.
    """

    tables: tuple[ReportTable, ...]
    missing: tuple[Missing, ...]
    text: str
    correlations: ReportTable | None = None
