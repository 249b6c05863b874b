"""Compares all metrics of a project with its truth: as tables, as JSON, and what is missing for further
comparisons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from engine.base.errors import Cancelled, UsageError
from engine.base.line_files import new_file, written_beside
from engine.base.report_table import Metric, ReportTable
from engine.base.text import as_json
from engine.completeness.records import Mode
from engine.conversations.filters import ListQuery
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.results.metrics import claims
from engine.results.metrics.claims import OnStep
from engine.results.records import (
    CompletenessTable,
    Missing,
    TruncationTest,
    ValidationProgress,
    ValidationReport,
)
from engine.results.validation import completeness_report
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

_TRUTH_HINT = "Truth comes with the import, in the field `truth` of a record."
"""Says how truth comes into a project."""


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
    if completeness is not None:
        missing += _missing_for_completeness(completeness)
    if trees is not None:
        missing += _missing_for_trees(trees)
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


def _missing_for_completeness(table: CompletenessTable) -> list[Missing]:
    """Returns the modes without scores, and that there is no truth where there is none."""
    modes = {row.config.mode for row in table.rows if row.config}
    missing = [
        Missing(
            "completeness",
            f"No scores of mode {mode} are compared.",
            f"`workbench run complete PROJECT --mode {mode}` makes them.",
        )
        for mode in get_args(Mode)
        if mode not in modes
    ]
    if not table.truths:
        what = "Neither completion, reward nor a verdict is known of what is scored."
        missing.append(Missing("completeness", what, _TRUTH_HINT))
    return missing


def _missing_for_trees(validation: TreeValidation) -> list[Missing]:
    """Returns the trees and truth without which the comparison is not complete."""
    missing = []
    if not validation.known:
        missing.append(
            Missing("trees", "Nothing is known that trees could be held against.", _TRUTH_HINT)
        )
    judged_claims = sorted(claims.OF_AN_ANSWER & validation.known.keys())
    if judged_claims and validation.config.place != "every":
        what = f"Single answers are judged ({', '.join(judged_claims)}), and most have no tree."
        how = "`workbench run trees PROJECT --at every` grows one for each."
        missing.append(Missing("trees", what, how))
    if validation.conversations < validation.asked_for:
        lacking = validation.asked_for - validation.conversations
        what = f"{lacking:,} of {validation.asked_for:,} conversations have no tree."
        how = "`workbench run trees PROJECT` with the same options grows what is missing."
        missing.append(Missing("trees", what, how))
    return missing
