"""Adapter files (GGUF): their metadata, and whether an adapter fits a base model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.base.errors import AdapterError, ModelFileError
from engine.model.base_fingerprint import base_fingerprint
from engine.model.gguf_file import GgufFile, read_gguf

BASE_FINGERPRINT = "workbench.base_fingerprint"
BASE_NAME = "workbench.base_name"
DATA_FINGERPRINT = "workbench.data_fingerprint"
RECIPE = "workbench.recipe"
END_TOKEN = "workbench.end_token"
END_TAG = "workbench.end_tag"

LORA_A, LORA_B = ".lora_a", ".lora_b"
_EMBEDDING = "token_embd.weight"
_FITS_ONE = "Adapters fit only the base model they were trained on."


@dataclass(frozen=True, slots=True)
class AdapterOrigin:
    """How an adapter was trained, from its file and its card.

    Attributes:
        base_fingerprint: See `engine.model.base_fingerprint`; empty for adapters from elsewhere.
        base_name: Name of the base model; for display only.
        data_fingerprint: SHA-256 of the training data; empty if unknown.
        recipe: Recipe of the training; empty if unknown.
        end_token: Token id of the end tag it was trained with, or None.
        end_tag: Text of the end tag it was trained with; empty for a single end token.
    """

    base_fingerprint: str = ""
    base_name: str = ""
    data_fingerprint: str = ""
    recipe: str = ""
    end_token: int | None = None
    end_tag: str = ""

    def values(self) -> dict[str, str | int]:
        """The known fields, by their keys in a GGUF file."""
        texts = {
            BASE_FINGERPRINT: self.base_fingerprint,
            BASE_NAME: self.base_name,
            DATA_FINGERPRINT: self.data_fingerprint,
            RECIPE: self.recipe,
            END_TAG: self.end_tag,
        }
        found: dict[str, str | int] = {key: text for key, text in texts.items() if text}
        if self.end_token is not None:
            found[END_TOKEN] = self.end_token
        return found

    @classmethod
    def of(cls, file: GgufFile) -> AdapterOrigin:
        """Reads the fields from an adapter's file."""
        return cls(
            file.text(BASE_FINGERPRINT),
            file.text(BASE_NAME),
            file.text(DATA_FINGERPRINT),
            file.text(RECIPE),
            file.number(END_TOKEN),
            file.text(END_TAG),
        )


def is_adapter(file: GgufFile) -> bool:
    """Whether the file is an adapter of any kind."""
    return file.text("general.type") == "adapter"


def card_of(adapter: Path) -> Mapping[str, Any]:
    """The card beside an adapter: `card.json` in a run directory, else the adapter's name with `.json`; {} without."""
    for name in ("card.json", f"{adapter.stem}.json"):
        try:
            found = json.loads(adapter.with_name(name).read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def refuse_other_base(adapter: Path, base: Path) -> None:
    """Checks that an adapter was trained on these weights, before llama.cpp loads it.

    An adapter made by this program contains the fingerprint of its base. For other adapters, architecture, tensor names
    and shapes are compared, so an adapter for different weights of the same shape passes.

    Raises:
        ModelFileError: A file cannot be read, is no adapter, or the adapter is one for another base.
    """
    file, weights = read_gguf(adapter), read_gguf(base)
    kind = file.text("adapter.type")
    if not is_adapter(file) or kind != "lora":
        what = f"an adapter of the kind {kind!r}" if is_adapter(file) else "a whole model"
        raise ModelFileError(
            f"{adapter.name} is not an adapter for {base.name}: it is {what}.",
            "Name a LoRA adapter as a GGUF file.",
        )
    reason = _mismatch(file, weights)
    if reason:
        raise ModelFileError(
            f"{adapter.name} is not an adapter for {base.name}: {reason}.", _FITS_ONE
        )


def refuse_without_numbers(adapter: Path) -> None:
    """Checks that the weights of an adapter are finite numbers: with others a model gives no probabilities.

    Raises:
        AdapterError: Some are not.
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
    """The reason why an adapter does not fit a base, or None."""
    theirs, ours = (one.text("general.architecture") for one in (adapter, base))
    if theirs != ours:
        return f"it is for the architecture {theirs or 'unknown'}, not {ours}"
    origin = AdapterOrigin.of(adapter)
    if origin.base_fingerprint and origin.base_fingerprint != base_fingerprint(base):
        name = origin.base_name
        return f"it was trained on {f'{name}, which has ' if name else ''}other weights"
    if not adapter.tensors:
        return "it holds no tensors"
    for name in adapter.tensors:
        reason = _misfit(name, adapter, base)
        if reason:
            return reason
    return None


def _misfit(name: str, adapter: GgufFile, base: GgufFile) -> str | None:
    """The reason why one tensor of an adapter does not fit, or None; B is checked together with its A."""
    if name.endswith("_norm.weight"):
        return None  # llama.cpp passes over those
    target, dot, part = name.rpartition(".")
    if dot + part not in (LORA_A, LORA_B):
        return f"it has a tensor {name!r}, which is no part of a LoRA"
    a, b = (adapter.tensors.get(target + suffix) for suffix in (LORA_A, LORA_B))
    if a is None or b is None:
        return f"it has only one of the two matrices for {target!r}"
    whole = base.tensors.get(target)
    if whole is None:
        return f"it changes {target!r}, which the model does not have"
    if any(len(info.shape) < 2 for info in (a, b, whole)):
        return f"its matrices for {target!r} have the wrong shape"
    # The embedding is looked up by rows, so there A and B lie the other way round.
    made_for = (b.shape[1], a.shape[1]) if target == _EMBEDDING else (a.shape[0], b.shape[1])
    if made_for != whole.shape[:2] or (target != _EMBEDDING and a.shape[1] != b.shape[0]):
        return (
            f"its matrices for {target!r} are for {made_for[0]} x {made_for[1]} weights,"
            f" the model has {whole.shape[0]} x {whole.shape[1]}"
        )
    return None
