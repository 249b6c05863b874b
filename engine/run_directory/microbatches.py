"""How the conversations of a step are read: together in parts, as they cost least and as memory allows."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH_STEP = 64
"""Lengths of what is computed are multiples of this: libraries prepare kernels and memory for every shape that they
meet, and keep them. On a CPU a conversation of 60 to 400 tokens cost 25 MB at a length of its own, 4 MB at these."""

SHORT = 1024
"""Tokens that are read together in any case. On two cores with the default model 1,024 in one pass are read at 302
tokens/s, twice as many at 319."""

PASS = 100
"""What a part costs beside its tokens, in tokens. On two cores with the default model a pass over 128 tokens takes
0.53 s, one over eight rows of 128 takes 2.75 s. Not measured on a GPU."""


def width(tokens: int) -> int:
    """The length that so many tokens are padded to."""
    return -(-tokens // WIDTH_STEP) * WIDTH_STEP


def room_of(rows: int, batch: int, longest: int) -> int:
    """Tokens that a part of several conversations may have, padding counted.

    Args:
        rows: Conversations of the longest length that are in memory together.
        batch: Conversations a step.
        longest: Tokens of the longest conversation of the run.
    """
    return min(batch * width(longest), max(rows * width(longest), SHORT))


def parts(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Parts of a step, as places in `lengths`, each place once.

    A part of n rows costs n times the width of its longest, and `PASS`; the sum is the least there is under `room`,
    which one long row alone may exceed. Since rows of like length stand together in the best parts, only runs of the
    rows in order of length are tried.

    Args:
        lengths: Tokens of each conversation.
        room: See `room_of`.
    """
    order = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    # The least that the first so many rows cost, and where the last part of them begins.
    costs, begins = [0], [0]
    for end in range(1, len(order) + 1):
        found = [
            (costs[start] + PASS + taken, start)
            for start in range(end)
            if (taken := (end - start) * width(lengths[order[start]])) <= room or end - start == 1
        ]
        cost, start = min(found)
        costs.append(cost)
        begins.append(start)
    split: list[list[int]] = []
    end = len(order)
    while end:
        split.append(order[begins[end] : end])
        end = begins[end]
    return split[::-1]
