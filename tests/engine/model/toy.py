"""A model whose every probability is known: the next token's distribution is a function of the whole prefix.

It keeps its books strictly and raises `Misuse` for what llama.cpp would answer with a wrong number or an abort: gaps in
positions, batches or caches too small, sequences decoded together that hold different tokens.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from engine.base.errors import Cancelled
from engine.model.interface import Capacity, HiddenState, Logits, Sampling, Span, log_probs

START, END, TURN = 256, 257, 258
VOCABULARY = 259
CONTROL = {"<|start|>": START, "<|end|>": END, "<|turn|>": TURN}
ROOMY = Capacity(context=4096, cells=8192, batch=512, rows=256, sequences=64, forkable=True)


class Misuse(AssertionError):
    """Something was asked that a real model would not survive or answer wrongly."""


@lru_cache(maxsize=200_000)
def _step(state: bytes, token: int) -> bytes:
    return hashlib.blake2b(state + token.to_bytes(4, "little"), digest_size=8).digest()


def _logits(state: bytes) -> Logits:
    random = np.random.Generator(np.random.PCG64(int.from_bytes(state, "little")))
    return random.standard_normal(VOCABULARY, dtype=np.float32) * np.float32(2)


def next_logits(prefix: Sequence[int]) -> Logits:
    """What the toy says after a prefix, computed without any of its bookkeeping."""
    state = b""
    for token in prefix:
        state = _step(state, token)
    return _logits(state)


def log_prob(prefix: Sequence[int], answer: Sequence[int]) -> float:
    """Natural log-probability of an answer after a prefix: the sum over its tokens."""
    total = 0.0
    for at, token in enumerate(answer):
        total += float(log_probs(next_logits([*prefix, *answer[:at]]), [token])[0])
    return total


@dataclass(frozen=True)
class _CachedToken:
    """One token in a sequence: its cell in the cache and what the prefix up to it hashes to."""

    cell: int
    state: bytes


class ToyChooser:
    """Takes the best token, or samples with a seed of its own."""

    def __init__(self, model: ToyModel, settings: Sampling, seed: int) -> None:
        self._model, self._temperature = model, settings.temperature
        self._random = np.random.default_rng(seed)

    def pick(self, logits: Logits) -> int:
        """The next token."""
        if self._temperature == 0:
            return int(logits.argmax())
        values = log_probs(logits / np.float32(self._temperature), range(VOCABULARY))
        odds = np.exp(values)
        return int(self._random.choice(VOCABULARY, p=odds / odds.sum()))

    def close(self) -> None:
        """Tells the model that this chooser is done with."""
        self._model.open_choosers -= 1


class ToyModel:
    """A `GenerativeModel` over bytes and three control tokens.

    Attributes:
        decoded: Tokens decoded so far.
        open_choosers: Choosers that were made and not closed.
        cancel_after: The decode with this number, from 1, is cancelled.
        parts: Runs of consecutive sequences over all decodes, which is what a decode costs where cells are separate.
        template: The chat template around one user message.
    """

    def __init__(self, capacity: Capacity = ROOMY) -> None:
        self._shared = self._capacity = capacity
        self._sequences: dict[int, list[_CachedToken]] = {}
        self._next_cell = 0
        self._keeps_states = False
        self._last_rows = np.empty((0, VOCABULARY), dtype=np.float32)
        self.template = "<|start|>user\n{}<|turn|>\nassistant\n"
        self.decoded = self.decodes = self.parts = self.open_choosers = 0
        self.cancel_after: int | None = None

    # Text

    def tokenize(self, text: str, *, special: bool = False, start: bool = False) -> list[int]:
        """Bytes, and control tokens where they are asked for."""
        tokens = [START] if start else []
        parts = re.split(r"(<\|\w+\|>)", text) if special else [text]
        for part in parts:
            tokens.extend([CONTROL[part]] if part in CONTROL and special else part.encode())
        return tokens

    def token_bytes(self, token: int) -> bytes:
        """The byte, or nothing for a control token."""
        return bytes([token]) if token < START else b""

    def render_chat(self, messages: Sequence[dict[str, str]]) -> str:
        """One user message in the template; several as that lays out one by default."""
        if len(messages) == 1:
            return self.template.format(messages[0]["content"])
        turns = (f"{message['role']}\n{message['content']}<|turn|>\n" for message in messages)
        return f"<|start|>{''.join(turns)}assistant\n"

    @property
    def end_token(self) -> int:
        """The end token."""
        return END

    @property
    def stop_tokens(self) -> frozenset[int]:
        """The end token, and a byte, so that greedy replies end at different places."""
        return frozenset({END, 0})

    # Sequences

    @property
    def capacity(self) -> Capacity:
        """As given, or dealt out."""
        return self._capacity

    @property
    def longest_sequence(self) -> int:
        """The context as given."""
        return self._shared.context

    def max_separate(self, length: int) -> int:
        """How many sequences of a length the cells are enough for."""
        return min(self._shared.cells // length, self._shared.sequences)

    def arrange(self, separate: int) -> None:
        """Forgets everything, and deals the cells out to so many sequences."""
        self.clear()
        self._capacity = self._shared
        if separate:
            own = self._shared.cells // separate
            self._capacity = replace(
                self._shared,
                context=min(own, self.longest_sequence),
                sequences=separate,
                separate=True,
            )

    def check_empty(self, but: frozenset[int] = frozenset()) -> None:
        """Raises when any sequence but those named still holds tokens."""
        left = {s: len(held) for s, held in self._sequences.items() if held and s not in but}
        if left:
            raise Misuse(f"sequences were left with tokens: {left}")

    def decode(self, spans: Sequence[Span]) -> Logits:
        """Logits at the rows that are asked for, once every limit and position is checked."""
        self.decodes += 1
        if self.decodes == self.cancel_after:
            self.clear()
            raise Cancelled("The request was cancelled.")
        limits = self._capacity
        if not spans or sum(len(span.tokens) for span in spans) > limits.batch:
            raise Misuse(f"a batch of {sum(len(s.tokens) for s in spans)} for {limits.batch}")
        if sum(len(span.logit_offsets) for span in spans) > limits.rows:
            raise Misuse(f"more than {limits.rows} rows are wanted")
        numbers = [span.sequences[0] for span in spans]
        self.parts += 1 + sum(b != a + 1 for a, b in pairwise(numbers))
        rows = [self._logits_of(span, at) for span in spans for at in self._append(span)]
        self.decoded += sum(len(span.tokens) for span in spans)
        if self.live_cells > limits.cells:
            raise Misuse(f"{self.live_cells} cells are live, there are {limits.cells}")
        self._last_rows = np.array(rows, dtype=np.float32).reshape(len(rows), VOCABULARY)
        return self._last_rows

    def keep_states(self, on: bool) -> None:
        """Keeps them from now on, or no longer; a change forgets everything."""
        if on != self._keeps_states:
            self._keeps_states = on
            self.clear()

    def hidden_states(self) -> HiddenState:
        """The logits of the last decode stand for them: they too are a function of the tokens so far."""
        if not self._keeps_states:
            raise Misuse("no states were kept")
        return self._last_rows

    def _append(self, span: Span) -> tuple[int, ...]:
        if not span.tokens or not span.sequences:
            raise Misuse("an empty span")
        if self._capacity.separate and len(span.sequences) > 1:
            raise Misuse("sequences with cells of their own share a span")
        if not all(0 <= token < VOCABULARY for token in span.tokens):
            raise Misuse("no such token")
        if list(span.logit_offsets) != sorted(set(span.logit_offsets)) or not all(
            0 <= at < len(span.tokens) for at in span.logit_offsets
        ):
            raise Misuse(f"wanted rows {span.logit_offsets} of {len(span.tokens)} tokens")
        pasts = [self._sequence(sequence) for sequence in span.sequences]
        for past in pasts:
            if len(past) != span.position:
                raise Misuse(f"position {span.position} after {len(past)} tokens")
            if past and past[-1].state != pasts[0][-1].state:
                raise Misuse("sequences decoded together hold different tokens")
            if len(past) + len(span.tokens) > self._capacity.context:
                raise Misuse(f"a sequence exceeds the context of {self._capacity.context}")
        state = pasts[0][-1].state if pasts[0] else b""
        for token in span.tokens:
            state = _step(state, token)
            held = _CachedToken(self._new_cell(), state)
            for past in pasts:
                past.append(held)
        return span.logit_offsets

    def _new_cell(self) -> int:
        self._next_cell += 1
        return self._next_cell

    def _logits_of(self, span: Span, at: int) -> Logits:
        return _logits(self._sequences[span.sequences[0]][span.position + at].state)

    def _sequence(self, number: int) -> list[_CachedToken]:
        if not 0 <= number < self._capacity.sequences:
            raise Misuse(f"sequence {number} of {self._capacity.sequences}")
        return self._sequences.setdefault(number, [])

    @property
    def live_cells(self) -> int:
        """Tokens in the cache; shared ones count once."""
        return len(Counter(held.cell for past in self._sequences.values() for held in past))

    def fork(self, source: int, target: int, end: int) -> None:
        """Shares a prefix; the target must be empty."""
        past = self._sequence(source)
        if source == target or self._sequence(target):
            raise Misuse(f"a fork of {source} into {target}, which is not empty")
        if not 0 < end <= len(past):
            raise Misuse(f"a fork at {end} of {len(past)} tokens")
        if not self._capacity.forkable and end != len(past):
            raise Misuse("this model can be forked at the end of a sequence only")
        copied = [replace(held, cell=self._new_cell()) for held in past[:end]]
        self._sequences[target] = copied if self._capacity.separate else past[:end]

    def drop(self, sequence: int, start: int = 0) -> None:
        """Forgets the tokens from `start`."""
        past = self._sequence(sequence)
        if not 0 <= start <= len(past):
            raise Misuse(f"drop from {start} of {len(past)} tokens")
        del past[start:]

    def clear(self) -> None:
        """Forgets everything."""
        self._sequences.clear()

    def sampler(self, settings: Sampling, seed: int) -> ToyChooser:
        """A chooser; schemas are beyond a toy."""
        if settings.json_schema:
            raise Misuse("a toy knows no schema")
        self.open_choosers += 1
        return ToyChooser(self, settings, seed)
