"""The copy with the first layers of the built-in model, as the step that tunes makes it."""

from __future__ import annotations

from pathlib import Path

from engine.model.catalog import FIRST_LAYERS, Catalog
from engine.model.process.process import ModelProcess
from engine.model.stages import measure_first_layers


def test_made_and_measured(tmp_path: Path) -> None:
    """The copy is written and loaded, and its speed is stored."""
    catalog = Catalog(tmp_path / "data", tmp_path / "cache")
    entry = catalog.entry(None)
    assert catalog.loadable(entry, layers=FIRST_LAYERS).tokens_per_s is None
    process = ModelProcess(tmp_path / "model.log")
    try:
        measure_first_layers(process, catalog, entry, "Hello, how can I help? " * 8)
    finally:
        process.close()

    shortened = catalog.loadable(entry, layers=FIRST_LAYERS)
    assert shortened.weights_copy is not None
    assert shortened.weights_copy.is_file()
    assert shortened.tokens_per_s is not None
