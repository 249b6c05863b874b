"""Memory and time of a training run, the settings that fit a machine, and how a step is split to fit. Formulas only: no
files, no processes; standard library only, since the trainer splits its steps by them.

Memory is the peak of the longest step. Weights and adapter are exact up to rounding; activations are counted for a
transformer of the llama family, which keeps for each token and layer what the backward pass reads.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from engine.base.errors import NotFound, UsageError
from engine.training.config import ConfigError, TrainConfig

# How the conversations of one optimizer step are split into microbatches: cheapest first, within a token budget

LENGTH_STEP = 64
"""Padded lengths are multiples of this. Libraries prepare kernels and memory for each shape that they meet, and keep
them: on a CPU a conversation of 60 to 400 tokens cost 25 MB at its own length, 4 MB at these lengths."""

LEAST_BUDGET = 1024
"""Tokens that a microbatch may always have. On two cores the default model reads 302 tokens/s at 1,024 tokens a
pass, and 319 tokens/s at twice as many."""

PASS_COST = 100
"""Cost of one forward and backward pass beside its tokens, in tokens. On two cores with the default model a pass
over 128 tokens takes 0.53 s, and one over eight rows of 128 takes 2.75 s. Not measured on a GPU."""


BITS_4_BYTES = 0.5625
"""Bytes of one weight in 4 bits: half a byte, and the scale of its block."""

TRAINED_WEIGHT_BYTES = 16
"""Bytes of one weight of the adapter: itself, its gradient and the two moments of AdamW, all in single precision."""

LOGIT_BYTES = 12
"""Bytes of one logit: itself, its softmax and its gradient, in single precision."""

SOLD_SHARE = 0.9
"""Share of its memory that a GPU reports at least: one sold as 24 GB has fewer than 24 GiB, and the display uses a
part."""

GIB = 1 << 30
"""Bytes of a gibibyte."""

ROOM = 0.9
"""Share of the machine's memory that a run may use."""

GPU_LIBRARIES = 700 << 20
"""Bytes that libraries and context need on a GPU."""

CPU_LIBRARIES = 1400 << 20
"""Bytes of a CPU process before its first long log: the libraries, and memory not freed after loading the weights."""

CPU_KEPT = 1.5
"""Factor for buffers that the libraries keep on the CPU for each length of log so far: after 30 steps on the demo a
process held 5.1 GB, while its longest log alone needs 3.8 GB."""

VALIDATION_SPEEDUP = 3.0
"""Ratio of validation to training speed: one forward pass against forward and backward (twice the forward)."""

TRAINING_COST = 4.0
"""Ratio of the time for training on a token to scoring it with llama.cpp; assumed until a run was measured."""

STARTING_SECONDS = 30.0
"""Assumed time of every run for loading weights, converting the adapter and comparing it with llama.cpp."""

LONG_LOGS = ((80 * GIB, 8192), (24 * GIB, 4096))
"""Memory of a GPU and the tokens of the longest log there, the largest first."""

LONGEST_LOG = 2048
"""Tokens of the longest log on a smaller GPU and on a CPU."""

GPU_BATCH, CPU_BATCH = 8, 2
"""Conversations of a step. Few on a CPU: there a step costs as much as its conversations, so more and smaller steps
cost nothing extra and learn more."""

ROWS = (8, 4, 2, 1)
"""Values of `TrainConfig.rows` to try, the fastest first."""

