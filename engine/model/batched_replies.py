"""Writes replies to many prompts: chooses the cache layout and shares common prefixes.

In a cache that all sequences share, every decode attends to the cells of all of them, so only a few long prompts are
worth writing at once. If each sequence has cells of its own, it does not slow the others down, but fewer sequences fit,
and common prefixes are copied.

Speeds were measured on one core with the default model. To prompts of 300 tokens, 24 replies were written at 147 tokens
a second in a shared cache, and at 223 in cells of their own. To prompts of 1,000 tokens, 4 replies were written at 69
tokens a second in a shared cache, and 12 at 103 in cells of their own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from engine.model.generation import PARALLEL, GenerativeModel, Reply, Task, check_lengths, write
from engine.model.interface import Capacity, Span, TokenModel
from engine.model.prompt_files import common_length

MIN_PREFIX_TOKENS = 32
"""Shortest prefix, in tokens, that is worth a sequence of its own."""

CELL_MULTIPLE = 256
"""Number of cells in multiples of which llama.cpp allocates the cells of a sequence."""

MIN_SEQUENCE_CELLS = 1024
"""Fewest cells of a sequence. Changing the layout takes time, so only a few lengths are used."""

MIN_SEPARATE_SEQUENCES = 4
"""Fewest replies, and fewest sequences, for which separate cells are worth a change of the layout."""

ENOUGH_SEQUENCES = 8
"""Number of sequences beyond which more gain little; then shorter replies join longer ones."""


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


@dataclass(frozen=True, slots=True)
class Layout:
    """Replies that are written together.

    Attributes:
        members: Indices of the replies among those of the request, rising.
        separate_sequences: Number of sequences with cells of their own; 0 if all share the cache.
    """

    members: Sequence[int]
    separate_sequences: int


class _PrefixPlan:
    """The tree of common prefixes, as far as it fits into the cache.

    Prompts that share a beginning are neighbors in sorted order, so each prefix belongs to a run of them.

    Attributes:
        prefixes: The nodes, each after the one that it extends.
        prefix_of_prompt: Index of the longest prefix of each prompt; None if it shares none.
    """

    def __init__(
        self, prompts: Sequence[Sequence[int]], max_tokens: int, max_prefixes: int
    ) -> None:
        """Plans the prefixes.

        Args:
            max_tokens: Largest number of tokens of all prefixes together.
            max_prefixes: Largest number of prefixes.
        """
        self.prefixes: list[Prefix] = []
        self.prefix_of_prompt: list[int | None] = [None] * len(prompts)
        self._prompts = prompts
        self._free_tokens, self._max_prefixes = max_tokens, max_prefixes
        self._order = sorted(range(len(prompts)), key=lambda index: list(prompts[index]))
        # For each prompt in sorted order but the last, the number of tokens that it shares with the next one.
        self._common_lengths = [
            common_length([prompts[index], prompts[next_index]])
            for index, next_index in pairwise(self._order)
        ]
        self._share(0, len(prompts), None, 0)

    def _share(self, low: int, high: int, parent: int | None, start: int) -> None:
        """Shares the common prefix of a range of the prompts in sorted order, then those of smaller ranges in it.

        Args:
            low, high: The first prompt of the range, and the first one behind it.
            parent: Index of the prefix that they share so far; None for none.
            start: Length of that prefix in tokens.
        """
        if high - low < 2:
            return
        common = min(self._common_lengths[low : high - 1])
        # Every prompt keeps its last token, whose decoding gives the first distribution.
        shortest = min(len(self._prompts[index]) for index in self._order[low:high])
        tokens = self._prompts[self._order[low]][start : min(common, shortest - 1)]
        fits = len(tokens) <= self._free_tokens and len(self.prefixes) < self._max_prefixes
        if len(tokens) >= MIN_PREFIX_TOKENS and fits:
            self.prefixes.append(Prefix(parent, start, tokens))
            self._free_tokens -= len(tokens)
            parent, start = len(self.prefixes) - 1, start + len(tokens)
            for index in self._order[low:high]:
                self.prefix_of_prompt[index] = parent
        # The range is cut between neighbors that share no more than all of it: that of prompts ab, abc and ad between
        # the last two, whose `a` all have. If it is cut everywhere, nothing more is shared.
        cuts = [
            index + 1 for index in range(low, high - 1) if self._common_lengths[index] == common
        ]
        if len(cuts) < high - low - 1:
            for first, last in zip([low, *cuts], [*cuts, high], strict=True):
                self._share(first, last, parent, start)


def share_prefixes(
    model: TokenModel, tasks: Sequence[Task], sequences: Sequence[int]
) -> tuple[list[Task], int]:
    """Decodes the common prefixes of the prompts of tasks, so that each is decoded once.

    Args:
        sequences: Empty sequences for the prefixes; the caller drops them.

    Returns:
        The tasks, which now fork from the prefixes, and the number of tokens that the prefixes hold.
    """
    capacity = model.capacity
    if not capacity.forkable or len(tasks) < 2:
        return list(tasks), 0
    if capacity.separate:
        # Prefixes have sequences of their own, and are shorter than what fits one.
        max_tokens = capacity.cells
    else:
        # There must be room for the longest reply beside the prefixes.
        longest = max(len(task.prompt) + task.max_tokens for task in tasks)
        max_tokens = min(capacity.cells - longest, capacity.cells // 2)
    plan = _PrefixPlan([task.prompt for task in tasks], max_tokens, len(sequences))
    for prefix, sequence in zip(plan.prefixes, sequences, strict=False):
        if prefix.parent is not None:
            model.fork(sequences[prefix.parent], sequence, prefix.start)
        for offset in range(0, len(prefix.tokens), capacity.batch):
            tokens = prefix.tokens[offset : offset + capacity.batch]
            model.decode([Span(tokens, prefix.start + offset, (sequence,))])
    shared = [
        task
        if index is None
        else replace(task, source=sequences[index], decoded=plan.prefixes[index].end)
        for task, index in zip(tasks, plan.prefix_of_prompt, strict=True)
    ]
    return shared, sum(len(prefix.tokens) for prefix in plan.prefixes)


def count_separate(cells: int, length: int) -> int:
    """Returns how many sequences of `length` tokens, at least one, fit into a number of cells when each has its own;
    models answer `max_separate` by it."""
    return cells // (math.ceil(length / CELL_MULTIPLE) * CELL_MULTIPLE)


def divided_capacity(shared: Capacity, cells: int, sequences: int) -> Capacity:
    """Returns the capacity of a model when the cells of its cache are divided among a number of sequences.

    Args:
        shared: Its capacity when all sequences share the cache.
    """
    multiples = min(cells // sequences // CELL_MULTIPLE, math.ceil(shared.context / CELL_MULTIPLE))
    own_cells = multiples * CELL_MULTIPLE
    return replace(
        shared,
        context=min(shared.context, own_cells),
        cells=sequences * own_cells,
        sequences=sequences,
        separate=True,
    )


def layouts(needs: Sequence[int], max_separate: Callable[[int], int]) -> list[Layout]:
    """Divides replies into groups, and returns the layout of each.

    The division depends on the request and on the size of the cache alone, so that the same request is answered in the
    same batches and gives the same bits.

    Args:
        needs: Number of tokens of each prompt with its longest reply.
        max_separate: Returns how many sequences of so many tokens fit when each has cells of its own.
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for index, need in enumerate(needs):
        by_length[_sequence_cells(need)].append(index)
    groups: list[Layout] = []
    sharing_members: list[int] = []
    # The longest replies are placed first. All shorter ones join them where too few are left for a group of their own,
    # or where as many sequences fit as are left or as are worth having.
    while by_length:
        length = max(by_length)
        sequences = min(PARALLEL, max_separate(length))
        count_left = sum(map(len, by_length.values()))
        too_few_left = count_left < MIN_SEPARATE_SEQUENCES
        enough_fit = sequences >= MIN_SEPARATE_SEQUENCES and (
            sequences >= ENOUGH_SEQUENCES or count_left <= sequences
        )
        if too_few_left or enough_fit:
            members = [index for indices in by_length.values() for index in indices]
            by_length.clear()
        else:
            members = by_length.pop(length)
        if sequences >= MIN_SEPARATE_SEQUENCES and len(members) >= MIN_SEPARATE_SEQUENCES:
            groups.append(Layout(sorted(members), sequences))
        else:
            sharing_members += members
    if sharing_members:
        groups.append(Layout(sorted(sharing_members), 0))
    return groups


