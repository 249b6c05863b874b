"""Finds adapters by name, and the adapter in use: the one for scoring in the mode `tuned` when none is named."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ModelFileError, NotYet, UsageError
from engine.model.adapter_files import AdapterOrigin
from engine.model.catalog import DEFAULT_MODEL, Catalog
from engine.model.gguf_file import read_gguf
from engine.project import settings
from engine.project.project import Project
from engine.training.config import RECIPES
from engine.training.history import RunHistory
from engine.training.run_files import all_runs

SETTING = "adapter"
"""Setting: the adapter that scores in mode `tuned`, by name or path (`models use`)."""


@dataclass(frozen=True, slots=True)
class ChosenAdapter:
    """An adapter to score with.

    Attributes:
        name: Name of its run or in the catalogue, else the file name.
        model: Name in the catalogue of the model that it was trained on; None if unknown.
    """

    name: str
    path: Path
    model: str | None = None


def get(project: Project) -> str | None:
    """Returns the adapter in use: name of a run or in the catalogue, or a path; None if none was chosen."""
    with project.reading() as conn:
        name: str | None = settings.get(conn, SETTING)
    return name


def put(project: Project, name: str | None) -> None:
    """Stores the adapter in use; None deletes the setting.

    Raises:
        ProjectReadOnly: The project is read-only.
    """
    project.write(lambda conn: settings.put(conn, SETTING, name))


def find(project: Project, catalog: Catalog, name: str) -> ChosenAdapter:
    """Returns the adapter of a run of this project, or one that the catalogue finds by name, file or run directory.

    Raises:
        UsageError: There is none.
    """
    runs = {run.path.name: run for run in all_runs(Path(project.path))}
    if name in runs:
        if not runs[name].adapter_gguf.is_file():
            raise NotYet(f"The run {name} has no adapter.", "A run makes it at its end.")
        row = RunHistory(runs[name]).row()
        if row.state == "failed":
            raise UsageError(f"The run {name} failed: {row.problem}", row.hint)
        return _chosen(name, runs[name].adapter_gguf, catalog)
    try:
        path = catalog.adapter_path(name)
    except UsageError as error:
        hint = f"{error.hint} Training runs: {', '.join(runs)}." if runs else error.hint
        raise UsageError(error.message, hint) from error
    named = name in {entry.name for entry in catalog.adapters()}
    return _chosen(name if named else str(path), path, catalog)


def chosen(project: Project, catalog: Catalog, model: str | None) -> ChosenAdapter | None:
    """Returns the adapter for a run that names none: the one in use, else the bundled one for the model.

    Args:
        model: Name or path of the model to score with; None if none was named. An adapter of another model is not
            used.

    Returns:
        None if there is no such adapter; the weights of the model are then taken to be tuned themselves.

    Raises:
        UsageError: The adapter in use is no longer there.
    """
    name = get(project)
    if name is not None:
        adapter = find(project, catalog, name)
        return adapter if model is None or adapter.model in (None, model) else None
    for entry in catalog.adapters():
        made_of = entry.made_of
        if (
            entry.origin == "built in"
            and made_of.base_name == (model or DEFAULT_MODEL)
            and made_of.recipe in RECIPES
        ):
            return ChosenAdapter(entry.name, entry.path, made_of.base_name)
    return None


def _chosen(name: str, path: Path, catalog: Catalog) -> ChosenAdapter:
    # A damaged file is reported when it is loaded.
    with contextlib.suppress(ModelFileError):
        base = AdapterOrigin.of(read_gguf(path)).base_name
        if base in {entry.name for entry in catalog.entries()}:
            return ChosenAdapter(name, path, base)
    return ChosenAdapter(name, path)
