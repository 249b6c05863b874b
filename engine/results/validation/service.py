"""Compares all metrics of a project with its truth, makes JSON of the results, and says why a metric has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.base.errors import UsageError
from engine.conversations.filters import ListQuery
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.results.records import CompletenessTable, Missing, TruncationTest
from engine.results.validation import completeness_report
from engine.results.validation.completeness import completeness_table
from engine.results.validation.goals import GoalValidation, goal_validation, goals_json
from engine.results.validation.trees import TreeValidation, tree_validation, trees_json
from engine.training.run_files import only_run

T = TypeVar("T")
"""The result of comparing one metric."""


@dataclass(frozen=True, slots=True)
class AllMetrics:
    """The validation of each metric; None where there is no truth or no result to compare, as `missing` says."""

    goals: GoalValidation | None
    completeness: CompletenessTable | None
    trees: TreeValidation | None
    missing: tuple[Missing, ...]


def validate_all(project: Project, catalog: Catalog, query: ListQuery) -> AllMetrics:
    """Returns the comparison of every metric of a project with its truth, over the conversations of a query."""
    missing: list[Missing] = []

    def result_of(metric: str, compute: Callable[[], T]) -> T | None:
        """Returns the result of one metric; where there is none, notes the reason and returns None."""
        try:
            return compute()
        except UsageError as error:
            missing.append(Missing(metric, error.message, error.hint))
            return None

    test = TruncationTest(only_run(Path(project.path)))
    goals = result_of("goals", lambda: goal_validation(project, query))
    completeness = result_of(
        "completeness",
        lambda: completeness_table(project, catalog, test, query=query),
    )
    trees = result_of("trees", lambda: tree_validation(project, query))
    return AllMetrics(goals, completeness, trees, tuple(missing))


def metrics_json(metrics: AllMetrics) -> dict[str, Any]:
    """Returns the result of each metric, and `missing`, as JSON values."""
    results: dict[str, Any] = {}
    if metrics.goals is not None:
        results |= goals_json(metrics.goals)
    if metrics.completeness is not None:
        results |= completeness_report.as_json(metrics.completeness)
    if metrics.trees is not None:
        results |= trees_json(metrics.trees)
    return {**results, "missing": [asdict(comparison) for comparison in metrics.missing]}
