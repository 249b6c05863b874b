"""Validation as the screen asks for it."""

from __future__ import annotations

from pathlib import Path

from engine.errors import Cancelled, ProjectError
from engine.filters import ListQuery
from engine.model.catalog import Catalog
from engine.services.validation.records import ValidationReport, Watch
from engine.store.project import Project
from engine.text import as_json


class ValidationService:
    """See `engine.services.validation.records.Validation`."""

    def __init__(self, project: Project, catalog: Catalog) -> None:
        self._project, self._catalog = project, catalog

    def report(self, watch: Watch) -> ValidationReport:
        """Works everything out.

        Raises:
            Cancelled: `watch` said so.
        """
        # imported here because they bring much that no other screen needs
        from engine.services.validation import all_metrics_report
        from engine.services.validation.all_metrics import everything
        from engine.services.validation.report_tables import sheets

        def tell(what: str) -> None:
            watch.told = what
            if watch.cancelled:
                raise Cancelled("Validation was cancelled.")

        found = everything(self._project, self._catalog, ListQuery(), tell)
        text = as_json(all_metrics_report.as_json(found), indent=1)
        return ValidationReport(sheets(found), found.missing, text)

    def export(self, report: ValidationReport, path: str) -> None:
        """Writes a report to a new file.

        Raises:
            ProjectError: `path` is there already or cannot be written.
        """
        target = Path(path).expanduser()
        try:
            with target.open("x", encoding="utf-8", newline="\n") as out:
                out.write(report.text + "\n")
        except FileExistsError as error:
            raise ProjectError(
                f"{path} is there already.", "Choose another name; nothing was written."
            ) from error
        except OSError as error:
            raise ProjectError(
                f"{path} cannot be written: {error.strerror}.", "Choose another place."
            ) from error
