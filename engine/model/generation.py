"""Writes many replies at once by continuous batching: a reply joins the decode batch when it starts, and leaves it when
it ends.

A sequence is what one reply is written on. The cache of a model has a cell for each token that was read, and a forked
sequence shares the cells of the one that it comes from, or has copies of them. In a shared cache a decode attends to
the cells of all sequences; in the other layout each sequence has cells of its own (`engine.model.batched_replies`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.base.errors import ContextTooSmall, ModelError
from engine.model.interface import Capacity, Logits, Sampling, Span, TokenModel

PARALLEL = 24
"""Most replies that are written at the same time."""

LIVE_CELLS = 1536
"""Most cells of a shared cache that the prompts and replies in writing fill together, if there are several. Every
decode attends to all filled cells, so many long prompts at once cost more than they gain."""

Stopped = Literal["end", "stop", "length"]
"""Why a reply ended: at an end token, at a stop text, or at the limit of its length."""


class Chooser(Protocol):
    """Chooses the next token of one sequence."""

    def pick(self, logits: Logits) -> int:
        """Returns the next token for one row of logits, shape (vocabulary,)."""

    def close(self) -> None:
        """Frees what the chooser holds."""


class GenerativeModel(TokenModel, Protocol):
    """A `TokenModel` that can also sample tokens and change the layout of its cache."""

    def sampler(self, settings: Sampling, seed: int) -> Chooser:
        """Returns a chooser for one sequence."""

    @property
    def longest_sequence(self) -> int:
        """The tokens of the longest sequence in a shared cache, where there is most room for one."""

    def max_separate(self, length: int) -> int:
        """Returns how many sequences of a length fit into the cache when each has cells of its own."""

    def arrange(self, separate: int) -> None:
        """Forgets all sequences and lays the cache out anew; `capacity` is that of the layout.

        Args:
            separate: For so many sequences with cells of their own; 0 for a cache that all share.
        """


@dataclass(frozen=True, slots=True)
class Reply:
    """One generated reply.

    Attributes:
        tokens: Token ids, without the end token; with those of the stop text that ended it.
        text: The tokens as text, cut before the stop text that ended it; broken UTF-8 is replaced.
        stopped: Why it ended.
    """

    tokens: tuple[int, ...]
    text: str
    stopped: Stopped


@dataclass(frozen=True, slots=True)
class Task:
    """One reply that is to be written.

    Attributes:
        prompt: Token ids; at least one, and short enough to leave `max_tokens` of the context.
        sampling: How the next token is chosen.
        max_tokens: Most tokens of the reply.
        stop: Texts that end the reply; it ends before the first of them.
        seed: Seed of the sampling; the reply does not depend on those beside it.
        source: The sequence on which the beginning of the prompt has been decoded already, from which it is forked, or
            None; it is not changed.
        decoded: Number of those tokens; fewer than the prompt has.
    """

    prompt: Sequence[int]
    sampling: Sampling
    max_tokens: int
    stop: tuple[str, ...] = ()
    seed: int = 0
    source: int | None = None
    decoded: int = 0

    @property
    def own_cells(self) -> int:
        """The cells of the cache that the prompt needs in addition to those of `source`."""
        return len(self.prompt) - self.decoded

    @property
    def reserved_cells(self) -> int:
        """The cells that the prompt and the longest reply need in addition to those of `source`."""
        return self.own_cells + self.max_tokens


@dataclass(slots=True)
class _Writer:
    """One reply while it is written.

    Attributes:
        index: Position of its task among all.
        sequence: The sequence that it is written on.
        decoded: Number of tokens of the prompt and the reply that the model has read.
        tokens, data: The reply so far as token ids, and as bytes of UTF-8.
    """

    index: int
    task: Task
    sequence: int
    chooser: Chooser
    decoded: int = 0
    tokens: list[int] = field(default_factory=list)
    data: bytearray = field(default_factory=bytearray)

    @property
    def cells(self) -> int:
        """The cells that it fills in addition to those of the source, once all known tokens are decoded."""
        return self.task.own_cells + len(self.tokens)

    @property
    def pending(self) -> Sequence[int]:
        """Tokens that are known and not decoded yet."""
        prompt = self.task.prompt
        if self.decoded < len(prompt):
            return prompt[self.decoded :]
        return self.tokens[self.decoded - len(prompt) :]


def check_lengths(tasks: Sequence[Task], context: int) -> None:
    """Checks that every prompt has tokens and leaves room for its reply.

    Raises:
        ModelError: A prompt is empty or leaves too little room.
    """
    for task in tasks:
        if not task.prompt:
            raise ModelError("A prompt is empty: there is nothing to continue.")
        if len(task.prompt) + task.max_tokens > context:
            raise ContextTooSmall(
                f"A prompt of {len(task.prompt):,} tokens leaves no room for {task.max_tokens} "
                f"more in a context of {context:,}."
            )


def write(
    model: GenerativeModel,
    tasks: Sequence[Task],
    sequences: Sequence[int],
    progress: Callable[[int], None] | None = None,
    *,
    source_tokens: int = 0,
) -> list[Reply]:
    """Returns one reply to each task, all written at once.

    Args:
        sequences: Empty sequences to write on, which are empty again when it returns.
        progress: Called after each decode with the number of replies that are done.
        source_tokens: Number of tokens on the `source` sequences of the tasks.

    Raises:
        ModelError: A prompt is empty or does not fit the context.
        ValueError: There are tasks and no sequences.
        Cancelled: The request was cancelled.
    """
    capacity = model.capacity
    check_lengths(tasks, capacity.context)
    if tasks and not sequences:
        raise ValueError("no sequence to write replies on")
    replies: dict[int, Reply] = {}
    waiting = deque(range(len(tasks)))
    # Lowest first: sequences with cells of their own are decoded together only if their numbers are consecutive.
    free_sequences = sorted(sequences, reverse=True)
    writers: list[_Writer] = []
    try:
        while waiting or writers:
            _begin_waiting(
                model,
                tasks,
                waiting,
                writers=writers,
                free_sequences=free_sequences,
                source_tokens=source_tokens,
            )
            if capacity.separate:
                _make_consecutive(model, writers, free_sequences)
            for writer in _decode_batch(model, writers, capacity):
                reply = _reply_if_ended(model, writer)
                if reply:
                    replies[writer.index] = reply
                    _end(model, writer, writers, free_sequences)
            if progress:
                progress(len(replies))
    finally:
        for writer in writers:
            writer.chooser.close()
    return [replies[index] for index in range(len(tasks))]


def _begin_waiting(
    model: GenerativeModel,
    tasks: Sequence[Task],
    waiting: deque[int],
    *,
    writers: list[_Writer],
    free_sequences: list[int],
    source_tokens: int,
) -> None:
    """Begins waiting tasks while there are free sequences and, in a shared cache, free cells.

    Args:
        waiting: Indices of the tasks that wait; those that begin leave it.
        writers: Gets the new writers.
        free_sequences: The free sequences, the lowest last; those that are used leave it.
        source_tokens: Number of cells that the sources of the tasks take.
    """
    capacity = model.capacity
    cells = sum(writer.cells for writer in writers)
    reserved = sum(writer.task.reserved_cells for writer in writers)
    while waiting and free_sequences:
        task = tasks[waiting[0]]
        cells, reserved = cells + task.own_cells, reserved + task.reserved_cells
        is_full = cells > LIVE_CELLS or reserved > capacity.cells - source_tokens
        # One task alone always begins, however many cells it needs.
        if writers and is_full and not capacity.separate:
            break
        if task.source is not None:
            model.fork(task.source, free_sequences[-1], task.decoded)
        chooser = model.sampler(task.sampling, task.seed)
        sequence = free_sequences.pop()
        writers.append(_Writer(waiting.popleft(), task, sequence, chooser, task.decoded))


def _end(
    model: GenerativeModel, writer: _Writer, writers: list[_Writer], free_sequences: list[int]
) -> None:
    """Ends a writer whose reply is done, and frees its sequence."""
    model.drop(writer.sequence)
    writer.chooser.close()
    writers.remove(writer)
    free_sequences.append(writer.sequence)
    free_sequences.sort(reverse=True)


def _make_consecutive(
    model: GenerativeModel, writers: Sequence[_Writer], free_sequences: list[int]
) -> None:
    """Moves the last sequences to the numbers of ended ones: only consecutive numbers are decoded together."""
    for writer in sorted(writers, key=lambda writer: -writer.sequence):
        if not free_sequences or free_sequences[-1] > writer.sequence:
            return
        previous, writer.sequence = writer.sequence, free_sequences.pop()
        if writer.decoded:
            model.fork(previous, writer.sequence, writer.decoded)
            model.drop(previous)
        free_sequences.append(previous)
        free_sequences.sort(reverse=True)


def _decode_batch(
    model: GenerativeModel, writers: Sequence[_Writer], capacity: Capacity
) -> list[_Writer]:
    """Decodes one batch, and appends a token to each reply whose known tokens are all decoded then.

    Returns:
        The writers of these replies.
    """
    # Each writer with its span, and whether all of its known tokens are in the span.
    scheduled: list[tuple[_Writer, Span, bool]] = []
    free_tokens = capacity.batch
    # Replies in progress go first, one token each; what is left of the batch is filled with prompts.
    for writer in sorted(writers, key=lambda writer: (len(writer.pending), writer.index)):
        pending = writer.pending
        if not free_tokens:
            break
        tokens = pending[:free_tokens]
        is_complete = len(tokens) == len(pending)
        offsets = (len(tokens) - 1,) if is_complete else ()
        scheduled.append(
            (writer, Span(tokens, writer.decoded, (writer.sequence,), offsets), is_complete)
        )
        writer.decoded += len(tokens)
        free_tokens -= len(tokens)
    if capacity.separate:
        # Only spans of consecutive sequences are decoded together.
        scheduled.sort(key=lambda entry: entry[0].sequence)
    rows = model.decode([span for _, span, _ in scheduled])
    ready = [writer for writer, _, is_complete in scheduled if is_complete]
    for writer, row in zip(ready, rows, strict=True):
        token = writer.chooser.pick(row)
        writer.tokens.append(token)
        writer.data += model.token_bytes(token)
    return ready


def _reply_if_ended(model: TokenModel, writer: _Writer) -> Reply | None:
    """Returns the reply of a writer whose newest token ended it; None if it goes on."""

    def reply(tokens: Sequence[int], data: bytes, stopped: Stopped) -> Reply:
        """Returns a reply with its text, of which the last character may be incomplete."""
        return Reply(tuple(tokens), data.decode("utf-8", "replace"), stopped)

    if writer.tokens[-1] in model.stop_tokens:  # control tokens, which have no bytes
        return reply(writer.tokens[:-1], bytes(writer.data), "end")
    # A stop text may straddle tokens, so the whole reply is searched.
    stops = (text.encode() for text in writer.task.stop if text)
    positions = [position for text in stops if (position := writer.data.find(text)) >= 0]
    if positions:
        return reply(writer.tokens, bytes(writer.data[: min(positions)]), "stop")
    if len(writer.tokens) >= writer.task.max_tokens:
        return reply(writer.tokens, bytes(writer.data), "length")
    return None
