"""Looks up how the adapters behind a project's scores were trained."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.base.errors import WorkbenchError
from engine.completeness.tables.score_sets import ScoreConfig
from engine.model.catalog import AdapterEntry, Catalog
from engine.project import runs
from engine.training.run_directory.config import ConfigError, TrainConfig
from engine.training.run_directory.events import RunDirectory


@dataclass(frozen=True, slots=True)
class AdapterOrigin:
    """How an adapter was trained.

    Attributes:
        recipe: The training recipe; empty when neither the catalogue nor a run records it.
        conversations: Number of training conversations; None when unknown.
        cut: Number of those that were cut off for an experiment (`--contaminate`); None when unknown.
    """

    recipe: str = ""
    conversations: int | None = None
    cut: int | None = None


def adapter_origins(
    conn: sqlite3.Connection,
    catalog: Catalog,
    configs: Sequence[ScoreConfig],
    trained: Mapping[str, RunDirectory],
) -> dict[str, AdapterOrigin]:
    """Returns the origin of each configuration's adapter, by config hash; configurations without an adapter are absent.

    An adapter file is recognised by its SHA-256 at the time of use, wherever it is now. If no file matches, the recipe
    comes from the training run of the same name.

    Args:
        trained: The project's training runs by name.
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
            found[config.config_hash] = AdapterOrigin(
                entry.made_of.recipe, entry.conversations, entry.cut
            )
        elif config.adapter in trained:
            with contextlib.suppress(ConfigError):
                recipe = TrainConfig.load(trained[config.adapter].config).recipe
                found[config.config_hash] = AdapterOrigin(recipe)
    return found


def _entry(catalog: Catalog, sha256: str | None) -> AdapterEntry | None:
    if sha256 is None:
        return None
    with contextlib.suppress(WorkbenchError, OSError):
        path = catalog.adapter_with(sha256)
        return None if path is None else catalog.adapter_entry(path)
    return None
