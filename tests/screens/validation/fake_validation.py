"""The validation port in memory: a report that waits until a test lets it go on."""

from __future__ import annotations

import threading

from engine.errors import Cancelled, UsageError
from engine.records.interval import Interval
from engine.records.validation import Curve, Missing
from engine.services.validation.records import Plot, ReportTable, SheetRow, ValidationReport, Watch

DIAGONAL: Curve = ((0.0, 0.0), (1.0, 1.0))
BOWED: Curve = tuple((n / 20, (n / 20) ** 0.5) for n in range(21))
KEPT: Curve = tuple((n / 20, 0.6 + 0.3 * n / 20) for n in range(20))
LACKING: Curve = tuple((n / 20, 0.6 - 0.1 * n / 20) for n in range(20))


def estimate(value: float, half: float = 0.1) -> Interval:
    """A figure with an interval."""
    return Interval(value, max(0.0, value - half), min(1.0, value + half))


def row(name: str, kind: str, area: float, said: tuple[str, ...] = ()) -> SheetRow:
    """A row of the sheet on trees."""
    return SheetRow(
        name,
        "measure" if kind == "measure" else "plain",
        f"what {name} is",
        (estimate(area), estimate(0.41), estimate(0.72), estimate(0.2)),
        0.01 if area > 0.7 else 0.8,
        (KEPT if area > 0.5 else LACKING, BOWED if area > 0.5 else DIAGONAL),
        said,
    )


TREES = ReportTable(
    "trees",
    "reward 0",
    (
        "the reward is 0, against more; 40 yes, 60 no; trees for 100 of 200 conversations",
        "trees cafe (alpha 0.02, path, last-answer, toy)",
    ),
    ("AUROC", "AP", "kept", "PRR"),
    (0.5, 0.4, 0.6, 0.0),
    (
        row(
            "leaves",
            "measure",
            0.63,
            (
                "leaves .63 against length .61: no difference can be told, n = 100 (+.02, -.10 to +.14; p = 1.00)",
                "leaves .63 against perplexity .45: no difference can be told, n = 100 (+.18, -.02 to +.38; p = .31)",
            ),
        ),
        row("entropy_high", "measure", 0.74),
        row("length", "plain", 0.61),
        row("perplexity", "plain", 0.45),
    ),
    (
        Plot("right among those kept", "rejected", ((0.0, 0.6), (1.0, 0.6))),
        Plot("ROC", "false alarms", DIAGONAL),
    ),
    (
        "Above chance: entropy_high; no other figure can be told from chance.",
        "Of 2 figures of trees none can be told to be better than the best plain figure, none to be worse"
        " (corrected for 4 tests).",
    ),
)
GOALS = ReportTable(
    "goals",
    "gold goals",
    ("100 conversations of 4 gold goals, clustered with words; 3 in no group",),
    ("V", "ARI", "homog.", "compl."),
    (None, 0.0, None, None),
    (
        SheetRow("as clustered", "way", "8 groups", (estimate(0.8),) * 4, None, (), ()),
        SheetRow("as it stands", "way", "4 groups", (estimate(0.9),) * 4, None, (), ()),
    ),
    (),
    (),
)
MISSING = Missing(
    "completeness", "Nothing is scored yet.", "`workbench run complete PROJECT` makes scores."
)
REPORT = ValidationReport((GOALS, TREES), (MISSING,), '{"goals": {}}')
NOTHING = ValidationReport((), (MISSING,), "{}")


class FakeValidation:
    """Gives `found` as soon as `hold` is set, and asks meanwhile whether it was cancelled."""

    def __init__(self) -> None:
        self.found = REPORT
        self.hold = threading.Event()
        self.hold.set()
        self.asked = 0
        self.written: list[tuple[str, str]] = []
        self.problem: UsageError | None = None

    def report(self, watch: Watch) -> ValidationReport:
        """The report, or the problem."""
        self.asked += 1
        watch.told = "reward 0: leaves"
        while not self.hold.wait(0.01):
            if watch.cancelled:
                raise Cancelled("Validation was cancelled.")
        if self.problem is not None:
            raise self.problem
        return self.found

    def export(self, report: ValidationReport, path: str) -> None:
        """Remembers what would be written."""
        self.written.append((path, report.text))
