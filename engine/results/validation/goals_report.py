"""Groups compared with gold goals, as a table and as JSON."""

from __future__ import annotations

from typing import Any

from engine.base.number_format import counted
from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.base.statistics.partitions import GoldAgreement
from engine.base.text import one_line
from engine.results.report_rendering import row_as_json
from engine.results.validation.contrasts import contrasts_about, contrasts_json
from engine.results.validation.goals import GoalValidation

_LONGEST_NAME = 60
_COLUMNS = (
    ReportColumn("", "text", "name", text_title="groups against gold goals"),
    ReportColumn("groups", "count", "groups", on_screen=False),
    ReportColumn("V", "interval", "v"),
    ReportColumn("ARI", "interval", "ari", chance=0.0),
    ReportColumn("homog.", "interval", "homogeneity", text_title="homogeneity"),
    ReportColumn("compl.", "interval", "completeness", text_title="completeness"),
)


def table(found: GoalValidation) -> ReportTable:
    """Returns a table with a row for each clustering."""

    def row(name: str, one: GoldAgreement) -> ReportRow:
        return ReportRow(
            (name, one.groups, one.v, one.ari, one.homogeneity, one.completeness),
            means=counted(one.groups, "group"),
            conclusions=contrasts_about(name, found.contrasts),
            details={"nmi": one.v.value},
        )

    return ReportTable(
        "gold goals",
        _COLUMNS,
        tuple(row(*one) for one in (*found.rows.items(), *found.others.items())),
        (
            f"{counted(found.n, 'conversation')} of {found.goals:,} gold goals, clustered with"
            f" {one_line(found.embedder, _LONGEST_NAME)}",
            f"{found.asked:,} have a gold goal; {found.outside:,} of the {found.n:,} are in no group"
            " and count as one together",
        ),
        metric="goals",
    )


def as_json(found: GoalValidation) -> dict[str, Any]:
    """Returns the result as JSON values. `nmi` is the V-measure: the two are equal with the arithmetic mean."""
    made = table(found)
    rows = [row_as_json(made, row) for row in made.rows]
    facts = {key: getattr(found, key) for key in ("embedder", "asked", "n", "goals", "outside")}
    first, rest = rows[: len(found.rows)], rows[len(found.rows) :]
    return {"goals": {**facts, "rows": first, "others": rest, **contrasts_json(found.contrasts)}}
