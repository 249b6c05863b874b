"""Tunes the default model, which the parts that read with a model measure."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.model.catalog import Catalog, ModelEntry
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Tune
from engine.model.service.run_setup import bundled_logs


def tuned_entry(
    catalog: Catalog, process: ModelProcess, progress: Callable[[str], None]
) -> ModelEntry:
    """The default model, tuned first if it never was on this machine."""
    entry = catalog.entry(None)
    if entry.tuning is None:
        start = time.monotonic()
        result = process.ask(
            Tune(entry.path, catalog.cache, bundled_logs()), lambda _, note: progress(note)
        )
        catalog.record_tuning(entry, {**result, "seconds": time.monotonic() - start})
        entry = catalog.entry(None)
    return entry
