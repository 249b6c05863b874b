"""Which adapter a name means, and which one scoring in the mode `tuned` takes when none is named."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UsageError
from engine.model.catalog import Catalog
from engine.store import settings
from engine.store.project import Project
from training.config import ConfigError, TrainConfig
from training.protocol import RunDirectory
from workbench.training_files import all_runs

SETTING = "adapter"


@dataclass(frozen=True, slots=True)
class ChosenAdapter:
    """An adapter to score with.

    Attributes:
        name: As it was asked for.
        model: Name in the catalogue of the model that it was trained on; None where that is not known.
    """

    name: str
    path: Path
    model: str | None = None


def get(project: Project) -> str | None:
    """The name of the adapter in use: that of a run or of the catalogue, or a path; None before one was chosen."""
    with project.reading() as conn:
        name: str | None = settings.get(conn, SETTING)
    return name


def put(project: Project, name: str | None) -> None:
    """Remembers the adapter to use; None forgets it.

    Raises:
        ProjectReadOnly: The project is.
    """
    project.write(lambda conn: settings.put(conn, SETTING, name))


def find(project: Project, catalog: Catalog, name: str) -> ChosenAdapter:
    """The adapter of a run of this project, of a run directory, or a file.

    Raises:
        UsageError: There is none.
    """
    runs = {run.path.name: run for run in all_runs(Path(project.path))}
    path = Path(name).expanduser()
    run = runs.get(name) or (RunDirectory(path.resolve()) if path.is_dir() else None)
    if run is not None:
        if not run.adapter_gguf.is_file():
            raise UsageError(f"The run {name} has no adapter.", "It is made when a run ends.")
        return ChosenAdapter(name, run.adapter_gguf, _base_of(run, catalog))
    if path.is_file():
        return ChosenAdapter(name, path.resolve())
    raise UsageError(
        f"There is no adapter {name!r}.",
        f"Name a file or a training run; runs are {', '.join(runs) or 'none yet'}.",
    )


def _base_of(run: RunDirectory, catalog: Catalog) -> str | None:
    with contextlib.suppress(ConfigError):
        name = TrainConfig.load(run.config).base_name
        if name in {entry.name for entry in catalog.entries()}:
            return name
    return None
