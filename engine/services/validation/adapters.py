"""How the adapters that scores were made with were trained."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import WorkbenchError
from engine.model.catalog import AdapterEntry, Catalog
from engine.run_directory.config import ConfigError, TrainConfig
from engine.run_directory.events import RunDirectory
from engine.store import runs
from engine.store.scores import ScoreConfig


@dataclass(frozen=True, slots=True)
class Taught:
    """How an adapter came to be.

    Attributes:
        recipe: Empty where nobody says.
        conversations: How many it was trained on.
        cut: How many of them were cut off for an experiment.
    """

    recipe: str = ""
    conversations: int | None = None
    cut: int | None = None


def taught(
    conn: sqlite3.Connection,
    catalog: Catalog,
    configs: Sequence[ScoreConfig],
    trained: Mapping[str, RunDirectory],
) -> dict[str, Taught]:
    """The origin of the adapter of each configuration that has one, by the hash of the configuration.

    The file is found by what it held when it was used, wherever it lies; where it is gone, a run of that name still
    knows its recipe.

    Args:
        trained: The project's own training runs by name.
    """
    used = {
        run.config_hash: run.fingerprints.get("adapter_sha256")
        for run in reversed(runs.all_runs(conn))
    }
    found = {}
    for config in configs:
        if config.adapter is None:
            continue
        entry = _entry(catalog, used.get(config.config_hash))
        if entry is not None:
            found[config.config_hash] = Taught(entry.made_of.recipe, entry.conversations, entry.cut)
        elif config.adapter in trained:
            with contextlib.suppress(ConfigError):
                recipe = TrainConfig.load(trained[config.adapter].config).recipe
                found[config.config_hash] = Taught(recipe)
    return found


def _entry(catalog: Catalog, sha256: str | None) -> AdapterEntry | None:
    if sha256 is None:
        return None
    with contextlib.suppress(WorkbenchError, OSError):
        path = catalog.adapter_with(sha256)
        return None if path is None else catalog.adapter_entry(path)
    return None
