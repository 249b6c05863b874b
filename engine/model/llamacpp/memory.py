"""How much memory a model will take, known before its weights are read."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llama_cpp

from engine.errors import ModelError, ModelFileError
from engine.model.interface import LoadOptions
from engine.model.llamacpp.files import check_gguf, forward_log

MOST_CONTEXT = 8192
"""Longest sequence unless a person asks for another."""

ALL_F32 = "0"
"""`general.file_type` of weights that are kept for exactness; their cache is F32 too."""


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that a model will take.

    Attributes:
        weights: Size of the file, which is mapped.
        cache: Key-value cache of all cells.
        available: What the system could give now; None where it does not say.
    """

    weights: int
    cache: int
    available: int | None

    @property
    def total(self) -> int:
        """Weights and cache together."""
        return self.weights + self.cache


def memory_need(path: Path, options: LoadOptions) -> MemoryNeed:
    """What loading `path` with these options will take, from the metadata alone.

    Raises:
        ModelFileError: The file is missing, damaged or of an architecture llama.cpp does not know.
    """
    forward_log()
    check_gguf(path)
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise ModelFileError(
            f"llama.cpp cannot load {path.name}.",
            "The file is damaged or of a newer kind; the worker log says which.",
        )
    try:
        meta = metadata_of(model)
        arch = meta("general.architecture") or ""
        trained = int(meta(f"{arch}.context_length") or MOST_CONTEXT)
        cells = cells_for(context_tokens(options, trained), options)
        width = 4 if meta("general.file_type") == ALL_F32 else 2
        cache = kv_bytes(meta, cells, width)
    finally:
        llama_cpp.llama_model_free(model)
    return MemoryNeed(path.stat().st_size, cache, _available())


def refuse_if_too_large(path: Path, options: LoadOptions) -> None:
    """Refuses to load what the system cannot hold, before it starts to swap.

    Raises:
        ModelError: Weights and cache need more memory than is available.
        ModelFileError: The file cannot be used at all.
    """
    need = memory_need(path, options)
    if need.available is not None and need.total > need.available:
        raise ModelError(
            f"{path.name} needs {need.total / 1e9:.1f} GB, {need.cache / 1e9:.1f} GB of it for its"
            f" context; {need.available / 1e9:.1f} GB are free.",
            "Ask for a smaller context with --context, or use a smaller model.",
        )


def context_tokens(options: LoadOptions, trained: int) -> int:
    """Longest sequence for these options on a model trained for `trained` tokens."""
    return min(options.context or min(trained, MOST_CONTEXT), trained)


def cells_for(context: int, options: LoadOptions) -> int:
    """Cells of the cache: one full sequence and four batches of forks and neighbours."""
    return context + 4 * options.batch


def metadata_of(model: Any) -> Callable[[str], str | None]:
    """A look-up of a loaded model's metadata values as text."""
    buffer = ctypes.create_string_buffer(1 << 16)

    def value(key: str) -> str | None:
        size = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if size >= 0 else None

    return value


def kv_bytes(meta: Callable[[str], str | None], cells: int, width_of_one: int) -> int:
    """Bytes of a key-value cache of `cells` tokens, `width_of_one` bytes a number, from the model's metadata."""
    arch = meta("general.architecture") or ""

    def figure(key: str, default: int) -> int:
        value = meta(f"{arch}.{key}")
        return int(value) if value and value.isdigit() else default

    heads = figure("attention.head_count", 1)
    width = figure("embedding_length", 0) // max(heads, 1)
    kv_heads = figure("attention.head_count_kv", heads)
    key = figure("attention.key_length", width)
    value = figure("attention.value_length", width)
    return figure("block_count", 0) * kv_heads * (key + value) * width_of_one * cells


def _available() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
