"""The base weights of a run, and the machine it is trained on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.base.errors import ModelFileError, UsageError
from engine.model.catalog import Catalog
from engine.model.gguf_file import GgufFile, read_gguf
from engine.model.memory_plan import available_memory, first_gpu, system_memory
from engine.training.presets import Shape

GPU_SECONDS = 5.0
"""Seconds that the GPU driver may take to answer."""


@dataclass(frozen=True, slots=True)
class Base:
    """The weights that a run adapts.

    Attributes:
        path: A GGUF file, or a folder in the format of Hugging Face.
        name: Name for display.
        shape: The sizes of the model; None if unknown.
    """

    path: Path
    name: str
    shape: Shape | None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of weights, which llama.cpp cannot read."""
        return self.path.is_dir()


def base_for(catalog: Catalog, name: str) -> Base:
    """Returns the base with this name or path (file or folder); the default model if the name is empty.

    Raises:
        UsageError: No such model, file or folder exists.
        ModelFileError: The file cannot be read.
    """
    folder = Path(os.path.expanduser(name))
    if name and (folder / "config.json").is_file():
        return Base(folder.resolve(), folder.resolve().name, _shape_of_folder(folder))
    if name and folder.is_dir():
        raise UsageError(
            f"{name} is a folder without weights.",
            "A folder of weights has a config.json as Hugging Face writes it.",
        )
    entry = catalog.entry(name or None)
    return Base(entry.path.resolve(), entry.name, _shape_of_gguf(read_gguf(entry.path)))


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that trains.

    Attributes:
        device: `CPU`, or the name of the GPU.
        memory: Its memory in bytes; None if the system does not report it.
        free: How many bytes of it are free now; None if the system does not report it.
    """

    device: str
    memory: int | None
    free: int | None = None

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU trains."""
        return self.device != "CPU"


def this_machine() -> Machine:
    """Returns the first GPU that the driver lists, else the CPU."""
    gpu = first_gpu("memory.total", GPU_SECONDS)
    if gpu is not None:
        name, total_bytes = gpu
        _, free_bytes = first_gpu(seconds=GPU_SECONDS) or (name, None)
        return Machine(name, total_bytes, free_bytes)
    return Machine("CPU", system_memory(), available_memory())


def _shape_of_gguf(file: GgufFile) -> Shape | None:
    """Returns the sizes that the header of a GGUF file names; None if one is missing."""
    arch = file.text("general.architecture")

    def figure(key: str) -> int:
        """Returns a number of the architecture by its key; 0 if the header has none."""
        return file.number(f"{arch}.{key}") or 0

    heads, hidden = figure("attention.head_count"), figure("embedding_length")
    embedding = file.tensors.get("token_embd.weight")
    return _shape(
        {
            "num_hidden_layers": figure("block_count"),
            "hidden_size": hidden,
            "intermediate_size": figure("feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": figure("attention.head_count_kv"),
            "head_dim": figure("attention.key_length"),
            "vocab_size": embedding.shape[-1] if embedding else 0,
            "tie_word_embeddings": "output.weight" not in file.tensors,
        }
    )


def _shape_of_folder(folder: Path) -> Shape | None:
    """Returns the sizes that the config of a folder names; None if one is missing."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{folder / 'config.json'} cannot be read: {error}.", "Get the folder again."
        ) from error
    return _shape(config) if isinstance(config, dict) else None


def _shape(config: dict[str, Any]) -> Shape | None:
    """Reads a shape from a Hugging Face config; None if a size is missing."""

    def size(key: str) -> int:
        """Returns a size of the config by its key; 0 if it has none."""
        value = config.get(key)
        return value if isinstance(value, int) else 0

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    needed = (size("num_hidden_layers"), hidden, size("intermediate_size"), heads)
    if not all(needed) or not size("vocab_size"):
        return None
    return Shape(
        layers=size("num_hidden_layers"),
        hidden=hidden,
        inner=size("intermediate_size"),
        heads=heads,
        kv_heads=size("num_key_value_heads") or heads,
        head=size("head_dim") or hidden // heads,
        vocabulary=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
    )
