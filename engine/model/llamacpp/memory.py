"""The memory that a model will need, before its weights are read."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp

from engine.base.errors import ModelFileError, OutOfMemory
from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.llamacpp.files import forward_log
from engine.model.memory_plan import available_memory, estimate


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that a model will take.

    Attributes:
        weights, cache, compute: See `engine.model.memory_plan.MemoryEstimate`.
        available: What the system could give now; None where it does not say.
    """

    weights: int
    cache: int
    compute: int
    available: int | None

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.cache + self.compute


def memory_need(path: Path, options: LoadOptions) -> MemoryNeed:
    """What loading `path` with these options will take, from the metadata alone.

    Raises:
        ModelFileError: The file is missing, damaged or of an architecture llama.cpp does not know.
    """
    forward_log()
    need = estimate(read_gguf(path), options)
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelFileError(
            f"llama.cpp cannot load {path.name}.",
            "The file is damaged or of a newer kind; the worker log says which.",
        )
    llama_cpp.llama_model_free(model)
    return MemoryNeed(need.weights, need.cache, need.compute, available_memory())


def refuse_if_too_large(path: Path, options: LoadOptions) -> None:
    """Refuses to load what the system cannot hold, before it starts to swap.

    Raises:
        ModelError: Weights and cache need more memory than is available.
        ModelFileError: The file cannot be used at all.
    """
    need = memory_need(path, options)
    if need.available is not None and need.total > need.available:
        raise OutOfMemory(
            f"{path.name} needs {need.total / 1e9:.1f} GB, {need.cache / 1e9:.1f} GB of it for its"
            f" context; {need.available / 1e9:.1f} GB are free.",
            "Ask for a smaller context with --context, or use a smaller model.",
        )


def metadata_of(model: Any) -> Callable[[str], str | None]:
    """A look-up of a loaded model's metadata values as text."""
    buffer = ctypes.create_string_buffer(1 << 16)

    def value(key: str) -> str | None:
        size = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if size >= 0 else None

    return value