def _sequence_cells(need: int) -> int:
    """Returns the number of cells of a reply's sequence: `MIN_SEQUENCE_CELLS`, doubled until `need` tokens fit."""
    length = MIN_SEQUENCE_CELLS
    while length < need:
        length *= 2
    return length


def generate(
    model: GenerativeModel, tasks: Sequence[Task], progress: Callable[[int], None] | None = None
) -> list[Reply]:
    """Returns one reply to each task; the cache is cleared before and afterwards.

    Args:
        tasks: Tasks without decoded tokens.
        progress: Called now and then with the number of replies that are done.

    Raises:
        ModelError: A prompt does not fit the context.
        Cancelled: The request was cancelled.
    """
    check_lengths(tasks, model.longest_sequence)
    if model.capacity.forkable:
        groups = layouts([task.reserved_cells for task in tasks], model.max_separate)
    else:
        groups = [Layout(range(len(tasks)), 0)]
    replies: dict[int, Reply] = {}
    for layout in groups:
        group_tasks = [tasks[index] for index in layout.members]
        report = progress and partial(_report_after, len(replies), progress)
        group_replies = _write_together(model, group_tasks, layout, report)
        replies.update(zip(layout.members, group_replies, strict=True))
    model.clear()
    return [replies[index] for index in range(len(tasks))]


def _report_after(done_before: int, progress: Callable[[int], None], count: int) -> None:
    """Reports the replies of a group together with those of the groups before it."""
    progress(done_before + count)


def _write_together(
    model: GenerativeModel,
    tasks: Sequence[Task],
    layout: Layout,
    progress: Callable[[int], None] | None,
) -> list[Reply]:
    """Returns the replies of one layout, which shares the common prefixes of its prompts."""
    model.arrange(layout.separate_sequences)
    count = model.capacity.sequences
    # Separate sequences are few, so prefixes get a quarter of them; else what the replies leave.
    max_prefixes = count // 4 if layout.separate_sequences else count - min(PARALLEL, count // 2)
    prefixes = range(count - 1, count - 1 - max_prefixes, -1)
    shared, prefix_tokens = share_prefixes(model, tasks, prefixes)
    # Prefixes use the last sequences, and a prefix has a higher number than those that extend it. So all numbers below
    # the lowest one that a task forks from are free.
    first = min((task.source for task in shared if task.source is not None), default=count)
    free_sequences = range(min(PARALLEL, first))
    return write(model, shared, free_sequences, progress, source_tokens=prefix_tokens)
