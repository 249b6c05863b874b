"""llama.cpp through its low-level API: the only place that imports `llama_cpp`.

Imported in the model process only, because loading and the native code write to the descriptors that a terminal
interface draws on.
"""

from engine.model.llamacpp.files import (
    copy_first_layers,
    gpu_offload,
    memory_need,
    quantize,
    system_info,
)
from engine.model.llamacpp.model import LlamaModel

__all__ = [
    "LlamaModel",
    "copy_first_layers",
    "gpu_offload",
    "memory_need",
    "quantize",
    "system_info",
]
