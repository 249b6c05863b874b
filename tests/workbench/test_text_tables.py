"""Tables of results as text."""

from __future__ import annotations

from engine.base.report_table import CellKind, ReportColumn, ReportRow, ReportTable, format_cell
from engine.base.statistics.intervals import Interval
from workbench.text_tables import table_lines

TABLE = ReportTable(
    "reward 0",
    (
        ReportColumn("", "text", text_title="figure"),
        ReportColumn("n", "count"),
        ReportColumn("AUROC", "interval", chance=0.5),
        ReportColumn("accuracy", "interval", text_title="acc.", ends_in_text=False),
        ReportColumn("gain", "difference"),
    ),
    (
        ReportRow(
            ("质量", 1204, Interval(0.634, 0.5, 0.73), Interval(0.9, 0.8, 1), Interval(0, -0.1, 1))
        ),
        ReportRow(("a long name", 9, None, None, ""), note="3 have none"),
    ),
)


def test_aligned_with_the_ends_of_intervals() -> None:
    """Text is aligned to the left and figures to the right, in cells; unknown figures are a dash; notes come last."""
    assert table_lines(TABLE, max_name_length=8) == [
        "figure        n  AUROC         95%  acc.  gain           95%",
        "质量      1,204    .63  .50 to .73   .90  +.00  −.10 to 1.00",
        "a long …      9      -           -     -                      3 have none",
    ]


def test_what_guessing_gives() -> None:
    """The last line has the figure of guessing where it is known, without an interval."""
    last = table_lines(TABLE, indent="  ", with_chance_row=True)[-1]
    assert last.split() == ["by", "chance", "-", ".50", "-", "-", "-"]


def test_a_negative_figure_has_a_minus_sign() -> None:
    """Figures of every kind are below 0 with the same sign, not with a hyphen."""
    kinds: tuple[CellKind, ...] = ("number", "mean", "share", "difference")
    assert [format_cell(kind, -0.08)[0] for kind in kinds] == ["−"] * 4
