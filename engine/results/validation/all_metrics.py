"""Compares all metrics of a project with its truth, and lists what is missing for further comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.base.errors import UsageError
from engine.base.report_table import ReportTable
from engine.base.statistics.records import (
    Metric,
)
from engine.conversations.filters import ListQuery
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.results.metrics import truths
from engine.results.metrics.tables import OnStep
from engine.results.records import (
    CompletenessTable,
    Missing,
)
from engine.results.validation import completeness_report, goals_report, trees_report
from engine.results.validation.completeness import completeness_table, only_run
from engine.results.validation.goals import GoalValidation, goal_validation
from engine.results.validation.trees import TreeValidation, tree_validation
from engine.results.validation.verdicts import VerdictValidation, verdict_validation
from engine.results.validation.verdicts import as_json as verdicts_json
from engine.results.validation.verdicts import table as verdict_table

T = TypeVar("T")
_TRUTH = "Truth comes with the import, in the field `truth` of a record."


@dataclass(frozen=True, slots=True)
class AllMetrics:
    """The validation of each metric; None when there is no truth or no result to compare."""

    goals: GoalValidation | None
    completeness: CompletenessTable | None
    verdicts: VerdictValidation | None
    trees: TreeValidation | None
    missing: tuple[Missing, ...]


def validate_all(
    project: Project, catalog: Catalog, query: ListQuery, on_step: OnStep = lambda step: None
) -> AllMetrics:
    """Compares every metric of a project with its truth.

    Args:
        on_step: Called with the name of each step before it is computed; may raise to cancel.
    """
    missing: list[Missing] = []

    def result_of(metric: Metric, compute: Callable[[], T]) -> T | None:
        on_step(metric)
        try:
            return compute()
        except UsageError as nothing:
            missing.append(Missing(metric, nothing.message, nothing.hint))
            return None

    run = only_run(Path(project.path))
    goals = result_of("goals", lambda: goal_validation(project, query))
    completeness = result_of(
        "completeness",
        lambda: completeness_table(project, catalog, run, query=query, on_step=on_step),
    )
    verdicts = result_of("verdicts", lambda: verdict_validation(project, query))
    trees = result_of("trees", lambda: tree_validation(project, query, on_step=on_step))
    if completeness is not None:
        missing += _of_completeness(completeness)
    if trees is not None:
        missing += _of_trees(trees)
    return AllMetrics(goals, completeness, verdicts, trees, tuple(missing))


def tables(found: AllMetrics) -> tuple[ReportTable, ...]:
    """Returns all report tables that have rows."""
    made: list[ReportTable] = []
    if found.goals is not None:
        made.append(goals_report.table(found.goals))
    if found.completeness is not None:
        made += completeness_report.tables(found.completeness)
    if found.verdicts is not None:
        made.append(verdict_table(found.verdicts))
    if found.trees is not None:
        made += trees_report.tables(found.trees)
    return tuple(one for one in made if one.rows)


def as_json(found: AllMetrics) -> dict[str, Any]:
    """Returns the result of each metric, and `missing`, as JSON values."""
    results: dict[str, Any] = {}
    if found.goals is not None:
        results |= goals_report.as_json(found.goals)
    if found.completeness is not None:
        results |= completeness_report.as_json(found.completeness)
    if found.verdicts is not None:
        results |= verdicts_json(found.verdicts)
    if found.trees is not None:
        results |= trees_report.as_json(found.trees)
    return {**results, "missing": [asdict(one) for one in found.missing]}


def _of_completeness(found: CompletenessTable) -> list[Missing]:
    there = {row.mode for row in found.rows}
    missing = [
        Missing(
            "completeness",
            f"No scores of mode {mode} are compared.",
            f"`workbench run complete PROJECT --mode {mode}` makes them.",
        )
        for mode in ("base", "judge", "tuned", "probe")
        if mode not in there
    ]
    if not found.truths:
        what = "Neither completion nor reward is known of what is scored."
        missing.append(Missing("completeness", what, _TRUTH))
    return missing


def _of_trees(found: TreeValidation) -> list[Missing]:
    missing = []
    if not found.known:
        missing.append(
            Missing("trees", "Nothing is known that trees could be held against.", _TRUTH)
        )
    of_answers = sorted(truths.OF_AN_ANSWER & found.known.keys())
    if of_answers and found.config.place != "every":
        what = f"Single answers are judged ({', '.join(of_answers)}), and most have no tree."
        how = "`workbench run trees PROJECT --at every` grows one for each."
        missing.append(Missing("trees", what, how))
    if found.conversations < found.wanted:
        what = f"{found.wanted - found.conversations:,} of {found.wanted:,} conversations have no tree."
        how = "`workbench run trees PROJECT` with the same options grows what is missing."
        missing.append(Missing("trees", what, how))
    if found.unkept:
        what = f"{found.unkept:,} trees of an earlier version hold no probabilities of tokens."
        how = "`workbench run trees PROJECT --max-tokens N` with another N grows them again."
        missing.append(Missing("trees", what, how))
    return missing
