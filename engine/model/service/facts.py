"""Collects facts about the models and adapters on disk without loading them, and the memory that they need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ModelFileError, NotFound
from engine.model.adapter_files import refuse_other_base
from engine.model.catalog import DEFAULT_MODEL, AdapterEntry, Catalog, ModelEntry
from engine.model.gguf_file import GgufFile, read_gguf
from engine.model.interface import LoadOptions
from engine.model.manifest import Manifest, read_manifest
from engine.model.memory_plan import GpuPlan, MachineMemory, MemoryEstimate, estimate, plan_layers


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that a model needs on this machine.

    Attributes:
        plan: The part that would go onto the GPU; None without a GPU.
        fits: Whether it fits into GPU and system memory together; None if the memory is unknown.
    """

    need: MemoryEstimate
    plan: GpuPlan | None
    fits: bool | None


def footprint(
    file: GgufFile, machine: MachineMemory, options: LoadOptions | None = None
) -> Footprint:
    """Returns the memory that a file needs when it is loaded."""
    need = estimate(file, options)
    plan = plan_layers(file, machine.gpu_free, options) if machine.gpu else None
    system_bytes = need.total - (plan.used if plan else 0)
    return Footprint(need, plan, None if machine.system is None else system_bytes <= machine.system)


BUILT_IN_LICENCE = "apache-2.0"
"""License of the default model and of the adapters that come with the program."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model of the catalogue.

    Attributes:
        size: Bytes of all its files; None if the file is gone.
        header: Header of the file that would be loaded; None if it cannot be read (`problem` has the reason).
        footprint: Memory that the file needs on this machine; None if unknown.
        tokens_per_s: Speed measured on this machine; None before it was measured.
        manifest: Source of a pulled model; None for any other.
        problem: Why the file cannot be used; "" if it can be.
    """

    entry: ModelEntry
    size: int | None = None
    header: GgufFile | None = None
    footprint: Footprint | None = None
    tokens_per_s: float | None = None
    manifest: Manifest | None = None
    problem: str = ""

    @property
    def licence(self) -> str:
        """The license that the hub or the file gives; "" if unknown."""
        if self.entry.name == DEFAULT_MODEL:
            return BUILT_IN_LICENCE
        if self.manifest is not None and self.manifest.licence:
            return self.manifest.licence
        return self.header.text("general.license") if self.header else ""

    @property
    def runs_as(self) -> str:
        """The format that the model runs as after tuning; "" before."""
        return str(self.entry.tuning["chosen"]) if self.entry.tuning else ""


def model_facts(catalog: Catalog, entry: ModelEntry, machine: MachineMemory) -> ModelFacts:
    """Returns the facts about a model. A broken file raises no error, but sets `problem`."""
    manifest = read_manifest(entry.path) if entry.origin == "pulled" else None
    try:
        shipped = read_gguf(entry.path)
        runnable = catalog.loadable(entry)
        header = shipped if runnable.path == entry.path else read_gguf(runnable.path)
    except ModelFileError as error:
        size = entry.path.stat().st_size if entry.path.is_file() else None
        problem = "its file is gone" if size is None else error.message
        return ModelFacts(entry, size, manifest=manifest, problem=problem)
    memory_need = footprint(header, machine, runnable.options)
    return ModelFacts(entry, shipped.size, header, memory_need, runnable.tokens_per_s, manifest)


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """Facts about an adapter of the catalogue.

    Attributes:
        size: Bytes of the file; None if the file is gone.
        base: Name of the first model of the catalogue that it fits; None if it fits none.
    """

    entry: AdapterEntry
    size: int | None
    base: str | None

    @property
    def note(self) -> str:
        """A line with base model, recipe and AUROC."""
        made_of = self.entry.made_of
        base = self.base or f"{made_of.base_name or 'an unknown base'}, which is not in this list"
        parts = [f"for {base}"]
        if made_of.recipe:
            parts.append(f"recipe {made_of.recipe}")
        if self.entry.auroc is not None:
            parts.append(f"AUROC {self.entry.auroc:.3f} on the selection part")
        return ", ".join(parts)


def adapter_facts(catalog: Catalog, entry: AdapterEntry) -> AdapterFacts:
    """Returns the facts about an adapter."""
    is_present = entry.path.is_file()
    base = base_for(catalog, entry.path) if is_present else None
    return AdapterFacts(
        entry, entry.path.stat().st_size if is_present else None, base.name if base else None
    )


def base_for(catalog: Catalog, adapter: Path) -> ModelEntry | None:
    """Returns the first model of the catalogue that an adapter fits, or None."""
    for entry in catalog.entries():
        with contextlib.suppress(ModelFileError):
            refuse_other_base(adapter, entry.path)
            return entry
    return None


def find(catalog: Catalog, name: str) -> ModelEntry | AdapterEntry:
    """Returns the model or adapter of this name in the catalogue.

    Raises:
        UsageError: There is none.
    """
    entries: list[ModelEntry | AdapterEntry] = [*catalog.entries(), *catalog.adapters()]
    for entry in entries:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in entries)
    raise NotFound(f"There is no model {name!r}.", f"Known are {names}.")


def ggufs_in(path: Path) -> Iterator[Path]:
    """Yields the GGUF files at a path, a file or a folder without its subfolders; of a split model the first part.

    Raises:
        UsageError: There is none.
    """
    if not path.is_dir():
        yield path
        return
    files = [
        file
        for file in sorted(path.glob("*.gguf"))
        if "-of-" not in file.name or "-00001-of-" in file.name
    ]
    if not files:
        raise NotFound(f"{path} holds no GGUF file.", "Name a file, or a folder that holds some.")
    yield from files
