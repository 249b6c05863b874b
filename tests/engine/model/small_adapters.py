"""Small adapters as GGUF files, for the default model unless something else is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

from engine.model.adapter_files import AdapterOrigin
from tests.engine.model.tiny import finish

UNKNOWN = AdapterOrigin()
V = "blk.0.attn_v.weight"
FITTING: Mapping[str, tuple[int, ...]] = {f"{V}.lora_a": (4, 576), f"{V}.lora_b": (192, 4)}
"""Shapes for a projection of the default model."""


def adapter_file(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]] = FITTING,
    *,
    architecture: str = "llama",
    kind: str = "lora",
    origin: AdapterOrigin = UNKNOWN,
    scale: float = 0.02,
) -> Path:
    """An adapter of small random matrices, with values of this size."""
    random = np.random.default_rng(3)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, kind)
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 4.0)
    for key, value in origin.values().items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
    for name, shape in shapes.items():
        writer.add_tensor(name, random.standard_normal(shape, dtype=np.float32) * np.float32(scale))
    finish(writer)
    return path
