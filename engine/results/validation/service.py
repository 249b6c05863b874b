"""The validation of a project's metrics, as the screen runs it."""

from __future__ import annotations

from engine.base.errors import Cancelled
from engine.base.text import as_json
from engine.conversations.filters import Filter, ListQuery
from engine.conversations.service.line_files import new_file, written_beside
from engine.model.catalog import Catalog
from engine.project.project import Project
from engine.results.records import CompletenessTable, ValidationProgress, ValidationReport


class ValidationService:
    """Compares every metric of the project with truth. No other service reads truth."""

    def __init__(self, project: Project, catalog: Catalog) -> None:
        self._project, self._catalog = project, catalog

    def report(
        self, progress: ValidationProgress, filter: Filter | None = None
    ) -> ValidationReport:
        """Computes all tables; takes seconds for thousands of conversations, minutes for a hundred thousand.

        Args:
            filter: Restricts them to the conversations of a filter; None takes all.

        Raises:
            Cancelled: `progress.cancelled` was set.
        """
        # imported here because these imports are slow and no other screen needs them
        from engine.results.validation import all_metrics
        from engine.results.validation.trees import correlation_table

        def on_step(step: str) -> None:
            progress.step = step
            if progress.cancelled:
                raise Cancelled("Validation was cancelled.")

        metrics = all_metrics.validate_all(
            self._project, self._catalog, ListQuery(filter or Filter()), on_step
        )
        text = as_json(all_metrics.as_json(metrics), indent=1)
        correlations = None if metrics.trees is None else correlation_table(metrics.trees)
        return ValidationReport(all_metrics.tables(metrics), metrics.missing, text, correlations)

    def truncation_test(self, run: str | None) -> CompletenessTable:
        """The truncation test, a row for each configuration of scores that the project holds.

        Args:
            run: Training run whose test part is tested; None tests all conversations.

        Raises:
            UsageError: There is no such run, or nothing is scored; the hint says what to do.
        """
        # imported here because no other screen needs it
        from engine.results.validation.completeness import completeness_table

        return completeness_table(self._project, self._catalog, run)

    def export(self, report: ValidationReport, path: str) -> None:
        """Writes a report as JSON to a new file.

        Raises:
            ProjectError: `path` exists or cannot be written.
        """
        with written_beside(new_file(path)) as part:
            part.write_text(report.text + "\n", "utf-8")
