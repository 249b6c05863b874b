"""Log-probabilities of given continuations of texts, and of the tokens of texts. Runs in the model process.

They are read off the logits, so they are exact for the model: nothing is sampled. Common prefixes are decoded once and
forked: the common beginning of all texts (instructions), and each text for its continuations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from engine.base.errors import ContextTooSmall
from engine.model.generation import LIVE_CELLS
from engine.model.interface import Span, TokenModel, log_probs
from engine.model.log_windows import log_tokens
from engine.model.process.requests import TokenDistribution
from engine.model.prompt_files import Prompt, frame

HEAD_SEQUENCE = 0
LEAST_HEAD = 16
"""Shortest common beginning, in tokens, that is worth a decode of its own."""


@dataclass(frozen=True, slots=True)
class PrefixQuestion:
    """Token ids of a prefix, at least one, and of its continuations."""

    prefix: Sequence[int]
    continuations: Sequence[Sequence[int]]


def prompted_log_probs(
    model: TokenModel,
    items: Sequence[tuple[str, Sequence[str]]],
    prompt: Prompt | None,
    report: Callable[[int], None],
) -> list[list[tuple[float, int]]]:
    """How probable continuations of texts are inside a prompt; see `ModelClient.log_probs`.

    Args:
        report: Gets the tokens decoded since the last call; raises Cancelled when the request was cancelled.

    Raises:
        ModelError: A continuation leaves no room for the text before it.
    """
    around = frame(prompt, model)
    asked = []
    for text, continuations in items:
        wanted = [model.tokenize(continuation) for continuation in continuations]
        longest = max(map(len, wanted), default=0)
        room = model.capacity.context - longest - len(around.head) - len(around.tail)
        tokens, _ = log_tokens(model, [text], 0, room)
        asked.append(PrefixQuestion([*around.head, *tokens, *around.tail], wanted))
    found = continuation_log_probs(model, asked, report)
    return [
        [(value, len(tokens)) for value, tokens in zip(values, one.continuations, strict=True)]
        for values, one in zip(found, asked, strict=True)
    ]


def continuation_log_probs(
    model: TokenModel,
    asked: Sequence[PrefixQuestion],
    progress: Callable[[int], None] | None = None,
) -> list[list[float]]:
    """Natural log-probability of each continuation after its prefix: the sum over its tokens.

    Args:
        progress: Called after each decode with the tokens it held.

    Raises:
        ModelError: A prefix with its longest continuation exceeds the context.
        Cancelled: The request was cancelled.
    """
    for one in asked:
        length = len(one.prefix) + max(map(len, one.continuations), default=0)
        if not one.prefix or length > model.capacity.context:
            raise ContextTooSmall(
                f"A question of {length:,} tokens exceeds the context of "
                f"{model.capacity.context:,}.",
                "Use a larger context or a shorter prompt.",
            )
    results = [[0.0] * len(one.continuations) for one in asked]
    model.clear()
    try:
        for wave in _waves(model, asked):
            _answer(model, asked, wave, results, progress)
    finally:
        model.clear()
    return results


def _waves(model: TokenModel, asked: Sequence[PrefixQuestion]) -> Iterator[range]:
    """Ranges of questions whose prefixes are in the cache at the same time; the plan depends on the request alone."""
    capacity = model.capacity
    longest = max((len(tokens) for one in asked for tokens in one.continuations), default=0)
    room = min(LIVE_CELLS, capacity.cells - capacity.batch - longest)
    start = held = 0
    for index, one in enumerate(asked):
        full = held + len(one.prefix) > room or index - start >= capacity.sequences // 2 - 1
        if index > start and full:
            yield range(start, index)
            start, held = index, 0
        held += len(one.prefix)
    if asked:
        yield range(start, len(asked))


def _answer(
    model: TokenModel,
    asked: Sequence[PrefixQuestion],
    wave: range,
    results: list[list[float]],
    progress: Callable[[int], None] | None,
) -> None:
    packer = _Packer(model, results, progress)
    head = _common([asked[index].prefix for index in wave])
    packer.add(HEAD_SEQUENCE, asked[wave[0]].prefix[:head], 0, {})
    packer.flush()
    sequences = dict(zip(wave, range(HEAD_SEQUENCE + 1, model.capacity.sequences), strict=False))
    for index in wave:
        prefix, sequence = asked[index].prefix, sequences[index]
        if head:
            model.fork(HEAD_SEQUENCE, sequence, head)
        first = [(index, nth, tokens[0]) for nth, tokens in _some(asked[index])]
        packer.add(sequence, prefix[head:], head, {len(prefix) - 1 - head: first})
    packer.flush()
    for index in wave:
        prefix = asked[index].prefix
        for nth, tokens in _some(asked[index]):
            if len(tokens) > 1:
                fork = packer.fork(sequences[index], len(prefix), len(tokens) - 1)
                sinks = {at: [(index, nth, token)] for at, token in enumerate(tokens[1:])}
                packer.add(fork, tokens[:-1], len(prefix), sinks)
    packer.flush()
    for sequence in (HEAD_SEQUENCE, *sequences.values()):
        model.drop(sequence)


def _some(one: PrefixQuestion) -> list[tuple[int, Sequence[int]]]:
    """The continuations that have tokens; an empty text has probability 1."""
    return [(nth, tokens) for nth, tokens in enumerate(one.continuations) if tokens]


def _common(prefixes: Sequence[Sequence[int]]) -> int:
    """Length of the common beginning, which leaves at least one token of each prefix; 0 if it is too short to share."""
    first = prefixes[0]
    least = min(map(len, prefixes)) - 1
    shared = sum(
        1 for _ in takewhile(lambda at: all(p[at] == first[at] for p in prefixes), range(least))
    )
    return shared if len(prefixes) > 1 and shared >= LEAST_HEAD else 0


_Sink = list[tuple[int, int, int]]
"""The continuations (item, number) that need the probability of a token from one row of logits."""


@dataclass(slots=True)
class _Packer:
    """Fills decode batches with tokens of many sequences and adds up the log-probabilities."""

    model: TokenModel
    results: list[list[float]]
    progress: Callable[[int], None] | None
    _spans: list[Span] = field(default_factory=list)
    _sinks: list[_Sink] = field(default_factory=list)
    _forks: list[int] = field(default_factory=list)
    _filled: int = 0
    _held: int = 0

    def fork(self, source: int, end: int, more: int) -> int:
        """A sequence that shares the first `end` tokens of `source` until the next flush; `more` will be added."""
        capacity = self.model.capacity
        sequences = capacity.sequences
        if len(self._forks) == sequences // 2 or self._held + more > capacity.batch:
            self.flush()
        self._held += more
        fork = sequences - 1 - len(self._forks)
        self._forks.append(fork)
        self.model.fork(source, fork, end)
        return fork

    def add(
        self, sequence: int, tokens: Sequence[int], position: int, sinks: Mapping[int, _Sink]
    ) -> None:
        """Adds tokens of a sequence; `sinks` maps offsets to the continuations that need the logits there."""
        capacity = self.model.capacity
        at = 0
        while at < len(tokens):
            if self._filled >= capacity.batch or len(self._sinks) >= capacity.rows:
                self._decode()
            stop = min(len(tokens), at + capacity.batch - self._filled)
            wanted = [offset for offset in range(at, stop) if sinks.get(offset)]
            room = capacity.rows - len(self._sinks)
            if len(wanted) > room:
                stop, wanted = wanted[room], wanted[:room]
            offsets = tuple(offset - at for offset in wanted)
            self._spans.append(Span(tokens[at:stop], position + at, (sequence,), offsets))
            self._sinks.extend(sinks[offset] for offset in wanted)
            self._filled += stop - at
            at = stop

    def flush(self) -> None:
        """Decodes what was added and drops the forks."""
        self._decode()
        for fork in self._forks:
            self.model.drop(fork)
        self._forks, self._held = [], 0

    def _decode(self) -> None:
        if not self._spans:
            return
        rows = self.model.decode(self._spans)
        for row, sink in zip(rows, self._sinks, strict=True):
            values = log_probs(row, [token for _, _, token in sink])
            for (index, nth, _), value in zip(sink, values, strict=True):
                self.results[index][nth] += float(value)
        if self.progress:
            self.progress(self._filled)
        self._spans, self._sinks, self._filled = [], [], 0


def read_tokens(
    model: TokenModel,
    tokens: Sequence[int],
    also: Sequence[int],
    progress: Callable[[int], None] | None = None,
) -> list[TokenDistribution]:
    """The distribution of the next token after every token of one text, with nothing else in the cache.

    Raises:
        ModelError: The text has no tokens or more than the context holds.
        Cancelled: The request was cancelled.
    """
    if not 0 < len(tokens) <= model.capacity.context:
        raise ContextTooSmall(
            f"A text of {len(tokens):,} tokens cannot be read in a context of"
            f" {model.capacity.context:,}."
        )
    model.clear()
    try:
        return list(_read(model, tokens, also, progress))
    finally:
        model.clear()


def _read(
    model: TokenModel,
    tokens: Sequence[int],
    also: Sequence[int],
    progress: Callable[[int], None] | None,
) -> Iterator[TokenDistribution]:
    step = min(model.capacity.batch, model.capacity.rows)
    for at in range(0, len(tokens), step):
        chunk = tokens[at : at + step]
        rows = model.decode([Span(chunk, at, (0,), tuple(range(len(chunk))))])
        for place, row in enumerate(rows, at):
            top = int(np.argmax(row))
            following = tokens[place + 1 : place + 2]
            found = [float(value) for value in log_probs(row, [top, *following, *also])]
            rest = found[1 + len(following) :]
            yield TokenDistribution(top, found[0], found[1] if following else None, tuple(rest))
        if progress:
            progress(len(chunk))
