"""Writes replies to many prompts: chooses the cache layout and shares common prefixes.

In a cache that all sequences share, every decode attends to the cells of all of them, so only a few long prompts are
worth writing at once. If each sequence has cells of its own, it does not slow the others down, but fewer sequences fit,
and common prefixes are copied. Measured on one core with the default model, prompts of 300 tokens: 24 replies 147
tokens/s in a shared cache and 223 apart; of 1,000 tokens: 4 replies 69 shared, 12 apart 103.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.model.generation import PARALLEL, GenerativeModel, Reply, Task, refuse_too_long, write
from engine.model.interface import Capacity, Span, TokenModel

SHORTEST_PREFIX = 32
"""Shortest prefix, in tokens, that is worth a sequence of its own."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A node in the tree of common prefixes.

    Attributes:
        parent: Index of the prefix that this one extends, or None.
        start: Number of tokens before `tokens`.
        tokens: The tokens that it adds.
    """

    parent: int | None
    start: int
    tokens: Sequence[int]

    @property
    def end(self) -> int:
        """Length of the whole prefix in tokens."""
        return self.start + len(self.tokens)


class _Plan:
    """The tree of common prefixes, as far as it fits into the cache."""

    def __init__(self, prompts: Sequence[Sequence[int]], room: int, most: int) -> None:
        self.found: list[Prefix] = []
        self.of: list[int | None] = [None] * len(prompts)
        self._prompts, self._room, self._most = prompts, room, most
        self._order = sorted(range(len(prompts)), key=lambda at: list(prompts[at]))
        self._common = [
            _common(prompts[one], prompts[other])
            for one, other in zip(self._order, self._order[1:], strict=False)
        ]
        self._share(0, len(prompts), None, 0)

    def _share(self, low: int, high: int, parent: int | None, start: int) -> None:
        """Shares the common prefix of the prompts `low` to `high` in sorted order, then those of parts of them."""
        if high - low < 2:
            return
        common = min(self._common[low : high - 1])
        # Every prompt keeps its last token, whose decoding gives the first distribution.
        end = min(common, min(len(self._prompts[at]) for at in self._order[low:high]) - 1)
        fits = end - start <= self._room and len(self.found) < self._most
        if end - start >= SHORTEST_PREFIX and fits:
            tokens = self._prompts[self._order[low]][start:end]
            self.found.append(Prefix(parent, start, tokens))
            self._room -= len(tokens)
            parent, start = len(self.found) - 1, end
            for at in self._order[low:high]:
                self.of[at] = parent
        cuts = [at + 1 for at in range(low, high - 1) if self._common[at] == common]
        if len(cuts) < high - low - 1:
            for first, last in zip([low, *cuts], [*cuts, high], strict=True):
                self._share(first, last, parent, start)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common prefix of two prompts."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def share_prefixes(
    model: TokenModel, tasks: Sequence[Task], sequences: Sequence[int]
) -> tuple[list[Task], int]:
    """Decodes the common prefixes of the tasks' prompts.

    Args:
        sequences: Empty sequences for the prefixes; the caller drops them.

    Returns:
        The tasks, which now fork from the prefixes, and the number of tokens that the prefixes hold.
    """
    capacity = model.capacity
    if not capacity.forkable or len(tasks) < 2:
        return list(tasks), 0
    longest = max(len(task.prompt) + task.max_tokens for task in tasks)
    room = min(capacity.cells - longest, capacity.cells // 2)
    if (
        capacity.separate
    ):  # prefixes have sequences of their own, and are shorter than what fits one
        room = capacity.cells
    plan = _Plan([task.prompt for task in tasks], room, len(sequences))
    for prefix, sequence in zip(plan.found, sequences, strict=False):
        if prefix.parent is not None:
            model.fork(sequences[prefix.parent], sequence, prefix.start)
        for at in range(0, len(prefix.tokens), capacity.batch):
            tokens = prefix.tokens[at : at + capacity.batch]
            model.decode([Span(tokens, prefix.start + at, (sequence,))])
    shared = [
        task if of is None else replace(task, source=sequences[of], decoded=plan.found[of].end)
        for task, of in zip(tasks, plan.of, strict=True)
    ]
    return shared, sum(len(prefix.tokens) for prefix in plan.found)


STEP = 256
"""llama.cpp allocates the cells of a sequence in multiples of this."""


SHORTEST = 1024
"""Fewest cells of a sequence. Changing the layout takes time, so only a few lengths are used."""


FEWEST = 4
"""Fewest replies, and fewest sequences, for which separate cells are worth a change of the layout."""


ENOUGH = 8
"""Beyond this many sequences, more gain little: then shorter replies join longer ones."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Replies that are written together.

    Attributes:
        members: Indices of the replies, rising.
        separate: Number of sequences with cells of their own; 0 if all share the cache.
    """

    members: Sequence[int]
    separate: int


def widest(cells: int, length: int) -> int:
    """How many sequences of `length` tokens fit into so many cells when each has its own."""
    return cells // (-(-length // STEP) * STEP)


def apart(shared: Capacity, cells: int, sequences: int) -> Capacity:
    """The capacity when the cells are divided among so many sequences.

    Args:
        shared: The capacity when they share the cache.
    """
    own = min(cells // sequences // STEP, -(-shared.context // STEP)) * STEP
    return replace(
        shared,
        context=min(shared.context, own),
        cells=sequences * own,
        sequences=sequences,
        separate=True,
    )


def layouts(needs: Sequence[int], room: Callable[[int], int]) -> list[Layout]:
    """Divides replies into groups with a layout for each. It depends on `needs` alone, so that the same request is
    answered in the same batches and gives the same bits.

    Args:
        needs: Tokens of each prompt with its longest reply.
        room: Gives the number of sequences of a length that fit.
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, need in enumerate(needs):
        by_length[_rounded(need)].append(number)
    found: list[Layout] = []
    sharing: list[int] = []
    while by_length:
        length = max(by_length)
        sequences = min(PARALLEL, room(length))
        left = sum(map(len, by_length.values()))
        if left < FEWEST or (sequences >= FEWEST and (sequences >= ENOUGH or left <= sequences)):
            members = [number for numbers in by_length.values() for number in numbers]
            by_length.clear()
        else:
            members = by_length.pop(length)
        if sequences >= FEWEST and len(members) >= FEWEST:
            found.append(Layout(sorted(members), sequences))
        else:
            sharing += members
    if sharing:
        found.append(Layout(sorted(sharing), 0))
    return found


