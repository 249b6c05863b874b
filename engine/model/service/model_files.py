"""The models and adapters on disk: facts about them without loading them, adding them, verifying and removing them.

A file is loaded once before it is added, so that a broken one is refused at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base import folders, number_format
from engine.base.errors import ModelFileError, NotFound, UsageError
from engine.model.adapter_files import is_adapter, refuse_other_base
from engine.model.catalog import DEFAULT_MODEL, AdapterEntry, Catalog, ModelEntry
from engine.model.catalog_files import Manifest, delete_pulled, file_sha256, read_manifest
from engine.model.gguf_file import GgufFile, read_gguf
from engine.model.interface import LoadOptions
from engine.model.memory_plan import GpuPlan, MachineMemory, MemoryEstimate, estimate, plan_layers
from engine.model.process.process import ModelProcess

BUILT_IN_LICENSE = "apache-2.0"
"""License of the default model and of the adapters that come with the program."""

TEST_CONTEXT_TOKENS = 256
"""Length of the context when a file is loaded as a test."""

SHOWN_CHECKSUM_DIGITS = 12
"""Number of digits of a checksum that are shown."""

Narrate = Callable[[str], None]
"""Shows a sentence to the user."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that a model needs on this machine.

    Attributes:
        need: The memory in bytes, by what it is for.
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


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model of the catalog.

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
    def license(self) -> str:
        """The license that the hub or the file gives; "" if unknown."""
        if self.entry.name == DEFAULT_MODEL:
            return BUILT_IN_LICENSE
        if self.manifest is not None and self.manifest.license:
            return self.manifest.license
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
    return ModelFacts(
        entry,
        size=shipped.size,
        header=header,
        footprint=footprint(header, machine, runnable.options),
        tokens_per_s=runnable.tokens_per_s,
        manifest=manifest,
    )


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """Facts about an adapter of the catalog.

    Attributes:
        size: Bytes of the file; None if the file is gone.
        base: Name of the first model of the catalog that it fits; None if it fits none.
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
    """Returns the first model of the catalog that an adapter fits, or None."""
    for entry in catalog.entries():
        with contextlib.suppress(ModelFileError):
            refuse_other_base(adapter, entry.path)
            return entry
    return None


def find(catalog: Catalog, name: str) -> ModelEntry | AdapterEntry:
    """Returns the model or adapter of this name in the catalog.

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


def add_file(
    catalog: Catalog, path: Path, name: str | None, narrate: Narrate
) -> ModelEntry | AdapterEntry:
    """Adds a model, an adapter or the adapter in the folder of a training run, and returns its entry.

    Args:
        name: Its name in the catalog; None for that of the file or the run.
        narrate: Called with sentences on what was added.

    Raises:
        ModelError: llama.cpp cannot load it, or there is not enough memory.
        ModelFileError: The file is not a valid GGUF file.
        UsageError: There is no such file, or the name is taken.
    """
    if path.is_dir() or is_adapter(read_gguf(path)):
        return _add_adapter(catalog, path, name, narrate)
    process = ModelProcess(folders.log_dir() / "model.log")
    try:
        facts = process.load(path, LoadOptions(context=TEST_CONTEXT_TOKENS))
    finally:
        process.close()
    narrate(
        f"{facts['name']}: {facts['architecture']}, {facts['vocabulary']:,} tokens of vocabulary,"
        f" takes {estimate(read_gguf(path)).total / 1e9:.1f} GB of memory."
    )
    return catalog.add(path, name)


def _add_adapter(catalog: Catalog, path: Path, name: str | None, narrate: Narrate) -> AdapterEntry:
    """Adds an adapter, after loading it on a model that it fits if the catalog has one, and returns its entry."""
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
    shown_sha256 = current_sha256[:SHOWN_CHECKSUM_DIGITS]
    return f"{entry.name} is as it was: {number_format.size(size)}, checksum {shown_sha256}…, header right."


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
    """Deletes a pulled model with its tuned copy; removes an added one from the catalog.

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
