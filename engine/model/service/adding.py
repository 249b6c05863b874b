"""Adds files to the catalogue. Each is loaded once first, so that a broken file is refused at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.base import folders
from engine.model.adapter_files import is_adapter
from engine.model.catalog import AdapterEntry, Catalog, ModelEntry
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Memory
from engine.model.service.facts import base_for

ENOUGH_CONTEXT = 256
"""Context in tokens for the test whether a file can be loaded."""

Narrate = Callable[[str], None]


def add_file(
    catalog: Catalog, path: Path, name: str | None, narrate: Narrate
) -> ModelEntry | AdapterEntry:
    """Adds a model or an adapter, or the adapter of a training run's directory.

    Raises:
        ModelError: llama.cpp cannot load it, or there is not enough memory.
        ModelFileError: It is not a valid GGUF file.
        UsageError: There is no such file, or the name is taken.
    """
    if path.is_dir() or is_adapter(read_gguf(path)):
        return _add_adapter(catalog, path, name, narrate)
    process = ModelProcess(folders.log_dir() / "model.log")
    try:
        need = process.ask(Memory(path, LoadOptions()))
        facts = process.load(path, LoadOptions(context=ENOUGH_CONTEXT))
    finally:
        process.close()
    narrate(
        f"{facts['name']}: {facts['architecture']}, {facts['vocabulary']:,} tokens of vocabulary,"
        f" takes {(need['weights'] + need['cache']) / 1e9:.1f} GB of memory."
    )
    return catalog.add(path, name)


def _add_adapter(catalog: Catalog, path: Path, name: str | None, narrate: Narrate) -> AdapterEntry:
    """Adds an adapter after it was loaded on a base that it fits, where one is known."""
    path = catalog.adapter_path(path)
    base = base_for(catalog, path)
    if base is None:
        narrate("No model of the catalog is its base; add that with `workbench models add` too.")
        return catalog.add_adapter(path, name)
    process = ModelProcess(folders.log_dir() / "model.log")
    try:
        process.load(base.path, LoadOptions(context=ENOUGH_CONTEXT), path)
    finally:
        process.close()
    narrate(f"An adapter for {base.name}.")
    return catalog.add_adapter(path, name)
