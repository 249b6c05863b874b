"""Adds model files to the catalogue, verifies them later, and removes them.

A file is loaded once before it is added, so that a broken one is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.base import folders, number_format
from engine.base.errors import ModelFileError, UsageError
from engine.model.adapter_files import is_adapter
from engine.model.catalog import AdapterEntry, Catalog, ModelEntry
from engine.model.catalog_file import file_sha256
from engine.model.catalog_files import delete_pulled, read_manifest
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.process.process import ModelProcess
from engine.model.process.requests import Memory
from engine.model.service.model_files import base_for

TEST_CONTEXT_TOKENS = 256
"""Length of the context when a file is loaded as a test."""

Narrate = Callable[[str], None]
"""Shows a sentence to the user."""


def add_file(
    catalog: Catalog, path: Path, name: str | None, narrate: Narrate
) -> ModelEntry | AdapterEntry:
    """Adds a model, an adapter or the adapter in the folder of a training run, and returns its entry.

    Raises:
        ModelError: llama.cpp cannot load it, or there is not enough memory.
        ModelFileError: The file is not a valid GGUF file.
        UsageError: There is no such file, or the name is taken.
    """
    if path.is_dir() or is_adapter(read_gguf(path)):
        return _add_adapter(catalog, path, name, narrate)
    process = ModelProcess(folders.log_dir() / "model.log")
    try:
        need = process.ask(Memory(path, LoadOptions()))
        facts = process.load(path, LoadOptions(context=TEST_CONTEXT_TOKENS))
    finally:
        process.close()
    narrate(
        f"{facts['name']}: {facts['architecture']}, {facts['vocabulary']:,} tokens of vocabulary,"
        f" takes {(need['weights'] + need['cache']) / 1e9:.1f} GB of memory."
    )
    return catalog.add(path, name)


def _add_adapter(catalog: Catalog, path: Path, name: str | None, narrate: Narrate) -> AdapterEntry:
    """Adds an adapter, after loading it on a model that it fits if the catalogue has one, and returns its entry."""
    path = catalog.adapter_path(path)
    base = base_for(catalog, path)
    if base is None:
        narrate("No model of the catalog is its base; add that with `workbench models add` too.")
        return catalog.add_adapter(path, name)
    process = ModelProcess(folders.log_dir() / "model.log")
    try:
        process.load(base.path, LoadOptions(context=TEST_CONTEXT_TOKENS), path)
    finally:
        process.close()
    narrate(f"An adapter for {base.name}.")
    return catalog.add_adapter(path, name)


def verify(catalog: Catalog, entry: ModelEntry | AdapterEntry) -> str:
    """Computes the checksums of the files again and reads their headers; returns the result in a sentence.

    A pulled file is compared with the checksum of the hub, an added one with the checksum at its first use. Size and
    time of change are not trusted.

    Raises:
        ModelFileError: A file is gone, damaged, or another one than it was.
    """
    manifest = read_manifest(entry.path) if entry.origin == "pulled" else None
    size = read_gguf(entry.path).size
    if manifest is not None:
        for file in manifest.files:
            if file_sha256(entry.path.parent / file.name) != file.sha256:
                raise ModelFileError(
                    f"{file.name} is not what was pulled: its checksum differs.",
                    f"Remove {entry.name} and pull it again.",
                )
        return (
            f"{entry.name} is what {manifest.repository} has: {number_format.size(size)},"
            " checksum and header are right."
        )
    recorded_sha256, current_sha256 = catalog.sha256(entry.path), file_sha256(entry.path)
    if recorded_sha256 != current_sha256:
        raise ModelFileError(
            f"{entry.path.name} is not what it was: its checksum differs from when it was used first.",
            "Get it again; if it was changed on purpose, touch it, so that it is taken for a new file.",
        )
    return f"{entry.name} is as it was: {number_format.size(size)}, checksum {current_sha256[:12]}…, header right."


def removal(entry: ModelEntry | AdapterEntry) -> str:
    """Returns what `remove` would do, as an imperative.

    Raises:
        UsageError: The entry came with the program.
    """
    if entry.origin == "built in":
        raise UsageError(f"{entry.name} came with the program; it stays.")
    manifest = read_manifest(entry.path) if entry.origin == "pulled" else None
    if manifest is None:
        return f"forget {entry.name}; its file stays where it is"
    return f"delete {entry.name} from the disk, {number_format.size(manifest.size)}; it can be pulled again"


def remove(catalog: Catalog, entry: ModelEntry | AdapterEntry) -> None:
    """Deletes a pulled model with its tuned copy; removes an added one from the catalogue.

    Raises:
        UsageError: The entry came with the program.
    """
    removal(entry)
    manifest = read_manifest(entry.path) if entry.origin == "pulled" else None
    if manifest is None:
        catalog.forget(entry.name)
        return
    tuned_copy = _tuned_copy(entry)
    # The same weights under another name use the same copy.
    others = (other for other in catalog.entries() if other.path != entry.path)
    if tuned_copy and tuned_copy not in map(_tuned_copy, others):
        (catalog.cache / tuned_copy).unlink(missing_ok=True)
    delete_pulled(entry.path, manifest)


def _tuned_copy(entry: ModelEntry | AdapterEntry) -> str:
    """Returns the file name of the tuned copy that a model runs as; "" if it runs as its own file."""
    tuning = entry.tuning if isinstance(entry, ModelEntry) else None
    return str(tuning["file"] or "") if tuning else ""
