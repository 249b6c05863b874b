"""Describes the base weights of a run and the machine that trains it, and computes settings, memory and time.

A *microbatch* is the part of a step that is in memory at one time; its *rows* are conversations, padded to one length.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from engine.base.errors import ModelFileError, UsageError
from engine.model.catalog import Catalog
from engine.model.gguf_file import GgufFile, read_gguf
from engine.model.memory_plan import available_memory, first_gpu, system_memory
from engine.training.config import TrainConfig

GPU_SECONDS = 5.0
"""Seconds that the GPU driver may take to answer."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model.

    Attributes:
        layers: Number of blocks.
        hidden, inner: Length of the vector between blocks, and of the one inside a feed-forward layer.
        heads, kv_heads: Number of attention heads, and of heads of keys and values.
        head: Length of the vector of one head.
        vocabulary: Number of tokens.
        tied: Whether the output projection is the embedding.
    """

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    tied: bool = True

    @property
    def linear(self) -> int:
        """The number of weights of the linear layers in all blocks."""
        return self.layers * sum(into * out for into, out in self._linears())

    @property
    def embeddings(self) -> int:
        """The number of weights of the embedding, and of the output projection where it is another matrix."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    def adapter(self, rank: int) -> int:
        """Returns the number of weights of a LoRA adapter on all linear layers."""
        return self.layers * rank * sum(into + out for into, out in self._linears())

    @property
    def query_width(self) -> int:
        """The length of the queries of all heads together."""
        return self.heads * self.head

    @property
    def key_width(self) -> int:
        """The length of the keys of all heads together, which is that of the values too."""
        return self.kv_heads * self.head

    def _linears(self) -> list[tuple[int, int]]:
        """Returns the lengths of input and output of each linear layer in one block."""
        queries = (self.hidden, self.query_width)
        keys = values = (self.hidden, self.key_width)
        attention_output = (self.query_width, self.hidden)
        gate = up = (self.hidden, self.inner)
        down = (self.inner, self.hidden)
        return [queries, keys, values, attention_output, gate, up, down]


@dataclass(frozen=True, slots=True)
class Base:
    """The weights to which a run trains an adapter.

    Attributes:
        path: A GGUF file, or a folder in the format of Hugging Face.
        name: Name for display.
        shape: The sizes of the model; None if unknown.
    """

    path: Path
    name: str
    shape: Shape | None


def base_for(catalog: Catalog, name: str) -> Base:
    """Returns the base with this name or path (file or folder); the default model if the name is empty.

    Raises:
        UsageError: No such model, file or folder exists.
        ModelFileError: The file cannot be read.
    """
    folder = Path(os.path.expanduser(name))
    if name and (folder / "config.json").is_file():
        return Base(folder.resolve(), folder.resolve().name, _shape_of_folder(folder))
    if name and folder.is_dir():
        raise UsageError(
            f"{name} is a folder without weights.",
            "A folder of weights has a config.json as Hugging Face writes it.",
        )
    entry = catalog.entry(name or None)
    return Base(entry.path.resolve(), entry.name, _shape_of_gguf(read_gguf(entry.path)))


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that trains.

    Attributes:
        device: `CPU`, or the name of the GPU.
        memory: Its memory in bytes; None if the system does not report it.
        free: How many bytes of it are free now; None if the system does not report it.
    """

    device: str
    memory: int | None
    free: int | None = None

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU trains."""
        return self.device != "CPU"


def this_machine() -> Machine:
    """Returns the first GPU that the driver lists, else the CPU, with its memory."""
    gpu = first_gpu("memory.total", GPU_SECONDS)
    if gpu is not None:
        name, total_bytes = gpu
        _, free_bytes = first_gpu(seconds=GPU_SECONDS) or (name, None)
        return Machine(name, total_bytes, free_bytes)
    return Machine("CPU", system_memory(), available_memory())


def _shape_of_gguf(file: GgufFile) -> Shape | None:
    """Returns the sizes that the header of a GGUF file names; None if one is missing."""
    arch = file.text("general.architecture")

    def figure(key: str) -> int:
        """Returns a number of the architecture by its key; 0 if the header does not have it."""
        return file.number(f"{arch}.{key}") or 0

    embedding = file.tensors.get("token_embd.weight")
    return _shape(
        {
            "num_hidden_layers": figure("block_count"),
            "hidden_size": figure("embedding_length"),
            "intermediate_size": figure("feed_forward_length"),
            "num_attention_heads": figure("attention.head_count"),
            "num_key_value_heads": figure("attention.head_count_kv"),
            "head_dim": figure("attention.key_length"),
            "vocab_size": embedding.shape[-1] if embedding else 0,
            "tie_word_embeddings": "output.weight" not in file.tensors,
        }
    )


