"""How `workbench validate PROJECT goals` tells what it found."""

from __future__ import annotations

from typing import Any

from engine.records.interval import Interval
from engine.services.validation.contrasts import contrasts_json
from engine.services.validation.goals import GoalValidation
from engine.text import one_line
from engine.validate import conclusions
from engine.validate.formatting import ends, short
from engine.validate.statistics.partitions import GoldAgreement

FIGURES = ("v", "ari", "homogeneity", "completeness")
_HEADS = ("V", "ARI", "homogeneity", "completeness")
LONGEST_NAME = 60


def lines_of(found: GoalValidation) -> list[str]:
    """As text."""
    lines = [
        f"goals          {found.n:,} conversations of {found.goals:,} gold goals, clustered with"
        f" {one_line(found.embedder, LONGEST_NAME)}",
        f"               {found.asked:,} have a gold goal; {found.outside:,} of the {found.n:,} are in no group"
        " and count as one together",
        "",
        f"{'groups against gold goals':<28}{'groups':>6}"
        + "".join(f"{head:>14}  {'95%':<12}" for head in _HEADS).rstrip(),
    ]
    for name, row in {**found.rows, **found.others}.items():
        figures = "".join(_cell(getattr(row, figure)) for figure in FIGURES)
        lines.append(f"{one_line(name, 27):<28}{row.groups:>6,}{figures}".rstrip())
    return lines + [f"  {line}" for line in conclusions.pairwise(found.contrasts)]


def _cell(figure: Interval) -> str:
    return f"{short(figure.value):>14}  {ends(figure):<12}"


def as_json(found: GoalValidation) -> dict[str, Any]:
    """As JSON: intervals in `ci`, from low to high. `nmi` is the V-measure under its other name."""
    whole = {key: getattr(found, key) for key in ("embedder", "asked", "n", "goals", "outside")}
    rows = [_row_json(name, row) for name, row in found.rows.items()]
    others = [_row_json(name, row) for name, row in found.others.items()]
    return {"goals": {**whole, "rows": rows, "others": others, **contrasts_json(found.contrasts)}}


def _row_json(name: str, row: GoldAgreement) -> dict[str, Any]:
    values = {figure: getattr(row, figure) for figure in FIGURES}
    return {
        "name": name,
        "groups": row.groups,
        **{figure: one.value for figure, one in values.items()},
        "nmi": row.v.value,
        "ci": {figure: [one.low, one.high] for figure, one in values.items()},
    }
