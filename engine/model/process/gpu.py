"""Free GPU memory, as the driver reports it, and the number of layers that fit there.

Tried with made-up drivers only: no machine that built this program had a GPU and a llama.cpp that could use it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from engine.model.gguf_file import read_gguf
from engine.model.interface import LoadOptions
from engine.model.memory_plan import plan_layers

DRIVER_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Gpu:
    """The first GPU: its name and its free memory in bytes."""

    name: str
    free: int


def free_gpu() -> Gpu | None:
    """Returns the first GPU with its free memory; None without one."""
    found = first_gpu("memory.free", DRIVER_SECONDS)
    return None if found is None else Gpu(*found)


def first_gpu(field: str, seconds: float) -> tuple[str, int] | None:
    """Asks `nvidia-smi` for the name of the first GPU and one of its sizes in bytes; None without a GPU.

    Args:
        field: Name of the size in `nvidia-smi`, such as `memory.total`.
        seconds: Time limit of the query.
    """
    try:
        name, _, mebibytes = _query(f"name,{field}", seconds)[0].rpartition(",")
        return name.strip(), int(mebibytes) << 20
    except (ValueError, IndexError):
        return None


def count_gpus(seconds: float) -> int:
    """Number of GPUs that `nvidia-smi` lists and CUDA_VISIBLE_DEVICES does not hide; 0 without the tool.

    Args:
        seconds: Time limit of the query.
    """
    listed = len(_query("name", seconds))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return listed
    # CUDA reads the list up to the first number that is none of a device.
    shown = list(takewhile(lambda one: one.strip() not in ("", "-1"), visible.split(",")))
    return min(listed, len(shown))


def _query(fields: str, seconds: float) -> list[str]:
    """A line of `nvidia-smi` for each GPU; none without GPU or tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        return subprocess.run(
            [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def with_layers_that_fit(path: Path, options: LoadOptions) -> LoadOptions:
    """The options with as many layers on the GPU as it has room for now, where all of them were asked for.

    To be asked when no model is loaded that is going to make room.

    Raises:
        ModelFileError: The file cannot be read.
    """
    gpu = free_gpu() if options.gpu_layers < 0 else None
    if gpu is None:
        return options
    plan = plan_layers(read_gguf(path), gpu.free, options)
    return options if plan.layers == plan.of else replace(options, gpu_layers=plan.layers)