def _shape_of_folder(folder: Path) -> Shape | None:
    """Returns the sizes that the config of a folder names; None if one is missing.

    Raises:
        ModelFileError: The config cannot be read.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"{folder / 'config.json'} cannot be read: {error}.", "Get the folder again."
        ) from error
    return _shape(config) if isinstance(config, dict) else None


def _shape(config: dict[str, Any]) -> Shape | None:
    """Returns the shape that a config of Hugging Face describes; None if a size is missing."""

    def size(key: str) -> int:
        """Returns a size of the config by its key; 0 if the config does not have it."""
        value = config.get(key)
        return value if isinstance(value, int) else 0

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    needed = (size("num_hidden_layers"), hidden, size("intermediate_size"), heads)
    if not all(needed) or not size("vocab_size"):
        return None
    return Shape(
        layers=size("num_hidden_layers"),
        hidden=hidden,
        inner=size("intermediate_size"),
        heads=heads,
        kv_heads=size("num_key_value_heads") or heads,
        head=size("head_dim") or hidden // heads,
        vocabulary=size("vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
    )


# Settings, memory and time of a run
#
# The memory of a run is the peak of its longest step. Weights and adapter are exact up to rounding. Activations are
# those of a transformer of the llama family, which keeps for each token and layer the results that the backward pass
# reads.

LENGTH_STEP = 64
"""Padded lengths are multiples of this. Libraries prepare and keep kernels and memory for each new shape: on a CPU a
conversation of 60 to 400 tokens took 25 MB at its own length, and 4 MB at these lengths."""

LEAST_BUDGET = 1024
"""Tokens that a microbatch may always have. On two cores the default model reads 302 tokens/s at 1,024 tokens a
pass, and 319 tokens/s at twice as many."""

TRAINED_WEIGHT_BYTES = 16
"""Bytes of a weight of the adapter with its gradient and the two moments of AdamW, all in single precision."""

LOGIT_BYTES = 12
"""Bytes of a logit with its softmax and its gradient, in single precision."""

REPORTED_SHARE = 0.9
"""Least share of its nominal memory that a GPU reports: one sold as 24 GB has fewer than 24 GiB, and the display uses a
part."""

GIB = 1 << 30
"""Bytes of a gibibyte."""

ROOM = 0.9
"""Share of the machine's memory that a run may use."""

GPU_LIBRARIES_BYTES = 700 << 20
"""Bytes that libraries and context need on a GPU."""

CPU_LIBRARIES_BYTES = 1400 << 20
"""Bytes of a CPU process before its first long log: the libraries, and memory that is not freed after loading."""

CPU_BUFFER_FACTOR = 1.5
"""Factor for buffers that the libraries keep on the CPU for each length of log: after 30 steps on the demo a process
had 5.1 GB, while its longest log alone needs 3.8 GB."""

VALIDATION_SPEEDUP = 3.0
"""Ratio of validation to training speed: one forward pass against forward and backward (twice the forward)."""

STARTING_SECONDS = 30.0
"""Assumed seconds that every run takes to load weights and to convert the adapter."""

LONG_LOGS = ((80 * GIB, 8192), (24 * GIB, 4096))
"""Memory of a GPU, and the tokens of the longest log that is read on it; the largest memory first."""

LONGEST_LOG = 2048
"""Tokens of the longest log that is read on a smaller GPU and on a CPU."""

GPU_BATCH, CPU_BATCH = 8, 2
"""Number of conversations of a step. It is small on a CPU, where the time of a step is that of its conversations, so
that more and smaller steps take no more time and learn more."""

ROWS = (8, 4, 2, 1)
"""Values of `TrainConfig.rows` that are tried, the fastest first."""


def padded_length(tokens: int) -> int:
    """Returns the length to which a row with a number of tokens is padded."""
    return math.ceil(tokens / LENGTH_STEP) * LENGTH_STEP


