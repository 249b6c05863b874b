"""Writing many replies at once: sequences join and leave one decode batch as they start and end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.errors import ModelError
from engine.model.interface import Logits, Sampling, Span, TokenModel

PARALLEL = 24
"""Replies that are written side by side, at most."""

LIVE_CELLS = 1536
"""Tokens that replies side by side may hold together, unless one alone holds more. Every decode attends over all live
cells, its own or not, so many long prompts at once cost more than they gain."""

Stopped = Literal["end", "stop", "length"]


class Chooser(Protocol):
    """Chooses one sequence's next token."""

    def pick(self, logits: Logits) -> int:
        """The next token for one row of logits, shape (vocabulary,)."""

    def close(self) -> None:
        """Frees what the chooser holds."""


class GenerativeModel(TokenModel, Protocol):
    """A `TokenModel` that also makes choosers."""

    def sampler(self, settings: Sampling, seed: int) -> Chooser:
        """A chooser for one sequence."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One generated reply.

    Attributes:
        tokens: Token ids, without the token that ended it.
        text: The tokens as text, cut before the stop text that ended it; broken UTF-8 is replaced.
        stopped: `end` by an end token, `stop` by a stop text, `length` by the limit.
    """

    tokens: tuple[int, ...]
    text: str
    stopped: Stopped


@dataclass(slots=True)
class _Writer:
    """One reply while it is written."""

    index: int
    sequence: int
    prompt: Sequence[int]
    chooser: Chooser
    decoded: int = 0
    tokens: list[int] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    @property
    def pending(self) -> Sequence[int]:
        """Tokens that are known but not decoded yet."""
        if self.decoded < len(self.prompt):
            return self.prompt[self.decoded :]
        return self.tokens[self.decoded - len(self.prompt) :]


def generate(
    model: GenerativeModel,
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_tokens: int,
    stop: Sequence[str] = (),
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> list[Reply]:
    """Writes one reply to each prompt.

    Args:
        prompts: Token ids, each at least one and short enough to leave `max_tokens` of the context.
        stop: Texts that end a reply; the reply ends before the first of them.
        seed: Reply i is sampled with `seed + i`, so a reply does not depend on its neighbours.
        progress: Called after each decode with the number of replies that are done.

    Raises:
        ModelError: A prompt does not fit the context.
        Cancelled: The request was cancelled.
    """
    capacity = model.capacity
    for prompt in prompts:
        if not prompt or len(prompt) + max_tokens > capacity.context:
            raise ModelError(
                f"A prompt of {len(prompt):,} tokens leaves no room for {max_tokens} more in a "
                f"context of {capacity.context:,}."
            )
    model.clear()
    replies: dict[int, Reply] = {}
    waiting = deque(range(len(prompts)))
    free = list(range(min(PARALLEL, capacity.sequences) - 1, -1, -1))
    live: list[_Writer] = []
    stops = [text.encode() for text in stop if text]
    try:
        while waiting or live:
            reserved = sum(len(w.prompt) + max_tokens for w in live)
            while waiting and free:
                need = len(prompts[waiting[0]]) + max_tokens
                if live and reserved + need > min(LIVE_CELLS, capacity.cells):
                    break
                reserved += need
                index = waiting.popleft()
                chooser = model.sampler(sampling, seed + index)
                live.append(_Writer(index, free.pop(), prompts[index], chooser))
            for writer in _step(model, live, capacity.batch):
                reply = _finished(model, writer, stops, max_tokens)
                if reply:
                    replies[writer.index] = reply
                    model.drop(writer.sequence)
                    writer.chooser.close()
                    free.append(writer.sequence)
                    live.remove(writer)
            if progress:
                progress(len(replies))
    finally:
        for writer in live:
            writer.chooser.close()
    return [replies[i] for i in range(len(prompts))]


def _step(model: GenerativeModel, live: Sequence[_Writer], batch: int) -> list[_Writer]:
    """Decodes one batch and returns the writers that got a new token, which is appended to them."""
    spans: list[Span] = []
    ready: list[_Writer] = []
    room = batch
    # Replies in progress go first, one token each; what is left of the batch is filled with prompts.
    for writer in sorted(live, key=lambda w: (len(w.pending), w.index)):
        pending = writer.pending
        if not room:
            break
        tokens = pending[:room]
        whole = len(tokens) == len(pending)
        wanted = (len(tokens) - 1,) if whole else ()
        spans.append(Span(tokens, writer.decoded, (writer.sequence,), wanted))
        writer.decoded += len(tokens)
        room -= len(tokens)
        if whole:
            ready.append(writer)
    rows = model.decode(spans)
    for writer, row in zip(ready, rows, strict=True):
        token = writer.chooser.pick(row)
        writer.tokens.append(token)
        writer.data += model.token_bytes(token)
    return ready


def _finished(
    model: TokenModel, writer: _Writer, stops: Sequence[bytes], max_tokens: int
) -> Reply | None:
    def reply(tokens: Sequence[int], data: bytes, stopped: Stopped) -> Reply:
        return Reply(tuple(tokens), data.decode("utf-8", "replace"), stopped)

    if writer.tokens[-1] in model.stop_tokens:
        return reply(writer.tokens[:-1], bytes(writer.data), "end")
    # A stop text may straddle tokens, so the search starts well before the newest one.
    found = [at for text in stops if (at := writer.data.find(text)) >= 0]
    if found:
        return reply(writer.tokens, bytes(writer.data[: min(found)]), "stop")
    if len(writer.tokens) >= max_tokens:
        return reply(writer.tokens, bytes(writer.data), "length")
    return None
