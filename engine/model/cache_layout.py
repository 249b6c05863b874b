"""Chooses the layout of the key-value cache for replies that are written at the same time.

In a cache that all sequences share, every decode attends to the cells of all of them, so only a few long prompts are
worth writing at once. If each sequence has cells of its own, it does not slow the others down, but fewer sequences fit,
and common prefixes are copied. Measured on one core with the default model, prompts of 300
tokens: 24 replies 147 tokens/s in a shared cache and 223 apart; of 1,000 tokens: 4 replies 69 shared, 12 apart 103.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.model.generation import PARALLEL
from engine.model.interface import Capacity

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
