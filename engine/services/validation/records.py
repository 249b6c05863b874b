"""What the validation of metrics hands out, and how it is watched."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.report import ReportTable
from engine.records.validation import Missing


@dataclass(slots=True)
class ValidationProgress:
    """A validation that runs in another thread.

    Attributes:
        step: What is computed now.
        cancelled: Set by the one who watches: the validation ends with `Cancelled` at its next step.
    """

    step: str = ""
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """All tables, and what is missing for more; `text` is the same as one JSON document."""

    tables: tuple[ReportTable, ...]
    missing: tuple[Missing, ...]
    text: str
