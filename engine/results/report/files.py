"""Writes a report to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ProjectError, UsageError
from engine.base.text import display_safe
from engine.conversations.filters import Filter
from engine.conversations.personal_data import Kind, Redactor
from engine.conversations.service.line_files import written_beside
from engine.opener.open_project import OpenProject
from engine.results.report.comparing import Compared
from engine.results.report.document import Document
from engine.results.report.gathering import report
from engine.results.report.html import to_html
from engine.results.report.markdown import to_markdown

FORMS = {".html": to_html, ".htm": to_html, ".md": to_markdown}


@dataclass(frozen=True, slots=True)
class Written:
    """A report that was written: its size, and how many different pieces of personal data were replaced, by kind."""

    bytes: int
    redacted: Mapping[Kind, int]


def write_report(
    services: OpenProject,
    path: Path,
    wanted: Filter,
    *,
    redact: bool = False,
    validate: bool = True,
    compared: Compared | None = None,
    force: bool = False,
) -> Written:
    """Writes the report on the conversations of a filter, completely or not at all, in the form that the ending of the
    name says.

    Args:
        redact: Replaces personal data.
        validate: Adds the tables of validation, which take seconds.
        compared: A comparison that becomes a section.
        force: Writes over a file that is there already.

    Raises:
        UsageError: The name has another ending, or no conversation matches.
        ProjectError: The file is there already, or cannot be written.
    """
    check_place(path, force=force)
    found = report(services, wanted, validate=validate, compared=compared)
    return write_document(found, path, redact=redact)


def check_place(path: Path, *, force: bool) -> None:
    """Raises what `write_report` raises about the name of the file."""
    if path.suffix.lower() not in FORMS:
        raise UsageError(
            f"A report cannot be written as {path.name}.", "Name a file.html or a file.md."
        )
    if os.path.exists(path) and not force:
        raise ProjectError(f"{path} is there already.", "Choose another name; nothing was written.")


def write_document(found: Document, path: Path, *, redact: bool = False) -> Written:
    """Writes a report in the form that the ending of the name says, over a file that is there already."""
    # whoever prints the file on a terminal gets no control of it either
    found = found.mapped(display_safe)
    redactor = Redactor()
    if redact:
        found = found.mapped(redactor.text)
    text = FORMS[path.suffix.lower()](found)
    with written_beside(path) as part:
        part.write_text(text, encoding="utf-8")
    return Written(path.stat().st_size, redactor.counts)
