"""The memory of this machine, and how much of it a model needs."""

from __future__ import annotations

import os
from dataclasses import dataclass

from engine.model.gguf_file import GgufFile
from engine.model.interface import LoadOptions
from engine.model.memory_plan import GpuPlan, MemoryEstimate, estimate, plan_layers
from engine.model.process.gpu import free_gpu


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """The memory of this machine.

    Attributes:
        system: Bytes of memory; None if unknown.
        gpu: Name of the first GPU; empty without one.
        gpu_free: Free bytes of its memory.
    """

    system: int | None
    gpu: str = ""
    gpu_free: int = 0


def machine_memory() -> MachineMemory:
    """Reads the memory of this machine; asks the driver of the GPU if there is one."""
    try:
        system = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        system = None
    gpu = free_gpu()
    return MachineMemory(system) if gpu is None else MachineMemory(system, gpu.name, gpu.free)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that a model needs on this machine.

    Attributes:
        plan: The part that would go onto the GPU; None without a GPU.
        fits: Whether it fits into GPU and system memory together; None if the memory is unknown.
    """

    need: MemoryEstimate
    plan: GpuPlan | None
    fits: bool | None


def footprint(
    file: GgufFile, machine: MachineMemory, options: LoadOptions | None = None
) -> Footprint:
    """Computes the memory that a file needs when it is loaded."""
    need = estimate(file, options)
    plan = plan_layers(file, machine.gpu_free, options) if machine.gpu else None
    left = need.total - (plan.used if plan else 0)
    return Footprint(need, plan, None if machine.system is None else left <= machine.system)
