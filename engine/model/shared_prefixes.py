"""Beginnings that several prompts share are decoded once, and forked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.model.generation import Task
from engine.model.interface import Span, TokenModel

SHORTEST = 32
"""Tokens from which decoding a beginning once is worth a sequence of its own."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Tokens that several prompts begin with.

    Attributes:
        parent: Number of the beginning that stands before them, or None.
        start: How many tokens stand before them.
        tokens: What they are.
    """

    parent: int | None
    start: int
    tokens: Sequence[int]

    @property
    def end(self) -> int:
        """Tokens of the beginning with all that stands before it."""
        return self.start + len(self.tokens)


class _Plan:
    """Beginnings of prompts, nested, as far as they fit."""

    def __init__(self, prompts: Sequence[Sequence[int]], room: int, most: int) -> None:
        self.found: list[Beginning] = []
        self.of: list[int | None] = [None] * len(prompts)
        self._prompts, self._room, self._most = prompts, room, most
        self._order = sorted(range(len(prompts)), key=lambda at: list(prompts[at]))
        self._common = [
            _common(prompts[one], prompts[other])
            for one, other in zip(self._order, self._order[1:], strict=False)
        ]
        self._share(0, len(prompts), None, 0)

    def _share(self, low: int, high: int, parent: int | None, start: int) -> None:
        """Shares what the prompts from `low` to `high` in order have in common, then what parts of them have."""
        if high - low < 2:
            return
        common = min(self._common[low : high - 1])
        # Every prompt keeps its last token, whose decoding gives the first distribution.
        end = min(common, min(len(self._prompts[at]) for at in self._order[low:high]) - 1)
        fits = end - start <= self._room and len(self.found) < self._most
        if end - start >= SHORTEST and fits:
            tokens = self._prompts[self._order[low]][start:end]
            self.found.append(Beginning(parent, start, tokens))
            self._room -= len(tokens)
            parent, start = len(self.found) - 1, end
            for at in self._order[low:high]:
                self.of[at] = parent
        cuts = [at + 1 for at in range(low, high - 1) if self._common[at] == common]
        if len(cuts) < high - low - 1:
            for first, last in zip([low, *cuts], [*cuts, high], strict=True):
                self._share(first, last, parent, start)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two prompts begin with alike."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)


def share_beginnings(
    model: TokenModel, tasks: Sequence[Task], sequences: Sequence[int]
) -> tuple[list[Task], int]:
    """Decodes what tasks begin with alike, once.

    Args:
        sequences: Empty sequences that beginnings may be put on; the caller drops them.

    Returns:
        The tasks, which fork the beginnings, and how many tokens these hold.
    """
    capacity = model.capacity
    if not capacity.forkable or len(tasks) < 2:
        return list(tasks), 0
    longest = max(len(task.prompt) + task.max_tokens for task in tasks)
    room = min(capacity.cells - longest, capacity.cells // 2)
    if (
        capacity.separate
    ):  # beginnings have sequences of their own, and are shorter than what fits one
        room = capacity.cells
    plan = _Plan([task.prompt for task in tasks], room, len(sequences))
    for beginning, sequence in zip(plan.found, sequences, strict=False):
        if beginning.parent is not None:
            model.fork(sequences[beginning.parent], sequence, beginning.start)
        for at in range(0, len(beginning.tokens), capacity.batch):
            tokens = beginning.tokens[at : at + capacity.batch]
            model.decode([Span(tokens, beginning.start + at, (sequence,))])
    shared = [
        task if of is None else replace(task, source=sequences[of], decoded=plan.found[of].end)
        for task, of in zip(tasks, plan.of, strict=True)
    ]
    return shared, sum(len(beginning.tokens) for beginning in plan.found)
