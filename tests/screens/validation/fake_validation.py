"""A validation whose report is written down, and waits until a test lets it go on."""

from __future__ import annotations

import threading

from engine.errors import Cancelled, UsageError
from engine.records.interval import Interval
from engine.records.report import Plot, ReportColumn, ReportRow, ReportTable
from engine.records.validation import Curve, Missing
from engine.services.validation.records import ValidationProgress, ValidationReport
from engine.services.validation.service import ValidationService

DIAGONAL: Curve = ((0.0, 0.0), (1.0, 1.0))
BOWED: Curve = tuple((n / 20, (n / 20) ** 0.5) for n in range(21))
KEPT: Curve = tuple((n / 20, 0.6 + 0.3 * n / 20) for n in range(20))
LACKING: Curve = tuple((n / 20, 0.6 - 0.1 * n / 20) for n in range(20))


def estimate(value: float, half: float = 0.1) -> Interval:
    """A figure with an interval."""
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def columns(titles: tuple[str, ...], chance: tuple[float | None, ...]) -> tuple[ReportColumn, ...]:
    """A name and figures with intervals."""
    figures = zip(titles, chance, strict=True)
    return (
        ReportColumn("", "text", "name"),
        *(ReportColumn(title, "interval", title, chance=one) for title, one in figures),
    )


def row(name: str, kind: str, area: float, conclusions: tuple[str, ...] = ()) -> ReportRow:
    """A row of the table on trees."""
    return ReportRow(
        (name, estimate(area), estimate(0.41), estimate(0.72), estimate(0.2)),
        "measure" if kind == "measure" else "baseline",
        f"what {name} is",
        conclusions=conclusions,
        p=0.01 if area > 0.7 else 0.8,
        curves=(KEPT if area > 0.5 else LACKING, BOWED if area > 0.5 else DIAGONAL),
    )


TREES = ReportTable(
    "reward 0",
    columns(("AUROC", "AP", "kept", "PRR"), (0.5, 0.4, 0.6, 0.0)),
    (
        row(
            "leaves",
            "measure",
            0.63,
            (
                "leaves .63 against length .61: no significant difference, n = 100 (+.02, -.10 to +.14; p = 1.00)",
                "leaves .63 against perplexity .45: no significant difference, n = 100 (+.18, -.02 to +.38; p = .31)",
            ),
        ),
        row("entropy_high", "measure", 0.74),
        row("length", "baseline", 0.61),
        row("perplexity", "baseline", 0.45),
    ),
    (
        "the reward is 0, against more",
        "40 yes, 60 no; trees for 100 of 200 conversations",
        "trees cafe (alpha 0.02, path, last-answer, toy)",
    ),
    (
        "Above chance: entropy_high; no other figure differs significantly from chance.",
        "Of 2 figures of trees, significantly better than the best plain figure: none; worse: none"
        " (corrected for 4 tests).",
    ),
    "trees",
    (
        Plot("right among those kept", "rejected", ((0.0, 0.6), (1.0, 0.6))),
        Plot("ROC", "false alarms", DIAGONAL),
    ),
)
GOALS = ReportTable(
    "gold goals",
    columns(("V", "ARI", "homog.", "compl."), (None, 0.0, None, None)),
    (
        ReportRow(("as clustered", *(estimate(0.8),) * 4), means="8 groups"),
        ReportRow(("as it stands", *(estimate(0.9),) * 4), means="4 groups"),
    ),
    ("100 conversations of 4 gold goals, clustered with words", "3 in no group"),
    metric="goals",
)
MISSING = Missing(
    "completeness", "Nothing is scored yet.", "`workbench run complete PROJECT` makes scores."
)
REPORT = ValidationReport((GOALS, TREES), (MISSING,), '{"goals": {}}')
NOTHING = ValidationReport((), (MISSING,), "{}")


class FakeValidation(ValidationService):
    """Gives `found` as soon as `hold` is set, and asks meanwhile whether it was cancelled."""

    def __init__(self) -> None:
        self.found = REPORT
        self.hold = threading.Event()
        self.hold.set()
        self.asked = 0
        self.problem: UsageError | None = None

    def report(self, progress: ValidationProgress) -> ValidationReport:
        """The report, or the problem."""
        self.asked += 1
        progress.step = "reward 0: leaves"
        while not self.hold.wait(0.01):
            if progress.cancelled:
                raise Cancelled("Validation was cancelled.")
        if self.problem is not None:
            raise self.problem
        return self.found
