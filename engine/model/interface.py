"""The interface of a language model: decode tokens in sequences that can be forked, and read next-token logits.

A model keeps a cell in its cache for each token that it has decoded, which later tokens attend to. A sequence is a run
of tokens that see each other; forking one makes a second one that shares the cells of its beginning, or has copies of
them (`Capacity.separate`).

Scoring, generation and trees are written against `TokenModel`, so the same code runs on llama.cpp inside the
model process and on toy models with known distributions in tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
"""Unnormalized log-probabilities of the next token, shape (rows, vocabulary), or (vocabulary,) for a single row."""

LogProbs = NDArray[np.float64]
"""Natural log-probabilities."""

HiddenState = NDArray[np.float32]
"""Shape (rows, dimensions): what the model computes a row of logits from."""

CHARS_PER_TOKEN = 3.6
"""Characters of a token where no tokenizer counts, as in English text and JSON with a vocabulary of 32k or more."""


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive tokens to decode.

    Attributes:
        tokens: Token ids; at least one.
        position: Position of the first token in its sequences.
        sequences: Sequences that all of these tokens belong to; with several, they share the cells.
        logit_offsets: Offsets into `tokens` after which the logits of the next token are computed, rising.
    """

    tokens: Sequence[int]
    position: int
    sequences: tuple[int, ...]
    logit_offsets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """The limits of a loaded model.

    Attributes:
        context: Longest sequence, in tokens.
        cells: Tokens that the cache holds at once over all sequences; shared tokens count once. If all sequences share
            the cache, there are cells for one full sequence and four batches.
        batch: Tokens of one decode.
        rows: Most rows of logits of one decode.
        sequences: Sequence ids are `range(sequences)`.
        forkable: Whether sequences can be forked at any position; false for recurrent and hybrid models.
        separate: Whether each sequence has `context` cells of its own. A decode then attends to the cells of its
            sequences alone, a fork copies cells, a span is of one sequence, and sequences with consecutive numbers are
            decoded together.
    """

    context: int
    cells: int
    batch: int
    rows: int
    sequences: int
    forkable: bool
    separate: bool = False


@dataclass(slots=True)
class Spending:
    """What a run over endpoints may cost and has cost so far; all its stages share one.

    Attributes:
        max_cost: Most that it may cost, in the currency of the prices; None for no limit.
        fresh: Whether no reply is taken from the cache, and items with a stored failure are asked about again.
        cost: Cost of what was answered.
        reserved: Most that each request in flight may cost.
    """

    max_cost: float | None = None
    fresh: bool = False
    cost: float = 0.0
    reserved: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model.

    Attributes:
        context: Longest sequence in tokens; None takes what the model was trained for, at most 8,192.
        threads: Threads for decoding; None takes all cores.
        gpu_layers: Layers on the GPU; -1 is all, used only where llama.cpp was built with GPU support.
        batch: Tokens of one decode.
        embedding: Whether the model computes embeddings of texts instead of next-token distributions.
        layers: Number of first layers to load, from a copy of the weights without the others; None loads all.
    """

    context: int | None = None
    threads: int | None = None
    gpu_layers: int = -1
    batch: int = 512
    embedding: bool = False
    layers: int | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: 0 takes the most probable token.
        json_schema: JSON schema as text that the reply must follow, or None.
    """

    temperature: float = 0.0
    json_schema: str | None = None


class TextTokenizer(Protocol):
    """Converts texts into tokens, and messages into the text that a model reads."""

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Returns the token ids of `text`.

        Args:
            special: Read control tokens such as `<|im_end|>` as tokens; never for untrusted text.
            start: Put the tokens in front that the model wants at the start of a sequence.
        """

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """Returns the model's chat template applied to messages, with the assistant's turn opened."""


class Tokenizer(TextTokenizer, Protocol):
    """Converts text into tokens and back."""

    def token_bytes(self, token: int) -> bytes:
        """Returns the bytes a token stands for; empty for control tokens."""

    @property
    def end_token(self) -> int:
        """The model's end-of-text token, the default end tag."""

    @property
    def stop_tokens(self) -> frozenset[int]:
        """All tokens that end a generation."""


class TokenModel(Tokenizer, Protocol):
    """A model whose sequences can be extended, forked and dropped."""

    @property
    def capacity(self) -> Capacity:
        """The limits of the model."""

    def decode(self, spans: Sequence[Span]) -> Logits:
        """Decodes spans as one batch.

        Returns:
            Logits of shape (rows, vocabulary), a row for each logit offset in the order of spans and offsets; valid
            until the next call.

        Raises:
            Cancelled: The request was cancelled while decoding; all sequences are cleared.
            ModelError: The batch does not fit.
        """

    def keep_states(self, on: bool) -> None:
        """Makes `decode` keep the hidden states behind its rows, or no longer; a change forgets all sequences.

        Raises:
            ModelError: The model gives no hidden states.
        """

    def hidden_states(self) -> HiddenState:
        """Returns the last hidden state, after the final norm, behind each row that `decode` returned last.

        Returns:
            Shape (rows, dimensions).

        Raises:
            ModelError: They were not kept.
        """

    def fork(self, source: int, target: int, end: int) -> None:
        """Lets `target`, which must be empty, begin with the first `end` tokens of `source`.

        It shares their cells, or has copies of them (`Capacity.separate`).
        """

    def drop(self, sequence: int, start: int = 0) -> None:
        """Forgets a sequence's tokens from position `start`."""

    def clear(self) -> None:
        """Forgets all sequences."""


def log_probs(logits: Logits, tokens: Sequence[int]) -> LogProbs:
    """Returns the natural log-probabilities of `tokens` under one row of logits, shape (len(tokens),)."""
    # The largest logit is taken off first, so that `exp` does not overflow.
    top = logits.max()
    total = np.exp(logits - top).sum(dtype=np.float64)
    return logits[list(tokens)].astype(np.float64) - float(top) - float(np.log(total))
