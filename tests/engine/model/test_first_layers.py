"""The copy with the first layers of the built-in model, as the step that tunes makes it."""

from __future__ import annotations

from pathlib import Path

from engine.model.catalog import FIRST_LAYERS, Catalog
from engine.model.memory_plan import MachineMemory
from engine.model.process.process import ModelProcess
from engine.model.service.model_files import model_facts
from engine.model.stages import measure_first_layers


def test_made_and_measured(tmp_path: Path) -> None:
    """The copy is written and loaded, its speed is stored, and the facts about the model say so."""
    catalog = Catalog(tmp_path / "data", tmp_path / "cache")
    entry = catalog.entry(None)
    machine = MachineMemory(system=None)
    assert model_facts(catalog, entry, machine).first_layers is None
    process = ModelProcess(tmp_path / "model.log")
    try:
        measure_first_layers(process, catalog, entry, "Hello, how can I help? " * 8)
    finally:
        process.close()

    shortened = catalog.loadable(entry, layers=FIRST_LAYERS)
    assert shortened.weights_copy is not None
    assert shortened.weights_copy.is_file()
    said = model_facts(catalog, entry, machine).first_layers
    assert said is not None
    assert said.startswith(
        f"mode probe reads with its first {FIRST_LAYERS} layers, {shortened.tokens_per_s:,.0f}"
    )
