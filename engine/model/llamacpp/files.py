"""Calls llama.cpp for what is about files of models and the machine, not about text.

It writes models in other formats or with fewer layers, looks up metadata, passes its log on, and says what it was built
with. Files that are too large for the memory are refused here.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp

from engine.base.errors import ModelError, ModelFileError, OutOfMemory
from engine.base.files import atomic_replacement, create_private_folder
from engine.model.gguf_file import read_gguf
from engine.model.memory_plan import MemoryEstimate, available_memory

log = logging.getLogger(__name__)

_WARNING, _ERROR = 3, 4
"""llama.cpp's numbers of the levels of its log that are passed on."""

MAX_METADATA_BYTES = 1 << 16
"""Most bytes of a value of the metadata that are read."""

FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}
"""Formats that `quantize` can write, with llama.cpp's number for each."""


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _forward_log(level: int, text: bytes, _data: object) -> None:
    """Passes a line of llama.cpp's log on; llama.cpp calls it."""
    if level in (_WARNING, _ERROR):
        log.warning("llama.cpp: %s", text.decode("utf-8", "replace").rstrip())


def forward_log() -> None:
    """Sends llama.cpp's warnings and errors to `logging`; the callback stays in this module, as it is called later."""
    llama_cpp.llama_log_set(_forward_log, ctypes.c_void_p(0))


def quantize(source: Path, target: Path, kind: str, threads: int) -> None:
    """Writes the weights of `source` in another format, also where they are quantized already.

    Args:
        kind: One of `FILE_TYPES`.

    Raises:
        ModelError: llama.cpp could not write the file.
    """
    params = _writing_params(threads)
    params.ftype = FILE_TYPES[kind]
    params.allow_requantize = True
    _write(source, target, params)


def copy_first_layers(source: Path, target: Path, layers: int, threads: int) -> None:
    """Writes the first layers of `source` in the same format, and deletes the other GGUF files beside `target`, which
    are earlier copies.

    The norm before the output then follows the last of these layers.

    Raises:
        ModelError: llama.cpp could not write the file.
        ModelFileError: `source` is missing, no GGUF file or does not say how many layers it has, or the folder cannot
            be written.
    """
    file = read_gguf(source)
    all_layers = file.number(f"{file.text('general.architecture')}.block_count")
    if all_layers is None:
        raise ModelFileError(
            f"{source.name} does not say how many layers it has.", "Get the file again."
        )
    left_out = [*range(layers, all_layers), -1]  # -1 ends the list
    params = _writing_params(threads)
    params.only_copy = True
    params.prune_layers = (ctypes.c_int32 * len(left_out))(*left_out)
    try:
        create_private_folder(target.parent)
        with atomic_replacement(target) as part:
            _write(source, part, params)
        for other in target.parent.glob("*.gguf"):
            if other != target:
                other.unlink(missing_ok=True)
    except OSError as error:
        raise ModelFileError(
            f"The first layers {target.name} cannot be written: {error.strerror}.",
            "Check the free disk space of the cache folder.",
        ) from error


def _writing_params(threads: int) -> Any:
    """Returns llama.cpp's parameters for writing weights; its log goes to `logging` from now on."""
    forward_log()
    params = llama_cpp.llama_model_quantize_default_params()
    params.nthread = threads
    return params


def _write(source: Path, target: Path, params: Any) -> None:
    """Writes the weights of `source` as the parameters say; raises ModelError if llama.cpp could not."""
    status = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params)
    )
    if status != 0:
        raise ModelError(
            f"llama.cpp could not write {target.name} (status {status}).",
            "Check the free disk space of the cache folder.",
        )


def system_info() -> str:
    """Returns llama.cpp's own line about the features of the CPU and the back ends that it was built with."""
    return str(llama_cpp.llama_print_system_info().decode())


def gpu_offload() -> bool:
    """Whether this build of llama.cpp can use a GPU."""
    return bool(llama_cpp.llama_supports_gpu_offload())


def refuse_if_too_large(path: Path, need: MemoryEstimate) -> None:
    """Refuses to load what the system cannot hold, before it starts to swap.

    Raises:
        OutOfMemory: Weights and cache need more memory than is available.
    """
    available = available_memory()
    if available is not None and need.total > available:
        raise OutOfMemory(
            f"{path.name} needs {need.total / 1e9:.1f} GB, {need.cache / 1e9:.1f} GB of it for its"
            f" context; {available / 1e9:.1f} GB are free.",
            "Ask for a smaller context with --context, or use a smaller model.",
        )


def metadata_reader(model: Any) -> Callable[[str], str | None]:
    """Returns a look-up of a loaded model's metadata values as text."""
    buffer = ctypes.create_string_buffer(MAX_METADATA_BYTES)

    def value(key: str) -> str | None:
        """Returns the value of a key, cut to the buffer; None if there is none."""
        size = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if size >= 0 else None

    return value