_SWITCH_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""The words for a switch that may be typed."""


def padded_length(tokens: int) -> int:
    """Returns the length that a row of so many tokens is padded to."""
    return math.ceil(tokens / LENGTH_STEP) * LENGTH_STEP


def token_budget(rows: int, batch: int, longest: int) -> int:
    """Returns the most tokens of a microbatch of several conversations, padding included.

    Args:
        rows: Conversations of the greatest length that are in memory together.
        batch: Conversations of a step.
        longest: Tokens of the longest conversation of the run.
    """
    length = padded_length(longest)
    return min(batch * length, max(rows * length, LEAST_BUDGET))


def microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Returns the microbatches of one step, as indices into `lengths`; each index is in exactly one of them.

    A microbatch of n rows costs n times the padded length of its longest row, plus `PASS_COST`. The split is the
    cheapest one in which every microbatch keeps to `budget`; a single row may exceed it. Rows of similar length share
    a microbatch in the cheapest split, so only runs of consecutive rows in order of length are tried (dynamic
    programming over the sorted rows).

    Args:
        lengths: Tokens of each conversation.
        budget: See `token_budget`.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    # For the first n rows: the lowest cost, and where their last microbatch begins.
    costs, begins = [0], [0]
    for end in range(1, len(order) + 1):
        options = [
            (costs[start] + PASS_COST + tokens, start)
            for start in range(end)
            if (tokens := (end - start) * padded_length(lengths[order[start]])) <= budget
            or end - start == 1
        ]
        cost, start = min(options)
        costs.append(cost)
        begins.append(start)
    split: list[list[int]] = []
    end = len(order)
    while end:
        split.append(order[begins[end] : end])
        end = begins[end]
    return split[::-1]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model.

    Attributes:
        layers: Number of blocks.
        hidden, inner: Length of the vector that goes from block to block, and of that inside a feed-forward layer.
        heads, kv_heads: Number of attention heads, and of those that keys and values have.
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
        """Number of weights of the linear layers in all blocks."""
        return self.layers * sum(into * out for into, out in self._linears())

    @property
    def embeddings(self) -> int:
        """Number of weights of the embedding, and of the output projection where it is another matrix."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    def adapter(self, rank: int) -> int:
        """Returns the number of weights of a LoRA adapter on all linear layers."""
        return self.layers * rank * sum(into + out for into, out in self._linears())

    @property
    def query_width(self) -> int:
        """Length of the queries of all heads together."""
        return self.heads * self.head

    @property
    def key_width(self) -> int:
        """Length of the keys of all heads together, which is that of the values too."""
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
class Memory:
    """Peak memory in bytes, by what it holds.

    Attributes:
        weights: Those of the base.
        adapter: Its weights, their gradients and the state of the optimizer.
        activations: Results of layers that the backward pass reads.
        logits: The model's results for each label, one for each token of the vocabulary.
        libraries: What is there before anything is loaded.
    """

    weights: int
    adapter: int
    activations: int
    logits: int
    libraries: int

    @property
    def total(self) -> int:
        """All together."""
        return self.weights + self.adapter + self.activations + self.logits + self.libraries


def memory_of(shape: Shape, config: TrainConfig, longest: int, labels: int, *, gpu: bool) -> Memory:
    """Estimates the peak memory of a run, on the GPU or in the system.

    Args:
        longest: Tokens of the longest log, of which at most `config.max_tokens` are read.
        labels: Positions with a label in such a log.
    """
    number_bytes = 2 if config.precision == "bf16" else 4
    read_tokens = max(1, min(longest, config.max_tokens))
    budget = token_budget(config.rows, config.batch, read_tokens)
    linear_bytes = shape.linear * (BITS_4_BYTES if config.four_bit else number_bytes)
    layer_bytes = _kept_in_a_layer(shape, config.rank, number_bytes)
    activation_bytes = shape.layers * layer_bytes
    if config.recompute:
        # Of each layer only its input is kept; the rest is there for one layer at a time.
        activation_bytes = shape.layers * shape.hidden * number_bytes + layer_bytes
    return Memory(
        weights=int(linear_bytes + shape.embeddings * number_bytes),
        adapter=TRAINED_WEIGHT_BYTES * shape.adapter(config.rank),
        activations=int(budget * activation_bytes * (1 if gpu else CPU_KEPT)),
        # The logs of a microbatch that is full have labels in proportion to their tokens.
        logits=int(LOGIT_BYTES * shape.vocabulary * labels * budget / read_tokens),
        libraries=GPU_LIBRARIES if gpu else CPU_LIBRARIES,
    )


def _kept_in_a_layer(shape: Shape, rank: int, number_bytes: int) -> int:
    """Returns the bytes that one layer keeps for one token until the backward pass.

    Args:
        rank: Rank of the adapter.
        number_bytes: Bytes of a number in the precision of the base.
    """
    # Numbers in that precision. Input and output of the two norms; queries before and after rotation; keys and values,
    # and their copies for the heads that share them.
    attention = 4 * shape.hidden + 5 * shape.query_width + 4 * shape.key_width
    # Gate, up, the activated gate and their product.
    feed_forward = 4 * shape.inner
    # Numbers in single precision, of 4 bytes: the inputs of the norms, and at each of the seven linear layers the input
    # of the adapter and what is between its two matrices.
    norms = 2 * shape.hidden
    adapter = 5 * shape.hidden + shape.query_width + shape.inner + 7 * rank
    return number_bytes * (attention + feed_forward) + 4 * (norms + adapter)


