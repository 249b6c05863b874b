"""Lists, chooses, tunes, adds and removes models, for commands and screens.

Facts about the models and adapters on disk are told without loading them. A file is loaded once before it is added, so
that a broken one is refused at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base import folders, number_format
from engine.base.errors import ModelFileError, NotFound, UsageError
from engine.jobs.runner import JobRunner
from engine.model.adapter_files import is_adapter, refuse_other_base
from engine.model.catalog import DEFAULT_MODEL, AdapterEntry, Catalog, ModelEntry
from engine.model.catalog_files import Manifest, delete_pulled, read_manifest
from engine.model.endpoints.endpoint_book import EndpointBook, EndpointEntry
from engine.model.gguf_file import GgufFile, read_gguf
from engine.model.interface import LoadOptions
from engine.model.memory_plan import (
    GpuPlan,
    MachineMemory,
    MemoryEstimate,
    estimate,
    machine_memory,
    plan_layers,
)
from engine.model.process.process import ModelProcess
from engine.model.records import BUILT_IN_LIMITS, WORKS, Fact, ModelRow, Work
from engine.model.service.endpoints import endpoint_summary, work_lines
from engine.model.service.run_setup import RunSetup

BUILT_IN_LICENSE = "apache-2.0"
"""License of the default model and of the adapters that come with the program."""

TEST_CONTEXT_TOKENS = 256
"""Length of the context when a file is loaded as a test."""

Narrate = Callable[[str], None]
"""Shows a sentence to the user."""


class ModelService:
    """Models, endpoints and adapters of this machine, and their use in one project.

    All methods read files, so call them from a thread. Those that take the name of a model raise UsageError when there
    is none of that name.
    """

    def __init__(
        self,
        setup: RunSetup,
        runner: JobRunner,
        changed: Callable[[], None],
    ) -> None:
        """Reads nothing yet.

        Args:
            changed: Called when the catalog or the project's choice of models changed.
        """
        self._catalog, self._in_use, self._setup = setup.catalog, setup.models, setup
        self._folder = Path(os.path.realpath(setup.project.path)).parent
        self._runner, self._changed = runner, changed

    def rows(self) -> list[ModelRow]:
        """Returns models, the built-in one first, then endpoints, then adapters."""
        rows = list_rows(self._catalog, self._folder)
        return [
            row if row.kind == "adapter" else replace(row, works=self._works(row.name))
            for row in rows
        ]

    def facts(self, name: str) -> list[Fact]:
        """Returns all facts about a model, an endpoint or an adapter, for example path, checksum, memory and tuning."""
        works = ", ".join(WORKS[work] for work in self._works(name))
        used_for = [("used for", works)] if works else []
        return [*used_for, *list_facts(self._catalog, name, self._folder)]

    def use(self, name: str, works: Sequence[Work]) -> None:
        """Stores a model as the project's choice for these kinds of work, used when a run names none.

        Raises:
            ProjectReadOnly: The project cannot be written.
        """
        self._in_use.use(name, works)
        self._changed()

    def _works(self, name: str) -> tuple[Work, ...]:
        """Returns the kinds of work that a model or an endpoint is used for."""
        chosen = self._in_use.chosen()
        works = (work for work in WORKS if chosen.get(work, DEFAULT_MODEL) == name)
        return tuple(work for work in works if name != DEFAULT_MODEL or work not in BUILT_IN_LIMITS)

    def removal(self, name: str) -> str:
        """Returns a sentence on what `remove` would do.

        Raises:
            UsageError: It cannot be removed.
        """
        if self._setup.endpoints.book.entry(name) is not None:
            return f"forget the endpoint {name}"
        return removal(find_entry(self._catalog, name))

    def remove(self, name: str) -> None:
        """Deletes a pulled model; removes an added model or an endpoint from the list only."""
        book = self._setup.endpoints.book
        if book.entry(name) is not None:
            book.forget(name)
        else:
            remove(self._catalog, find_entry(self._catalog, name))
        self._changed()

    def add(self, path: str) -> list[str]:
        """Loads a GGUF file once and adds it, or all in a folder, and returns their names.

        Raises:
            ModelFileError: A file is not a sound GGUF file.
        """
        files = ggufs_in(Path(os.path.expanduser(path)).resolve())
        names = [add_file(self._catalog, file, None, lambda line: None).name for file in files]
        self._changed()
        return names

    def tune(self, name: str) -> int:
        """Starts measuring which format of a model is fastest on this machine; returns the job id."""
        return self._runner.start([self._setup.tuning_of(self._catalog.entry(name))])


# Rows and facts


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


def footprint(file: GgufFile, machine: MachineMemory, options: LoadOptions) -> Footprint:
    """Returns the memory that a file needs when it is loaded with these options."""
    need = estimate(file, options)
    plan = plan_layers(file, machine.gpu_free, options) if machine.gpu else None
    system_bytes = need.total - (plan.used if plan else 0)
    return Footprint(need, plan, None if machine.system is None else system_bytes <= machine.system)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model of the catalog.

    Attributes:
        entry: The model.
        size: Bytes of its file; None if the file is gone.
        header: Header of the file that would be loaded; None if it cannot be read (`problem` has the reason).
        footprint: Memory that the file that would be loaded needs on this machine; None if unknown.
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


def list_rows(catalog: Catalog, folder: Path) -> list[ModelRow]:
    """Returns models, the built-in one first, then endpoints, then adapters.

    Args:
        folder: Paths in it are shown relative to it.
    """
    machine = machine_memory()
    return [
        *(_model_row(model_facts(catalog, entry, machine), folder) for entry in catalog.entries()),
        *(
            ModelRow(entry.name, "endpoint", "endpoint", entry.url, note=endpoint_summary(entry))
            for entry in EndpointBook(catalog.data).entries()
        ),
        *(_adapter_row(catalog, entry, folder) for entry in catalog.adapters()),
    ]


def _model_row(facts: ModelFacts, folder: Path) -> ModelRow:
    """Returns the row of a model in the list."""
    footprint, manifest = facts.footprint, facts.manifest
    return ModelRow(
        name=facts.entry.name,
        kind="model",
        origin=facts.entry.origin,
        source=manifest.repository
        if manifest
        else folders.shown_path(facts.entry.path.parent, folder),
        size=facts.size,
        memory=footprint.need.total if footprint else None,
        fits=footprint.fits if footprint else None,
        runs_as=str(facts.entry.tuning["chosen"]) if facts.entry.tuning else "",
        tokens_per_s=facts.tokens_per_s,
        license=facts.license,
        note="" if facts.header is None else facts.header.text("general.name"),
        problem=facts.problem,
    )


def _adapter_row(catalog: Catalog, entry: AdapterEntry, folder: Path) -> ModelRow:
    """Returns the row of an adapter in the list."""
    is_present = entry.path.is_file()
    return ModelRow(
        name=entry.name,
        kind="adapter",
        origin=entry.origin,
        source=folders.shown_path(entry.path.parent, folder),
        size=entry.path.stat().st_size if is_present else None,
        note=_adapter_note(catalog, entry),
        problem="" if is_present else "its file is gone",
    )


def _adapter_note(catalog: Catalog, entry: AdapterEntry) -> str:
    """Returns a line with the base model of an adapter, and with its recipe and AUROC if they are known."""
    provenance = entry.provenance
    base = base_for(catalog, entry.path) if entry.path.is_file() else None
    unlisted = f"{provenance.base_name or 'an unknown base'}, which is not in this list"
    parts = [f"for {base.name if base else unlisted}"]
    if provenance.recipe:
        parts.append(f"recipe {provenance.recipe}")
    if entry.auroc is not None:
        parts.append(f"AUROC {entry.auroc:.3f} on the selection part")
    return ", ".join(parts)


def list_facts(catalog: Catalog, name: str, folder: Path) -> list[Fact]:
    """Returns all facts about a model, an endpoint or an adapter; see `list_rows`.

    Raises:
        UsageError: There is none of this name.
    """
    endpoint = EndpointBook(catalog.data).entry(name)
    if endpoint is not None:
        return _endpoint_details(endpoint)
    entry = find_entry(catalog, name)
    file = ("file", folders.shown_path(entry.path, folder))
    if isinstance(entry, AdapterEntry):
        return [file, *_adapter_details(catalog, entry)]
    machine = machine_memory()
    return [file, *_model_details(catalog, model_facts(catalog, entry, machine), machine)]


def _model_details(catalog: Catalog, facts: ModelFacts, machine: MachineMemory) -> list[Fact]:
    """Returns what is known of a model, in the order in which it is shown."""
    if facts.problem:
        return [("problem", facts.problem)]
    facts_shown: list[Fact] = []
    manifest, header = facts.manifest, facts.header
    if manifest is not None:
        facts_shown += [
            ("from", f"{manifest.repository} on {manifest.hub}"),
            ("commit", manifest.revision),
            ("pulled", manifest.pulled_at),
        ]
    facts_shown += [
        ("license", facts.license or "unknown"),
        ("SHA-256", catalog.sha256(facts.entry.path)),
        ("size", number_format.size(facts.size)),
    ]
    if header is not None:
        arch = header.text("general.architecture")
        trained = header.number(f"{arch}.context_length")
        facts_shown += [
            ("model", f"{header.text('general.name')} ({arch})"),
            ("context", f"trained for {trained or 0:,} tokens"),
        ]
    facts_shown += _memory_details(facts, machine)
    tuning = facts.entry.tuning
    tuning_text = "never tuned on this machine"
    if tuning is not None:
        tuning_text = (
            f"runs as {tuning['chosen']} at {tuning['tokens_per_s']:,.0f} tokens/s,"
            f" {tuning['gain']:.1f} times as fast as the file"
        )
    return [*facts_shown, ("tuning", tuning_text)]


def _memory_details(facts: ModelFacts, machine: MachineMemory) -> list[Fact]:
    """Returns what memory a model needs, and how much of it goes on the GPU; [] if it is not known."""
    footprint = facts.footprint
    if footprint is None:
        return []
    need, plan = footprint.need, footprint.plan
    memory = (
        "memory",
        f"{need.total / 1e9:.2f} GB for logs of {need.context:,} tokens: weights {need.weights / 1e9:.2f},"
        f" cache {need.cache / 1e9:.2f}, work {need.compute / 1e9:.2f}",
    )
    if plan is None:
        return [memory]
    gpu = (
        "GPU",
        f"{plan.layers} of {plan.all_layers} layers, {plan.used / 1e9:.1f} of {plan.free / 1e9:.1f} GB that are"
        f" free on {machine.gpu}",
    )
    return [memory, gpu]


def _adapter_details(catalog: Catalog, entry: AdapterEntry) -> list[Fact]:
    """Returns what is known of an adapter, in the order in which it is shown."""
    adapter = ("adapter", _adapter_note(catalog, entry))
    if not entry.path.is_file():
        return [("problem", "its file is gone"), adapter]
    data = entry.provenance.data_fingerprint
    return [
        adapter,
        ("SHA-256", catalog.sha256(entry.path)),
        ("size", number_format.size(entry.path.stat().st_size)),
        *([("data", data)] if data else []),
    ]


def _endpoint_details(entry: EndpointEntry) -> list[Fact]:
    """Returns what is known of an endpoint, in the order in which it is shown."""
    key = f"from the variable {entry.key_env}" if entry.key_env else "none"
    facts_shown = [("address", entry.url), ("server", entry.can.server), ("key", key)]
    if entry.prices is not None:
        read, written = entry.prices.read, entry.prices.written
        facts_shown.append(("prices", f"{read:g} read, {written:g} written, for a million tokens"))
    if entry.timeout is not None:
        facts_shown.append(("time limit", f"{number_format.duration(entry.timeout)} for a request"))
    return facts_shown + [("work", line) for line in work_lines(entry.can)]


# Files


def base_for(catalog: Catalog, adapter: Path) -> ModelEntry | None:
    """Returns the first model of the catalog that an adapter fits; None if it fits none, or a file cannot be read."""
    for entry in catalog.entries():
        with contextlib.suppress(ModelFileError):
            refuse_other_base(adapter, entry.path)
            return entry
    return None


def find_entry(catalog: Catalog, name: str) -> ModelEntry | AdapterEntry:
    """Returns the model or adapter of this name in the catalog.

    Raises:
        UsageError: There is no such model or adapter.
    """
    entries: list[ModelEntry | AdapterEntry] = [*catalog.entries(), *catalog.adapters()]
    for entry in entries:
        if entry.name == name:
            return entry
    names = ", ".join(entry.name for entry in entries)
    raise NotFound(f"There is no model {name!r}.", f"Known are {names}.")


def ggufs_in(path: Path) -> list[Path]:
    """Returns the GGUF files at a path, a file or a folder without its subfolders.

    Raises:
        UsageError: There is no such file.
    """
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if not files:
        raise NotFound(f"{path} holds no GGUF file.", "Name a file, or a folder that holds some.")
    return files


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
    facts = _load_once(path)
    narrate(
        f"{facts['name']}: {facts['architecture']}, {facts['vocabulary']:,} tokens of vocabulary,"
        f" takes {estimate(read_gguf(path)).total / 1e9:.1f} GB of memory."
    )
    return catalog.add(path, name)


def _add_adapter(catalog: Catalog, path: Path, name: str | None, narrate: Narrate) -> AdapterEntry:
    """Adds an adapter, after loading it on a model that it fits if the catalog has one, and returns its entry."""
    path = catalog.resolve_adapter_path(path)
    base = base_for(catalog, path)
    if base is None:
        narrate("No model of the catalog is its base; add that with `workbench models add` too.")
        return catalog.add_adapter(path, name)
    _load_once(base.path, path)
    narrate(f"An adapter for {base.name}.")
    return catalog.add_adapter(path, name)


def _load_once(path: Path, adapter: Path | None = None) -> dict[str, Any]:
    """Loads a file, with an adapter if one is given, in a model process that ends then; returns the answer to `Load`.

    Raises:
        ModelError: llama.cpp cannot load them, or there is not enough memory.
    """
    process = ModelProcess(folders.log_dir() / "model.log")
    try:
        return process.load(path, LoadOptions(context=TEST_CONTEXT_TOKENS), adapter)
    finally:
        process.close()


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
    return f"delete {entry.name} from the disk, {number_format.size(manifest.file.size)}; it can be pulled again"


def remove(catalog: Catalog, entry: ModelEntry | AdapterEntry) -> None:
    """Deletes a pulled model with its tuned copy; removes an added one from the catalog.

    Raises:
        UsageError: The entry came with the program.
    """
    removal(entry)
    if entry.origin != "pulled":
        catalog.forget(entry.name)
        return
    tuned_copy = _tuned_copy(entry)
    # The same weights under another name use the same copy.
    others = (other for other in catalog.entries() if other.path != entry.path)
    if tuned_copy and tuned_copy not in map(_tuned_copy, others):
        (catalog.cache / tuned_copy).unlink(missing_ok=True)
    delete_pulled(entry.path)


def _tuned_copy(entry: ModelEntry | AdapterEntry) -> str:
    """Returns the file name of the tuned copy that a model runs as; "" if it runs as its own file."""
    tuning = entry.tuning if isinstance(entry, ModelEntry) else None
    return str(tuning["file"] or "") if tuning else ""