def _rounded(need: int) -> int:
    """The number of cells of a reply's sequence."""
    length = SHORTEST
    while length < need:
        length *= 2
    return length


def generate(
    model: GenerativeModel, tasks: Sequence[Task], progress: Callable[[int], None] | None = None
) -> list[Reply]:
    """Writes one reply to each task. The cache is cleared.

    Args:
        tasks: Tasks without decoded tokens.
        progress: Called now and then with the number of replies that are done.

    Raises:
        ModelError: A prompt does not fit the context.
        Cancelled: The request was cancelled.
    """
    refuse_too_long(tasks, model.longest)
    if model.capacity.forkable:
        found = layouts([task.need for task in tasks], model.widest)
    else:
        found = [Layout(range(len(tasks)), 0)]
    replies: dict[int, Reply] = {}
    for layout in found:
        some = [tasks[number] for number in layout.members]
        report = progress and partial(_added, progress, len(replies))
        replies.update(zip(layout.members, _together(model, some, layout, report), strict=True))
    model.clear()
    return [replies[number] for number in range(len(tasks))]


def _added(progress: Callable[[int], None], before: int, count: int) -> None:
    progress(before + count)


def _together(
    model: GenerativeModel,
    tasks: Sequence[Task],
    layout: Layout,
    progress: Callable[[int], None] | None,
) -> list[Reply]:
    model.arrange(layout.separate)
    count = model.capacity.sequences
    most = count // 4 if layout.separate else count - min(PARALLEL, count // 2)
    prefixes = range(count - 1, count - 1 - most, -1)
    shared, held = share_prefixes(model, tasks, prefixes)
    # Prefixes use the last sequences; each has a higher number than those that extend it.
    first = min((task.source for task in shared if task.source is not None), default=count)
    free = range(min(PARALLEL, first))
    return write(model, shared, free, progress, held=held)
