"""Divides conversations into blocks that are decoded together.

Blocks are cut from all conversations in id order, never from those that are left to do. So a run that is resumed after
a crash decodes the same blocks and gets the same results bit for bit, and later imports only add blocks at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

LEAST_ITEMS, MOST_ITEMS = 4, 16
BLOCK_CHARS = 32_000


def blocks(ids: Sequence[int], chars: Sequence[int]) -> Iterator[list[int]]:
    """Cuts `ids` into blocks of 4 to 16 with about 32,000 characters, given the length of each."""
    block: list[int] = []
    held = 0
    for item, length in zip(ids, chars, strict=True):
        block.append(item)
        held += length
        if len(block) == MOST_ITEMS or (len(block) >= LEAST_ITEMS and held >= BLOCK_CHARS):
            yield block
            block, held = [], 0
    if block:
        yield block