def longest_log(gpu_memory: int | None) -> int:
    """Returns the tokens of the longest log that is read on a GPU with this memory in bytes; None is a CPU."""
    return next(
        (tokens for memory, tokens in LONG_LOGS if (gpu_memory or 0) >= memory * SOLD_SHARE),
        LONGEST_LOG,
    )


def fitted(
    config: TrainConfig,
    shape: Shape | None,
    memory: int | None,
    longest: int,
    labels: int,
    *,
    gpu: bool,
    chosen: Collection[str] = (),
) -> TrainConfig:
    """Returns the config with the fastest settings that fit a machine, else those with the least memory.

    Args:
        shape: Shape of the base. If it is None, settings with low memory but without 4 bits are chosen.
        memory: Memory of the GPU, or else of the system, in bytes; None if unknown.
        longest, labels: See `memory_of`.
        chosen: Fields that the user set, which are not changed.
    """

    def set_to(**values: Any) -> TrainConfig:
        """Returns the config with other values, but for the fields that the user set."""
        return replace(
            config, **{name: value for name, value in values.items() if name not in chosen}
        )

    config = set_to(
        max_tokens=longest_log(memory if gpu else None), batch=GPU_BATCH if gpu else CPU_BATCH
    )
    # The fastest first, the one with the least memory last.
    ladder = [
        set_to(rows=rows, recompute=recompute, four_bit=four_bit)
        for recompute, four_bit in ((False, False), (True, False), (True, True))
        for rows in (ROWS if gpu else (1,))
        if (gpu or not four_bit) and rows <= config.batch
    ]
    if shape is None or memory is None:
        return set_to(rows=1, recompute=gpu, four_bit=False)
    for candidate in ladder:
        if memory_of(shape, candidate, longest, labels, gpu=gpu).total <= ROOM * memory:
            return candidate
    return ladder[-1]


def advice(config: TrainConfig, memory: Memory, *, gpu: bool) -> str:
    """Returns advice on which setting to change if a run needs too much memory."""
    if not config.recompute and memory.activations > memory.weights:
        return "Set recompute=true: activations are computed twice instead of kept."
    if config.rows > 1:
        return f"Lower rows (now {config.rows}): fewer conversations are in memory together."
    if gpu and not config.four_bit and memory.weights > memory.activations:
        return "Use a smaller base, or a folder of weights with four_bit=true: the weights need most of it."
    if memory.activations + memory.logits > memory.weights:
        return f"Lower max_tokens (now {config.max_tokens:,}): of long logs the end is used."
    return "Use a smaller base: the weights need most of it."


def steps_of(config: TrainConfig, conversations: int) -> int:
    """Returns the number of optimizer steps of a run."""
    return max(1, math.ceil(config.epochs * math.ceil(conversations / config.batch)))


def seconds_of(config: TrainConfig, steps: int, tokens: int, valid: int, speed: float) -> float:
    """Estimates the duration of a run in seconds.

    Args:
        tokens: Tokens of one epoch.
        valid: Tokens of one validation.
        speed: Training speed in tokens a second.
    """
    # One comes before the first step.
    validations = 1 + steps / config.valid_every
    # Tokens of training that take as long as the validations.
    validation_tokens = validations * valid / VALIDATION_SPEEDUP
    return STARTING_SECONDS + (config.epochs * tokens + validation_tokens) / speed


def with_settings(config: TrainConfig, settings: Mapping[str, str]) -> TrainConfig:
    """Returns the config with new values of some fields, given as text.

    Raises:
        UsageError: A field does not exist, or a value cannot be used.
    """
    known = {setting.name: setting for setting in fields(TrainConfig)}
    values: dict[str, Any] = asdict(config)
    for name, text in settings.items():
        if name not in known:
            raise NotFound(f"There is no setting {name!r}.", f"There are {', '.join(known)}.")
        values[name] = _value(name, text, type(values[name]))
    try:
        return TrainConfig(**values)
    except ConfigError as error:
        raise UsageError(f"{error}.") from error


def _value(name: str, text: str, kind: type) -> Any:
    """Returns the value of a setting that is given as text; raises UsageError if it is none of its type."""
    try:
        value = _SWITCH_WORDS[text.strip().lower()] if kind is bool else kind(text.strip())
        if kind is float and not math.isfinite(value):
            raise ValueError(text)
    except (KeyError, ValueError) as error:
        expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise UsageError(f"{name} is {text!r}; it must be {expected}.") from error
    return value