def find_token_budget(rows: int, batch: int, longest: int) -> int:
    """Returns the most tokens of a microbatch with several rows, padding included.

    Args:
        rows: Number of conversations of the greatest length that are in memory together.
        batch: Number of conversations of a step.
        longest: Number of tokens of the longest conversation of the run.
    """
    length = padded_length(longest)
    return min(batch * length, max(rows * length, LEAST_BUDGET))


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory in bytes, by what it holds.

    Attributes:
        weights: Weights of the base.
        adapter: Weights of the adapter, their gradients and the state of the optimizer.
        activations: Results of layers that the backward pass reads.
        logits: Logits of all tokens of the vocabulary for each label.
        libraries: Memory of the process before anything is loaded.
    """

    weights: int
    adapter: int
    activations: int
    logits: int
    libraries: int

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return self.weights + self.adapter + self.activations + self.logits + self.libraries


def estimate_memory(
    shape: Shape, config: TrainConfig, longest: int, labels: int, *, gpu: bool
) -> Memory:
    """Returns the estimated peak memory of a run, on the GPU or in the system.

    Args:
        longest: Number of tokens of the longest log, of which at most `config.max_tokens` are read.
        labels: Number of labels in such a log.
        gpu: Whether a GPU trains.
    """
    number_bytes = 2 if config.precision == "bf16" else 4
    longest_read = max(1, min(longest, config.max_tokens))
    budget = find_token_budget(config.rows, config.batch, longest_read)
    layer_bytes = _stored_layer_bytes(shape, config.rank, number_bytes)
    activation_bytes = shape.layers * layer_bytes
    if config.recompute:
        # only the input of each layer is kept; all else is there for one layer at a time
        activation_bytes = shape.layers * shape.hidden * number_bytes + layer_bytes
    return Memory(
        weights=number_bytes * (shape.linear + shape.embeddings),
        adapter=TRAINED_WEIGHT_BYTES * shape.adapter(config.rank),
        activations=int(budget * activation_bytes * (1 if gpu else CPU_BUFFER_FACTOR)),
        # a full microbatch has labels in proportion to its tokens
        logits=int(LOGIT_BYTES * shape.vocabulary * labels * budget / longest_read),
        libraries=GPU_LIBRARIES_BYTES if gpu else CPU_LIBRARIES_BYTES,
    )


def _stored_layer_bytes(shape: Shape, rank: int, number_bytes: int) -> int:
    """Returns the number of bytes that one layer keeps for one token until the backward pass.

    Args:
        rank: Rank of the adapter.
        number_bytes: Bytes of a number in the precision of the base.
    """
    # Numbers in that precision: input and output of the two norms; queries before and after rotation; keys and values,
    # and their copies for the heads that share them.
    attention = 4 * shape.hidden + 5 * shape.query_width + 4 * shape.key_width
    # Gate, up, the activated gate and their product.
    feed_forward = 4 * shape.inner
    # Numbers in single precision, of 4 bytes: the inputs of the norms, and at each of the seven linear layers the input
    # of the adapter and the vector between its two matrices.
    norms = 2 * shape.hidden
    adapter = 5 * shape.hidden + shape.query_width + shape.inner + 7 * rank
    return number_bytes * (attention + feed_forward) + 4 * (norms + adapter)


def longest_log(gpu_memory: int | None) -> int:
    """Returns the tokens of the longest log that is read on a GPU with this memory in bytes; None stands for a CPU."""
    return next(
        (tokens for memory, tokens in LONG_LOGS if (gpu_memory or 0) >= memory * REPORTED_SHARE),
        LONGEST_LOG,
    )


def fit_to_memory(
    config: TrainConfig,
    shape: Shape | None,
    memory: int | None,
    longest: int,
    labels: int,
    *,
    gpu: bool,
    chosen: Collection[str] = (),
) -> TrainConfig:
    """Returns the config with the fastest settings that fit a machine; if none fit, with those that need least memory.

    Args:
        shape: Shape of the base; None where it is unknown, which gives settings that need little memory.
        memory: Memory of the GPU, or else of the system, in bytes; None if unknown.
        longest, labels, gpu: See `estimate_memory`.
        chosen: Names of the fields that the user set, which are not changed.
    """

    def set_to(**values: Any) -> TrainConfig:
        """Returns the config with new values of those fields that the user did not set."""
        return replace(
            config, **{name: value for name, value in values.items() if name not in chosen}
        )

    config = set_to(
        max_tokens=longest_log(memory if gpu else None), batch=GPU_BATCH if gpu else CPU_BATCH
    )
    if shape is None or memory is None:
        return set_to(rows=1, recompute=gpu)
    # the fastest first, the one that needs the least memory last
    candidates = [
        set_to(rows=rows, recompute=recompute)
        for recompute in (False, True)
        for rows in (ROWS if gpu else (1,))
        if rows <= config.batch
    ]
    for candidate in candidates:
        if estimate_memory(shape, candidate, longest, labels, gpu=gpu).total <= ROOM * memory:
            return candidate
    return candidates[-1]


def advice_on(config: TrainConfig, memory: Memory) -> str:
    """Returns advice on which setting to change if a run needs too much memory."""
    if not config.recompute and memory.activations > memory.weights:
        return "Set recompute=true: activations are computed twice instead of kept."
    if config.rows > 1:
        return f"Lower rows (now {config.rows}): fewer conversations are in memory together."
    if memory.activations + memory.logits > memory.weights:
        return f"Lower max_tokens (now {config.max_tokens:,}): of long logs the end is used."
    return "Use a smaller base: the weights need most of it."


def count_steps(config: TrainConfig, conversations: int) -> int:
    """Returns the number of optimizer steps of a run."""
    return max(1, math.ceil(config.epochs * math.ceil(conversations / config.batch)))


def estimate_seconds(
    config: TrainConfig, steps: int, tokens: int, valid: int, speed: float
) -> float:
    """Returns the estimated duration of a run in seconds.

    Args:
        steps: Number of optimizer steps.
        tokens: Number of tokens of one epoch.
        valid: Number of tokens of one validation.
        speed: Training speed in tokens a second.
    """
    validations = 1 + steps / config.valid_every  # the first one precedes all steps
    # tokens of training that take as long as the validations
    validation_tokens = validations * valid / VALIDATION_SPEEDUP
    return STARTING_SECONDS + (config.epochs * tokens + validation_tokens) / speed
