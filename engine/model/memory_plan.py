"""Estimates the memory that a model needs and how many of its layers fit on a GPU, from the header of its file; tells
how much memory this machine has.

The cache of a model has a cell for each token of a sequence: the keys and values of all layers, which later tokens
attend to. The compute buffer is what a decode works in. All sizes are bytes.

The compute buffer was measured on llama.cpp 0.3.36 with the default model: it holds the larger of the distributions of
one decode and of one layer's work on a batch. Where the formula errs, it errs upwards, by a few per cent.

Where llama.cpp can use a GPU, as many layers go there as fit into its free memory, as the driver reports it. That was
tried with made-up drivers only: no machine that built this program had a GPU and a llama.cpp that could use it.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from engine.model.generation import PARALLEL
from engine.model.gguf_file import EMBEDDING_TENSOR, GgufFile, bytes_of, read_gguf
from engine.model.interface import LoadOptions

MAX_DEFAULT_CONTEXT = 8192
"""Default length of the longest sequence, in tokens."""

ALL_F32 = 0
"""Value of `general.file_type` of a file whose weights are F32; the cache of its model is F32 too."""

MAX_SEQUENCES = 64
"""Number of sequences of a context whose cache all sequences share, and most sequences that one token may belong to."""

MAX_ROWS = 256
"""Most rows of logits of one decode."""

SEPARATE_BYTES = 512 << 20
"""Most bytes of a cache in which each sequence has cells of its own, where one that all sequences share would be
smaller. Measured with the default model on prompts of 1,000 tokens: 12 sequences write 103 tokens/s, 22 write no
more."""

GPU_OVERHEAD = 600 << 20
"""Bytes of GPU memory reserved for driver and kernels. A guess, not a measurement."""

FLOAT_BYTES, HALF_BYTES = 4, 2
"""Bytes of a number in single and in half precision."""

_LAYER = re.compile(r"^blk\.(?P<layer>\d+)\.")
"""Beginning of the name of a tensor of a layer, as in `blk.3.attn_q.weight`, with the number of the layer."""

_OUTPUTS = ("output.weight", "output_norm.weight")
"""Names of the tensors of the output, which counts as one more layer."""

GPU_QUERY_SECONDS = 10
"""Time limit of a query of the GPU driver."""

BUSY_LOAD = 0.75
"""Load of the last minute, as a share of the cores, from which a measured speed is not compared with speeds of another
time."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes that a loaded model takes.

    Attributes:
        weights: All tensors; they are mapped from the file.
        cache: Keys and values of all cells.
        compute: What a decode works in, and its distributions.
        context: Longest sequence, in tokens, that the estimate is for.
        cells: Cells of the cache in its largest layout; see `max_cells`.
    """

    weights: int
    cache: int
    compute: int
    context: int
    cells: int

    @property
    def total(self) -> int:
        """The bytes of weights, cache and compute buffer together."""
        return self.weights + self.cache + self.compute


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """Which part of a model goes onto the GPU.

    Attributes:
        layers: Number of layers, as llama.cpp's `n_gpu_layers` counts them: the output is one.
        all_layers: Number of layers of the model, counted in the same way.
        used: Bytes of GPU memory that they need with cache and compute buffer; 0 without layers on the GPU.
        free: Bytes of GPU memory that were free.
    """

    layers: int
    all_layers: int
    used: int
    free: int


def estimate(file: GgufFile, options: LoadOptions | None = None) -> MemoryEstimate:
    """Returns the memory that loading a model with these options needs; None stands for the default options."""
    options = options or LoadOptions()
    context = context_tokens(options, _figure(file, "context_length") or MAX_DEFAULT_CONTEXT)
    cell_bytes = sum(_cell_bytes_of_layer(file, layer) for layer in range(_count_layers(file)))
    cells = max_cells(context, options, cell_bytes)
    return MemoryEstimate(
        weights=sum(_tensor_bytes(file).values()),
        cache=cell_bytes * cells,
        compute=_compute_bytes(file, options, shared_cells(context, options)),
        context=context,
        cells=cells,
    )


def context_tokens(options: LoadOptions, trained: int) -> int:
    """Returns the longest sequence for these options on a model trained for `trained` tokens."""
    return min(options.context or min(trained, MAX_DEFAULT_CONTEXT), trained)


def shared_cells(context: int, options: LoadOptions) -> int:
    """Returns the number of cells of a cache that all sequences share: one full sequence and four batches of forks and
    neighbors."""
    return context + 4 * options.batch


def max_cells(context: int, options: LoadOptions, cell_bytes: int) -> int:
    """Returns the most cells that a cache has: those that all sequences share, or those of sequences with cells of
    their own where these are more. An embedding model has no sequences of that kind.

    Args:
        cell_bytes: Bytes of a cell.
    """
    shared = shared_cells(context, options)
    if options.embedding:
        return shared
    return max(shared, min(PARALLEL * context, SEPARATE_BYTES // max(cell_bytes, 1)))


def plan_layers(file: GgufFile, free: int, options: LoadOptions | None = None) -> GpuPlan:
    """Returns how many layers a GPU holds in its free bytes.

    llama.cpp fills it from the output downwards, and keeps the embedding of the tokens in main memory; where the
    output shares that embedding, the GPU gets a copy. A layer brings its part of the cache.
    """
    need = estimate(file, options)
    sizes = _tensor_bytes(file)
    layers = _count_layers(file)
    layer_weights = [0] * layers
    for name, size in sizes.items():
        layer_name = _LAYER.match(name)
        if layer_name and int(layer_name["layer"]) < layers:
            layer_weights[int(layer_name["layer"])] += size
    embedding_copy = 0 if "output.weight" in sizes else sizes.get(EMBEDDING_TENSOR, 0)
    output = embedding_copy + sum(sizes.get(name, 0) for name in _OUTPUTS)
    # What each layer adds, in the order in which they go onto the GPU.
    additions = [output] + [
        layer_weights[layer] + _cell_bytes_of_layer(file, layer) * need.cells
        for layer in reversed(range(layers))
    ]
    used, count = need.compute + GPU_OVERHEAD, 0
    for addition in additions:
        if used + addition > free:
            break
        used, count = used + addition, count + 1
    return GpuPlan(layers=count, all_layers=len(additions), used=used if count else 0, free=free)


def _compute_bytes(file: GgufFile, options: LoadOptions, cells: int) -> int:
    """Returns the larger of the distributions of a decode and of one layer's work, plus the output buffer.

    Args:
        cells: Cells that a decode attends to.
    """
    width = _figure(file, "embedding_length")
    inner = _largest_figure(file, "feed_forward_length")
    heads = _largest_figure(file, "attention.head_count")
    embedding = file.tensors.get(EMBEDDING_TENSOR)
    vocabulary = embedding.shape[-1] if embedding and embedding.shape else 0
    batch, rows = options.batch, min(MAX_ROWS, options.batch)
    if options.embedding:
        distributions, output = 0, FLOAT_BYTES * batch * width
    else:
        distributions = FLOAT_BYTES * rows * (vocabulary + width)
        output = FLOAT_BYTES * MAX_SEQUENCES * vocabulary
    layer = FLOAT_BYTES * batch * (2 * inner + 2 * width)
    if _is_f32(file):
        # Without flash attention every head holds its scores over all cells, and the mask is F32.
        layer += FLOAT_BYTES * batch * cells * (heads + 1)
    else:
        layer += HALF_BYTES * batch * cells
    return max(distributions, layer) + output


def _cell_bytes_of_layer(file: GgufFile, layer: int) -> int:
    """Returns the bytes that a cell takes in one layer: the key and the value of a token."""
    heads = max(1, _layer_figure(file, "attention.head_count", layer))
    head_width = _figure(file, "embedding_length") // heads
    kv_heads = _layer_figure(file, "attention.head_count_kv", layer, heads)
    key = _figure(file, "attention.key_length") or head_width
    value = _figure(file, "attention.value_length") or head_width
    return kv_heads * (key + value) * (FLOAT_BYTES if _is_f32(file) else HALF_BYTES)


def _is_f32(file: GgufFile) -> bool:
    """Returns whether the weights are F32."""
    return file.number("general.file_type") == ALL_F32


def _count_layers(file: GgufFile) -> int:
    """Returns the number of layers that the header names, at most the number of tensors."""
    # A header may claim more layers than there are tensors, which would only cost time.
    return min(_figure(file, "block_count"), len(file.tensors))


def _tensor_bytes(file: GgufFile) -> dict[str, int]:
    """Returns the bytes of each tensor, by name.

    In a format that is not known here a number counts as a byte, and a tensor as at most the whole file: a damaged
    header may claim any shape.
    """
    sizes = {}
    for name, info in file.tensors.items():
        size = bytes_of(info.shape, info.kind)
        sizes[name] = min(math.prod(info.shape), file.size) if size is None else size
    return sizes


def _key(file: GgufFile, name: str) -> str:
    """Returns the key of a metadata value of the architecture."""
    return f"{file.text('general.architecture')}.{name}"


def _figure(file: GgufFile, name: str) -> int:
    """Returns a metadata value of the architecture; 0 if there is none."""
    return max(0, file.number(_key(file, name)) or 0)


def _largest_figure(file: GgufFile, name: str) -> int:
    """Returns a metadata value, or the largest one if each layer has its own."""
    return max((*file.lists.get(_key(file, name), ()), _figure(file, name)))


def _layer_figure(file: GgufFile, name: str, layer: int, default: int = 0) -> int:
    """Returns the metadata value of one layer, which may be one of all layers; `default` if there is none."""
    by_layer = file.lists.get(_key(file, name))
    if by_layer:
        return max(0, by_layer[layer]) if layer < len(by_layer) else 0
    figure = file.number(_key(file, name))
    return default if figure is None else max(0, figure)


# The memory and the load of this machine


def available_memory() -> int | None:
    """Returns the bytes that the system could give now; None where it does not say."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                _, kibibytes, *_ = line.split()
                return int(kibibytes) * 1024
    except OSError:
        pass
    return None


