"""A fingerprint of a model's weights that is the same for every format of them.

The fingerprint covers architecture, sizes and the vectors of the norms. Every GGUF file keeps those in F32 whatever
the format of the rest, and training leaves them as they are, so that the shipped file, its tuned copies and the model
that an adapter was trained on have one fingerprint. They are rounded to BF16 first, because training may load them so.

Limitation: models that differ only in their matrices, such as one with an adapter merged into it, have the same
fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from engine.model.gguf_file import GgufFile

_VERSION = "n1"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model; None where they differ by layer."""

    layers: int | None
    width: int | None
    inner: int | None
    heads: int | None
    kv_heads: int | None
    vocabulary: int | None


def fingerprint(architecture: str, sizes: Sizes, norms: Mapping[str, NDArray[np.float32]]) -> str:
    """The fingerprint of a model.

    Args:
        architecture: Name of the architecture in GGUF.
        norms: Flat weights of the norms by tensor name.
    """
    head = {"architecture": architecture, **asdict(sizes)}
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for name in sorted(norms):
        digest.update(f"\n{name} {len(norms[name])}\n".encode())
        digest.update(_as_bf16(norms[name]).tobytes())
    return f"{_VERSION}:{digest.hexdigest()}"


def base_fingerprint(file: GgufFile) -> str | None:
    """The fingerprint of the weights in a file; None if its norms are quantised.

    Raises:
        ModelFileError: The file is damaged.
    """
    arch = file.text("general.architecture")
    heads = file.number(f"{arch}.attention.head_count")
    embedding = file.tensors.get("token_embd.weight")
    sizes = Sizes(
        layers=file.number(f"{arch}.block_count"),
        width=file.number(f"{arch}.embedding_length"),
        inner=file.number(f"{arch}.feed_forward_length"),
        heads=heads,
        kv_heads=file.number(f"{arch}.attention.head_count_kv") or heads,
        vocabulary=embedding.shape[-1] if embedding else None,
    )
    norms = {}
    for name, info in file.tensors.items():
        if name.endswith("_norm.weight") and len(info.shape) == 1:
            vector = file.vector(name)
            if vector is None:
                return None
            norms[name] = vector
    return fingerprint(arch, sizes, norms) if norms else None


def _as_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """BF16 as 16-bit integers, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.asarray(rounded, dtype="<u2")
