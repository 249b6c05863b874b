"""How `workbench validate PROJECT all`, and the export of the screen, tell everything that was found."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.services.validation import completeness_report, goals_report, trees_report
from engine.services.validation.all_metrics import Everything


def lines_of(found: Everything) -> list[str]:
    """As text, with an empty line between metrics; none where no metric has anything to say."""
    parts = []
    if found.goals is not None:
        parts.append(goals_report.lines_of(found.goals))
    if found.completeness is not None:
        parts.append(completeness_report.lines_of(found.completeness))
    if found.trees is not None:
        parts.append(trees_report.lines_of(found.trees))
    return [line for part in parts for line in ("", *part)][1:]


def as_json(found: Everything) -> dict[str, Any]:
    """As JSON: what each metric tells by itself, and `missing`."""
    told: dict[str, Any] = {}
    if found.goals is not None:
        told |= goals_report.as_json(found.goals)
    if found.completeness is not None:
        told |= completeness_report.as_json(found.completeness)
    if found.trees is not None:
        told |= trees_report.as_json(found.trees)
    return {**told, "missing": [asdict(one) for one in found.missing]}
