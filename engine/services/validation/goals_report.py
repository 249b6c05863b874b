"""Groups compared with gold goals, as a table, as text and as JSON."""

from __future__ import annotations

from typing import Any

from engine.records.report import ReportColumn, ReportRow, ReportTable
from engine.services.report_rendering import TextColumn, row_as_json, table_lines
from engine.services.validation.contrasts import contrasts_about, contrasts_json
from engine.services.validation.goals import GoalValidation
from engine.text import one_line
from engine.validate import conclusions
from engine.validate.statistics.partitions import GoldAgreement

_LONGEST_NAME = 60
_COLUMNS = (
    ReportColumn("", "text", "name"),
    ReportColumn("groups", "count", "groups", on_screen=False),
    ReportColumn("V", "interval", "v"),
    ReportColumn("ARI", "interval", "ari", chance=0.0),
    ReportColumn("homog.", "interval", "homogeneity"),
    ReportColumn("compl.", "interval", "completeness"),
)
_LAYOUT = (
    TextColumn("groups", 7),
    TextColumn("V", 14, 12),
    TextColumn("ARI", 14, 12),
    TextColumn("homogeneity", 14, 12),
    TextColumn("completeness", 14, 12),
)


def table(found: GoalValidation) -> ReportTable:
    """Returns a table with a row for each clustering."""

    def row(name: str, one: GoldAgreement) -> ReportRow:
        return ReportRow(
            (name, one.groups, one.v, one.ari, one.homogeneity, one.completeness),
            means=f"{one.groups:,} groups",
            conclusions=contrasts_about(name, found.contrasts),
            details={"nmi": one.v.value},
        )

    return ReportTable(
        "gold goals",
        _COLUMNS,
        tuple(row(*one) for one in (*found.rows.items(), *found.others.items())),
        (
            f"{found.n:,} conversations of {found.goals:,} gold goals, clustered with"
            f" {one_line(found.embedder, _LONGEST_NAME)}",
            f"{found.asked:,} have a gold goal; {found.outside:,} of the {found.n:,} are in no group"
            " and count as one together",
        ),
        metric="goals",
    )


def lines_of(found: GoalValidation) -> list[str]:
    """Formats the table and conclusions as lines of text."""
    made = table(found)
    return [
        f"{'goals':<15}{made.notes[0]}",
        f"{'':<15}{made.notes[1]}",
        "",
        *table_lines(made, _LAYOUT, name="groups against gold goals", width=27),
        *(f"  {line}" for line in conclusions.pairwise(found.contrasts)),
    ]


def as_json(found: GoalValidation) -> dict[str, Any]:
    """Returns the result as JSON values. `nmi` is the V-measure: the two are equal with the arithmetic mean."""
    made = table(found)
    rows = [row_as_json(made, row) for row in made.rows]
    facts = {key: getattr(found, key) for key in ("embedder", "asked", "n", "goals", "outside")}
    first, rest = rows[: len(found.rows)], rows[len(found.rows) :]
    return {"goals": {**facts, "rows": first, "others": rest, **contrasts_json(found.contrasts)}}
