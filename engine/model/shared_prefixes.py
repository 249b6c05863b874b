"""Decodes the common prefixes of prompts once, and forks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.model.generation import Task
from engine.model.interface import Span, TokenModel

SHORTEST = 32
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
        if end - start >= SHORTEST and fits:
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
