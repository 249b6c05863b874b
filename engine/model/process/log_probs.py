"""Reads log-probabilities of given continuations of texts in the model process.

They are read off the logits, so they are exact for the model: nothing is sampled. A prefix is decoded once and forked,
which makes a second sequence that shares its cells in the cache: the common beginning of all prefixes (the
instructions) is forked for each prefix, and each prefix for its continuations. Questions whose prefixes fit into the
cache at the same time are a wave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.base.errors import ContextTooSmall
from engine.model.generation import LIVE_CELLS
from engine.model.interface import Span, TokenModel, log_probs
from engine.model.prompt_files import common_length

HEAD_SEQUENCE = 0
"""Number of the sequence that holds the common beginning of all prefixes of a wave."""

MIN_HEAD_TOKENS = 16
"""Shortest common beginning, in tokens, that is worth a decode of its own."""


@dataclass(frozen=True, slots=True)
class PrefixQuestion:
    """Asks for the probability of some continuations of a prefix.

    Attributes:
        prefix: Token ids of the prefix, at least one.
        continuations: Token ids of each continuation.
    """

    prefix: Sequence[int]
    continuations: Sequence[Sequence[int]]


class _Lookup(NamedTuple):
    """A log-probability that is looked up in one row of logits for a continuation.

    Attributes:
        question: Index of the question.
        continuation: Index of the continuation within the question.
        token: Id of the token whose log-probability is read.
    """

    question: int
    continuation: int
    token: int


def continuation_log_probs(
    model: TokenModel, questions: Sequence[PrefixQuestion]
) -> list[list[float]]:
    """Returns for each question the natural log-probability of each continuation after its prefix: the sum over its
    tokens.

    Raises:
        ModelError: A prefix with its longest continuation exceeds the context.
        Cancelled: The request was cancelled.
    """
    for question in questions:
        length = len(question.prefix) + max(map(len, question.continuations), default=0)
        if not question.prefix or length > model.capacity.context:
            raise ContextTooSmall(
                f"A question of {length:,} tokens exceeds the context of "
                f"{model.capacity.context:,}.",
                "Use a larger context or a shorter prompt.",
            )
    results = [[0.0] * len(question.continuations) for question in questions]
    model.clear()
    try:
        for wave in _waves(model, questions):
            _answer_wave(model, questions, wave, results)
    finally:
        model.clear()
    return results


def _waves(model: TokenModel, questions: Sequence[PrefixQuestion]) -> Iterator[range]:
    """Yields ranges of questions whose prefixes fit into the cache at the same time; they depend on the request
    alone."""
    capacity = model.capacity
    longest = max(
        (len(tokens) for question in questions for tokens in question.continuations), default=0
    )
    free_tokens = min(LIVE_CELLS, capacity.cells - capacity.batch - longest)
    start = prefix_tokens = 0
    for index, question in enumerate(questions):
        # Half of the sequences are for prefixes, one of them for their common beginning, and half for forks.
        is_full = (
            prefix_tokens + len(question.prefix) > free_tokens
            or index - start >= capacity.sequences // 2 - 1
        )
        if index > start and is_full:
            yield range(start, index)
            start, prefix_tokens = index, 0
        prefix_tokens += len(question.prefix)
    if questions:
        yield range(start, len(questions))


def _answer_wave(
    model: TokenModel,
    questions: Sequence[PrefixQuestion],
    wave: range,
    results: list[list[float]],
) -> None:
    """Adds the log-probabilities of the questions of a wave to `results`, which has a list for each question."""
    packer = _BatchPacker(model, results)
    # First the common beginning of all prefixes.
    prefixes = [questions[index].prefix for index in wave]
    head = _common_length(prefixes)
    first_prefix, *_ = prefixes
    packer.add(HEAD_SEQUENCE, first_prefix[:head], 0, {})
    packer.flush()
    # Then the rest of each prefix, whose last row of logits gives the first token of each continuation.
    sequences = dict(zip(wave, range(HEAD_SEQUENCE + 1, model.capacity.sequences), strict=False))
    for index in wave:
        prefix, sequence = questions[index].prefix, sequences[index]
        if head:
            model.fork(HEAD_SEQUENCE, sequence, head)
        first_lookups = [
            _Lookup(index, number, first_token)
            for number, (first_token, *_) in _numbered_continuations(questions[index])
        ]
        packer.add(sequence, prefix[head:], head, {len(prefix) - 1 - head: first_lookups})
    packer.flush()
    # Then the continuations: the logits after each token give the probability of the next one.
    for index in wave:
        prefix = questions[index].prefix
        for number, tokens in _numbered_continuations(questions[index]):
            if len(tokens) > 1:
                fork = packer.fork(sequences[index], len(prefix), len(tokens) - 1)
                lookups_at = {
                    offset: [_Lookup(index, number, token)]
                    for offset, token in enumerate(tokens[1:])
                }
                packer.add(fork, tokens[:-1], len(prefix), lookups_at)
    packer.flush()
    for sequence in (HEAD_SEQUENCE, *sequences.values()):
        model.drop(sequence)


def _numbered_continuations(question: PrefixQuestion) -> list[tuple[int, Sequence[int]]]:
    """Returns index and tokens of the continuations that have tokens; an empty one has probability 1."""
    return [(number, tokens) for number, tokens in enumerate(question.continuations) if tokens]


def _common_length(prefixes: Sequence[Sequence[int]]) -> int:
    """Returns the length of the common beginning, which leaves at least one token of each prefix; 0 if it is too short
    to share."""
    longest = min(map(len, prefixes)) - 1
    shared = min(longest, common_length(prefixes))
    return shared if len(prefixes) > 1 and shared >= MIN_HEAD_TOKENS else 0


@dataclass(slots=True)
class _BatchPacker:
    """Fills decode batches with tokens of many sequences and adds up the log-probabilities.

    Attributes:
        results: The sums of log-probabilities, for each question and continuation.
        _spans, _lookups: The batch, and what is read off each row of logits that it gives.
        _forks: Sequences that were forked since the last flush, from the highest number down.
        _batched_tokens: Number of tokens in the batch.
        _reserved_tokens: Tokens that the forks get in all; at most a batch, which bounds the cells that they need.
    """

    model: TokenModel
    results: list[list[float]]
    _spans: list[Span] = field(default_factory=list)
    _lookups: list[list[_Lookup]] = field(default_factory=list)
    _forks: list[int] = field(default_factory=list)
    _batched_tokens: int = 0
    _reserved_tokens: int = 0

    def fork(self, source: int, end: int, more_tokens: int) -> int:
        """Returns a sequence that shares the first `end` tokens of `source` until the next flush; `more_tokens` will be
        added to it."""
        capacity = self.model.capacity
        sequences = capacity.sequences
        is_full = self._reserved_tokens + more_tokens > capacity.batch
        if is_full or len(self._forks) == sequences // 2:
            self.flush()
        self._reserved_tokens += more_tokens
        fork = sequences - 1 - len(self._forks)
        self._forks.append(fork)
        self.model.fork(source, fork, end)
        return fork

    def add(
        self,
        sequence: int,
        tokens: Sequence[int],
        position: int,
        lookups_at: Mapping[int, list[_Lookup]],
    ) -> None:
        """Adds tokens of a sequence; `lookups_at` gives what is read off the logits after the token at an offset."""
        capacity = self.model.capacity
        start = 0
        while start < len(tokens):
            if self._batched_tokens >= capacity.batch or len(self._lookups) >= capacity.rows:
                self._decode()
            end = min(len(tokens), start + capacity.batch - self._batched_tokens)
            read_offsets = [offset for offset in range(start, end) if lookups_at.get(offset)]
            free_rows = capacity.rows - len(self._lookups)
            if len(read_offsets) > free_rows:
                end, read_offsets = read_offsets[free_rows], read_offsets[:free_rows]
            offsets = tuple(offset - start for offset in read_offsets)
            self._spans.append(Span(tokens[start:end], position + start, (sequence,), offsets))
            self._lookups.extend(lookups_at[offset] for offset in read_offsets)
            self._batched_tokens += end - start
            start = end

    def flush(self) -> None:
        """Decodes the added tokens and drops the forks."""
        self._decode()
        for fork in self._forks:
            self.model.drop(fork)
        self._forks, self._reserved_tokens = [], 0

    def _decode(self) -> None:
        """Decodes the batch and adds what is read off its logits to the results."""
        if not self._spans:
            return
        rows = self.model.decode(self._spans)
        for row, lookups in zip(rows, self._lookups, strict=True):
            values = log_probs(row, [lookup.token for lookup in lookups])
            for lookup, value in zip(lookups, values, strict=True):
                self.results[lookup.question][lookup.continuation] += float(value)
        self._spans, self._lookups, self._batched_tokens = [], [], 0
