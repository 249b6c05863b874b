"""llama.cpp's own log, and other formats of the same weights."""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path

import llama_cpp

from engine.base.errors import ModelError

log = logging.getLogger(__name__)
_WARNING, _ERROR = 3, 4


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _forward_log(level: int, text: bytes, _data: object) -> None:
    if level in (_WARNING, _ERROR):
        log.warning("llama.cpp: %s", text.decode("utf-8", "replace").rstrip())


def forward_log() -> None:
    """Sends llama.cpp's warnings to `logging`; the callback is a module attribute, so it outlives every call."""
    llama_cpp.llama_log_set(_forward_log, ctypes.c_void_p(0))


FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7, "bf16": 32}
"""Formats that `quantize` can write, with llama.cpp's number for each."""


def quantize(source: Path, target: Path, kind: str, threads: int) -> None:
    """Writes the weights of `source` in another format, allowing already quantised sources.

    Raises:
        ModelError: llama.cpp could not write the file.
    """
    forward_log()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[kind]
    params.allow_requantize = True
    params.nthread = threads
    status = llama_cpp.llama_model_quantize(
        str(source).encode(), str(target).encode(), ctypes.byref(params)
    )
    if status != 0:
        raise ModelError(
            f"llama.cpp could not write {target.name} (status {status}).",
            "Check the free disk space of the cache folder.",
        )


def system_info() -> str:
    """llama.cpp's own line about the CPU features and back ends it was built with."""
    return str(llama_cpp.llama_print_system_info().decode())


def gpu_offload() -> bool:
    """Whether this build of llama.cpp can use a GPU."""
    return bool(llama_cpp.llama_supports_gpu_offload())
