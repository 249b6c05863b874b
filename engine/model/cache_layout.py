"""How the cache is laid out for replies that are written side by side.

In one cache that all sequences share, every decode attends to the cells of all of them, so a few long prompts are all
that is worth writing at once. With cells of its own a sequence costs no other one anything; but then there is room for
so many only, and what prompts have in common is copied. Measured on one core with the default model, prompts of 300
tokens: 24 replies 147 tokens/s in a shared cache and 223 apart; of 1,000 tokens: 4 replies 69 shared, 12 apart 103.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.model.generation import PARALLEL
from engine.model.interface import Capacity

STEP = 256
"""llama.cpp gives a sequence cells of its own in multiples of this."""

SHORTEST = 1024
"""Cells of a sequence, at least: laying out the cache anew takes time, so lengths are few."""

FEWEST = 4
"""Replies, and sequences, from which cells of their own are worth laying out the cache anew."""

ENOUGH = 8
"""Sequences beside which more gain little: shorter replies join longer ones where there are so many."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Replies that are written together.

    Attributes:
        members: Their numbers, rising.
        separate: How many sequences have cells of their own, or 0 where all share the cache.
    """

    members: Sequence[int]
    separate: int


def widest(cells: int, length: int) -> int:
    """How many sequences of `length` tokens have room in so many cells when each has its own."""
    return cells // (-(-length // STEP) * STEP)


def apart(shared: Capacity, cells: int, sequences: int) -> Capacity:
    """What there is room for when so many cells are dealt out to so many sequences.

    Args:
        shared: What the model can hold when they share the cache.
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
    """Which replies are written together, in what layout; a function of these needs alone, so that the same request is
    answered in the same batches.

    Args:
        needs: Tokens of each prompt with its longest reply.
        room: How many sequences of a length there is room for.
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
    """The length that is laid out for a reply."""
    length = SHORTEST
    while length < need:
        length *= 2
    return length
