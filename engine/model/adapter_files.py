"""Adapter files (GGUF): their metadata, and whether an adapter fits a base model.

An adapter of the kind LoRA changes a matrix of weights, a tensor of the file, by the product `B @ A` of two narrow
matrices, scaled by alpha / rank, where the rank is their common length.

A base is known by a fingerprint that is the same for every format of its weights. It covers architecture, sizes and the
vectors of the norms. Every GGUF file keeps those in F32 whatever the format of the rest, and training leaves them as
they are, so that the shipped file, its tuned copies and the model that an adapter was trained on have one fingerprint.
They are rounded to BF16 first, because training may load them so. Models that differ only in their matrices, such as
one with an adapter merged into it, have the same fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import AdapterError, ModelFileError
from engine.model.gguf_file import EMBEDDING_TENSOR, GgufFile, read_gguf

_VERSION = "n1"
"""Version of the fingerprint of an adapter; another way to compute the fingerprint gets another version."""

KEY_PREFIX = "workbench."
"""Beginning of the key of each field of `AdapterOrigin` in the metadata of an adapter."""

LORA_A, LORA_B = ".lora_a", ".lora_b"
"""Endings of the names of the two matrices that change a tensor: it becomes the tensor plus `B @ A`, scaled."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a model; None where its file names none, or another one for each layer.

    Attributes:
        layers: Number of blocks.
        width, inner: Length of the vector that goes from block to block, and of that inside a feed-forward layer.
        heads, kv_heads: Number of attention heads, and of those that keys and values have.
        vocabulary: Number of tokens.
    """

    layers: int | None
    width: int | None
    inner: int | None
    heads: int | None
    kv_heads: int | None
    vocabulary: int | None


def fingerprint(architecture: str, sizes: Sizes, norms: Mapping[str, NDArray[np.float32]]) -> str:
    """Returns the fingerprint of a model.

    Args:
        architecture: Name of the architecture in GGUF.
        sizes: The sizes of the model.
        norms: Weights of the norms by tensor name, each of shape (numbers,).
    """
    head = {"architecture": architecture, **asdict(sizes)}
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for name in sorted(norms):
        digest.update(f"\n{name} {len(norms[name])}\n".encode())
        digest.update(_as_bf16(norms[name]).tobytes())
    return f"{_VERSION}:{digest.hexdigest()}"


def base_fingerprint(file: GgufFile) -> str | None:
    """Returns the fingerprint of the weights in a file; None if it has no norms, or a quantised one.

    Raises:
        ModelFileError: The file is damaged.
    """
    arch = file.text("general.architecture")
    heads = file.number(f"{arch}.attention.head_count")
    embedding = file.tensors.get(EMBEDDING_TENSOR)
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
    """Returns numbers rounded to BF16, to nearest, ties to even, as 16-bit integers of the same shape."""
    # BF16 is the upper half of F32. Half of its last place is added before the lower half is cut off: just below a half
    # if the last bit is even, so that a tie is rounded down, else exactly a half.
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    return np.asarray(rounded, dtype="<u2")


@dataclass(frozen=True, slots=True)
class AdapterOrigin:
    """How an adapter was trained, from its file and its card.

    Attributes:
        base_fingerprint: Fingerprint of its base (see the beginning of this file); empty if another program made the
            adapter.
        base_name: Name of the base model; for display only.
        data_fingerprint: SHA-256 of the training data; empty if unknown.
        recipe: Recipe of the training; empty if unknown.
        end_token: Id of the end token it was trained with, or None.
    """

    base_fingerprint: str = ""
    base_name: str = ""
    data_fingerprint: str = ""
    recipe: str = ""
    end_token: int | None = None

    def values(self) -> dict[str, str | int]:
        """Returns the values of the fields that are known, by their keys in a GGUF file."""
        return {
            KEY_PREFIX + name: value
            for name, value in asdict(self).items()
            if value not in ("", None)
        }

    @classmethod
    def from_file(cls, file: GgufFile) -> AdapterOrigin:
        """Reads the fields from an adapter's file."""
        texts = {
            field.name: file.text(KEY_PREFIX + field.name)
            for field in fields(cls)
            if field.name != "end_token"
        }
        return cls(**texts, end_token=file.number(KEY_PREFIX + "end_token"))


def is_adapter(file: GgufFile) -> bool:
    """Whether the file is an adapter of any kind."""
    return file.text("general.type") == "adapter"


