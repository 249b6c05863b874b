"""The adapter that a project uses in mode `tuned` when a run names none. Imports no library of numbers, since commands
that only read show it."""

from __future__ import annotations

from engine.project import settings
from engine.project.project import Project

ADAPTER_KEY = "adapter"
"""Setting: the adapter that scores in mode `tuned`, by name or path (`train use`)."""


def adapter_in_use(project: Project) -> str | None:
    """Returns the adapter in use: name of a run or in the catalog, or a path; None if none was chosen."""
    with project.reading() as conn:
        name: str | None = settings.get(conn, ADAPTER_KEY)
    return name


def use_adapter(project: Project, name: str | None) -> None:
    """Stores the adapter in use; None deletes the choice.

    Raises:
        ProjectReadOnly: The project is read-only.
    """
    project.write(lambda conn: settings.put(conn, ADAPTER_KEY, name))
