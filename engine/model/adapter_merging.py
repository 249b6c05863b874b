"""Merges an adapter into a copy of its base weights, so that scoring with it costs no extra time.

llama.cpp applies an adapter at run time, which costs two fifths of the speed on a CPU. Merged weights are rounded to
16 bits once more.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.errors import AdapterError, ModelFileError
from engine.base.files import make_folder, replacing
from engine.model.adapter_files import LORA_A, LORA_B, refuse_other_base, refuse_without_numbers
from engine.model.gguf_file import BF16, F16, F32, GgufFile, read_gguf

LARGEST = 2_000_000_000
"""Largest base, in bytes, for which a merged copy per adapter is worth the disk space."""

MERGED = ("bf16", "f16")
"""Formats of tuned weights that an adapter is merged into."""

KEPT = 3
"""Number of merged copies kept in a folder: those used last."""

Matrix = NDArray[np.float32]


def merge(base: Path, adapter: Path, out: Path) -> None:
    """Writes the merged weights atomically, and removes copies beyond the `KEPT` that were used last.

    Args:
        base: A GGUF file in BF16, F16 or F32.

    Raises:
        ModelFileError: A file cannot be read or written, or the adapter is one for another base.
        AdapterError: The adapter has values that are not numbers.
        ModelError: The base is in another format.
    """
    refuse_other_base(adapter, base)
    refuse_without_numbers(adapter)
    weights, file = read_gguf(base), read_gguf(adapter)
    make_folder(out.parent)
    try:
        with replacing(out) as part:
            shutil.copyfile(base, part)
            for name in file.tensors:
                if name.endswith(LORA_A):
                    _add(part, weights, name.removesuffix(LORA_A), file)
    except OSError as error:
        raise ModelFileError(
            f"The merged weights {out.name} cannot be written: {error.strerror}.",
            "Check the free disk space of the cache folder.",
        ) from error
    for old in sorted(out.parent.glob("*.gguf"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        old.unlink(missing_ok=True)


def _add(path: Path, weights: GgufFile, target: str, adapter: GgufFile) -> None:
    """Adds `alpha / rank * B @ A` to one matrix of the file at `path`."""
    info = weights.tensors[target]
    if info.kind not in _STORED:
        raise AdapterError(f"{target} is in a format that no adapter can be added to.")
    a, b = _matrix(adapter, target + LORA_A), _matrix(adapter, target + LORA_B)
    alpha = float(adapter.values.get("adapter.lora.alpha", 0.0)) or float(len(a))
    before = weights.vector(target)
    assert before is not None
    after = before.reshape(len(b), -1) + (alpha / len(a)) * (b @ a)
    with path.open("rb+") as file:
        file.seek(info.offset)
        file.write(_STORED[info.kind](after).tobytes())


def _matrix(file: GgufFile, name: str) -> Matrix:
    """A matrix in the row order of GGUF."""
    flat = file.vector(name)
    if flat is None:
        raise AdapterError(f"{name} is in a format that cannot be read.")
    return flat.reshape(-1, file.tensors[name].shape[0])


def _rounded(values: Matrix) -> NDArray[np.uint16]:
    """Rounds to BF16: to nearest, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


_STORED: dict[int, Callable[[Matrix], NDArray[Any]]] = {
    BF16: _rounded,
    F16: lambda values: values.astype("<f2"),
    F32: lambda values: values.astype("<f4"),
}
"""How a matrix is written in each format that an adapter can be added to."""
