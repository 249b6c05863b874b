"""Compares all metrics of a project with its truth: as tables, as JSON, and why there is none of a metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.base.errors import Cancelled, UsageError
from engine.base.line_files import new_file, written_beside
from engine.base.report_table import Metric, ReportTable
from engine.base.text import as_json
from engine.conversations.filters import ListQuery
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.results.records import (
    CompletenessTable,
    Missing,
    TruncationTest,
    ValidationProgress,
    ValidationReport,
)
from engine.results.validation import completeness_report
from engine.results.validation.claims import OnStep
from engine.results.validation.completeness import completeness_table, only_run
from engine.results.validation.goals import GoalValidation, goal_table, goal_validation, goals_json
from engine.results.validation.trees import (
    TreeValidation,
    correlation_table,
    tree_tables,
    tree_validation,
    trees_json,
)

T = TypeVar("T")
"""The result of comparing one metric."""


class ValidationService:
    """Compares every metric of the project with truth. No other service reads truth."""

    def __init__(self, project: Project, catalog: Catalog) -> None:
        """`catalog` knows the adapters behind the scores."""
        self._project, self._catalog = project, catalog

    def report(self, progress: ValidationProgress) -> ValidationReport:
        """Computes all tables; takes seconds for thousands of conversations, minutes for a hundred thousand.

        Raises:
            Cancelled: `progress.cancelled` was set.
        """

        def on_step(step: str) -> None:
            """Tells the caller of `report` what is computed next, and stops where it asks for that."""
            progress.step = step
            if progress.cancelled:
                raise Cancelled("Validation was cancelled.")

        metrics = validate_all(self._project, self._catalog, ListQuery(), on_step)
        text = as_json(metrics_json(metrics), indent=1)
        correlations = None if metrics.trees is None else correlation_table(metrics.trees)
        return ValidationReport(metric_tables(metrics), metrics.missing, text, correlations)

    def export(self, report: ValidationReport, path: str) -> None:
        """Writes a report as JSON to a new file.

        Raises:
            ProjectError: `path` exists or cannot be written.
        """
        with written_beside(new_file(path)) as part:
            part.write_text(report.text + "\n", "utf-8")


@dataclass(frozen=True, slots=True)
class AllMetrics:
    """The validation of each metric; None when there is no truth or no result to compare."""

    goals: GoalValidation | None
    completeness: CompletenessTable | None
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
        """Returns the result of one metric; notes why there is none, and returns None."""
        on_step(metric)
        try:
            return compute()
        except UsageError as error:
            missing.append(Missing(metric, error.message, error.hint))
            return None

    test = TruncationTest(only_run(Path(project.path)))
    goals = result_of("goals", lambda: goal_validation(project, query))
    completeness = result_of(
        "completeness",
        lambda: completeness_table(project, catalog, test, query=query, on_step=on_step),
    )
    trees = result_of("trees", lambda: tree_validation(project, query, on_step=on_step))
    return AllMetrics(goals, completeness, trees, tuple(missing))


def metric_tables(metrics: AllMetrics) -> tuple[ReportTable, ...]:
    """Returns all report tables that have rows."""
    tables: list[ReportTable] = []
    if metrics.goals is not None:
        tables.append(goal_table(metrics.goals))
    if metrics.completeness is not None:
        tables += completeness_report.tables(metrics.completeness)
    if metrics.trees is not None:
        tables += tree_tables(metrics.trees)
    return tuple(table for table in tables if table.rows)


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