def read_card(adapter: Path) -> Mapping[str, Any]:
    """Returns the content of the JSON card beside an adapter; {} if there is none that can be read.

    The card of a training run is called `card.json`, that of another adapter like its file, with the ending `.json`.
    """
    for name in ("card.json", f"{adapter.stem}.json"):
        try:
            card = json.loads(adapter.with_name(name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(card, dict):
            return card
    return {}


def refuse_other_base(adapter: Path, base: Path) -> None:
    """Checks that an adapter was trained on these weights, before llama.cpp loads it.

    An adapter made by this program contains the fingerprint of its base. For other adapters, architecture, tensor names
    and shapes are compared, so an adapter for different weights of the same shape passes.

    Raises:
        ModelFileError: A file cannot be read, or the adapter is none of the kind LoRA for this base.
    """
    file, weights = read_gguf(adapter), read_gguf(base)
    kind = file.text("adapter.type")
    if not is_adapter(file) or kind != "lora":
        what = f"an adapter of the kind {kind!r}" if is_adapter(file) else "a whole model"
        raise ModelFileError(
            f"{adapter.name} is not an adapter for {base.name}: it is {what}.",
            "Name a LoRA adapter as a GGUF file.",
        )
    if file.text(f"{KEY_PREFIX}end_tag"):
        raise ModelFileError(
            f"{adapter.name} was trained to end with a text, not with the end token of its base.",
            "Train another one.",
        )
    reason = _mismatch(file, weights)
    if reason:
        raise ModelFileError(
            f"{adapter.name} is not an adapter for {base.name}: {reason}.",
            "Adapters fit only the base model they were trained on.",
        )


def refuse_broken_weights(adapter: Path) -> None:
    """Checks that the weights of an adapter are finite numbers: with others a model gives no probabilities.

    Tensors in formats that `GgufFile.vector` does not read are not checked.

    Raises:
        AdapterError: A weight is not finite.
        ModelFileError: The file cannot be read.
    """
    file = read_gguf(adapter)
    for name in file.tensors:
        weights = file.vector(name)
        if weights is not None and not np.isfinite(weights).all():
            raise AdapterError(
                f"The adapter {adapter.name} is broken: in {name} it has values that are not numbers.",
                "Use another adapter, or train it again with a lower learning_rate.",
            )


def _mismatch(adapter: GgufFile, base: GgufFile) -> str | None:
    """Returns the reason why an adapter does not fit a base: its architecture, the weights that it was trained on, or
    its tensors; None if it fits."""
    adapter_architecture, base_architecture = (
        gguf.text("general.architecture") for gguf in (adapter, base)
    )
    if adapter_architecture != base_architecture:
        return f"it is for the architecture {adapter_architecture or 'unknown'}, not {base_architecture}"
    origin = AdapterOrigin.from_file(adapter)
    if origin.base_fingerprint and origin.base_fingerprint != base_fingerprint(base):
        name = origin.base_name
        return f"it was trained on {f'{name}, which has ' if name else ''}other weights"
    if not adapter.tensors:
        return "it holds no tensors"
    for name in adapter.tensors:
        reason = _tensor_mismatch(name, adapter, base)
        if reason:
            return reason
    return None


def _tensor_mismatch(name: str, adapter: GgufFile, base: GgufFile) -> str | None:
    """Returns the reason why one tensor of an adapter does not fit a base; None if it fits or is passed over.

    The two matrices of a LoRA, A and B, are checked together.
    """
    if name.endswith("_norm.weight"):
        return None  # llama.cpp passes over norms
    target, dot, part = name.rpartition(".")
    if dot + part not in (LORA_A, LORA_B):
        return f"it has a tensor {name!r}, which is no part of a LoRA"
    a, b = (adapter.tensors.get(target + suffix) for suffix in (LORA_A, LORA_B))
    if a is None or b is None:
        return f"it has only one of the two matrices for {target!r}"
    weights = base.tensors.get(target)
    if weights is None:
        return f"it changes {target!r}, which the model does not have"
    # Shapes in the order of GGUF, the fastest dimension first: A (inputs, rank), B (rank, outputs), weights (inputs,
    # outputs). The embedding is looked up by rows, so there A and B lie the other way round.
    inputs, outputs = a.shape[:1], b.shape[1:2]
    ranks_agree = a.shape[1:2] == b.shape[:1]
    if target == EMBEDDING_TENSOR:
        inputs, outputs, ranks_agree = b.shape[1:2], a.shape[1:2], True
    if weights.shape[:2] != inputs + outputs or not ranks_agree:
        fitting, present = (
            " x ".join(map(str, shape)) for shape in (inputs + outputs, weights.shape[:2])
        )
        return f"its matrices for {target!r} are for {fitting} weights, the model has {present}"
    return None