def is_machine_busy(cores: int) -> bool:
    """Returns whether the processors were busy in the last minute; False where the system does not say."""
    try:
        last_minute, _, _ = os.getloadavg()
        return last_minute > BUSY_LOAD * cores
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """The memory of this machine.

    Attributes:
        system: Bytes of memory; None if unknown.
        gpu: Name of the first GPU; "" without one.
        gpu_free: Free bytes of its memory.
    """

    system: int | None
    gpu: str = ""
    gpu_free: int = 0

    @property
    def together(self) -> int | None:
        """The bytes that a model may take on GPU and system together; None if unknown."""
        return None if self.system is None else self.system + self.gpu_free


def machine_memory() -> MachineMemory:
    """Returns the memory of this machine; asks the driver of the GPU if there is one."""
    return MachineMemory(system_memory(), *(first_gpu() or ()))


def system_memory() -> int | None:
    """Returns the bytes of memory of this machine; None if the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def first_gpu(
    field: str = "memory.free", seconds: float = GPU_QUERY_SECONDS
) -> tuple[str, int] | None:
    """Returns the name of the first GPU that CUDA_VISIBLE_DEVICES does not hide, and one of its sizes in bytes, as
    `nvidia-smi` says; None without a GPU.

    Args:
        field: Name of the size in `nvidia-smi`, such as `memory.total`.
        seconds: Time limit of the query.
    """
    try:
        first_line, *_ = _query_gpus(f"name,{field}", seconds)
        name, _, mebibytes = first_line.rpartition(",")
        return name.strip(), int(mebibytes) << 20
    except ValueError:  # also where there is no line
        return None


def count_gpus(seconds: float) -> int:
    """Returns the number of GPUs that `nvidia-smi` lists and CUDA_VISIBLE_DEVICES does not hide; 0 without the tool.

    Args:
        seconds: Time limit of the query.
    """
    return len(_query_gpus("name", seconds))


def _query_gpus(fields: str, seconds: float) -> list[str]:
    """Returns a line of `nvidia-smi` for each GPU that CUDA_VISIBLE_DEVICES does not hide, in its order; none without
    GPU or tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        lines = subprocess.run(
            [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return lines
    chosen: list[str] = []
    # CUDA reads the list up to the first number that is none of a device.
    for device in visible.split(","):
        # An id, which the lines do not have, counts as the next GPU.
        index = int(device) if device.strip().isdecimal() else len(chosen)
        if device.strip() in ("", "-1") or index >= len(lines):
            break
        chosen.append(lines[index])
    return chosen


def with_layers_that_fit(path: Path, options: LoadOptions) -> LoadOptions:
    """Returns the options with as many layers on the GPU as it has room for now.

    Options that name a number of layers stay as they are, and so do all options without a GPU. A model that is going to
    be freed has to be freed before.

    Raises:
        ModelFileError: The file cannot be read.
    """
    gpu = first_gpu() if options.gpu_layers < 0 else None
    if gpu is None:
        return options
    _, free = gpu
    plan = plan_layers(read_gguf(path), free, options)
    return options if plan.layers == plan.all_layers else replace(options, gpu_layers=plan.layers)
