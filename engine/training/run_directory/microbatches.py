"""How the conversations of one optimiser step are split into microbatches: cheapest first, within a token budget."""

from __future__ import annotations

from collections.abc import Sequence

LENGTH_STEP = 64
"""Padded lengths are multiples of this. Libraries prepare kernels and memory for each shape that they meet, and keep
them: on a CPU a conversation of 60 to 400 tokens cost 25 MB at its own length, 4 MB at these lengths."""

LEAST_BUDGET = 1024
"""Tokens that a microbatch may always have. On two cores the default model reads 302 tokens/s at 1,024 tokens a
pass, and 319 tokens/s at twice as many."""

PASS_COST = 100
"""What one forward and backward pass costs beside its tokens, in tokens. On two cores with the default model a pass
over 128 tokens takes 0.53 s, and one over eight rows of 128 takes 2.75 s. Not measured on a GPU."""


def padded_length(tokens: int) -> int:
    """The length that a row of so many tokens is padded to."""
    return -(-tokens // LENGTH_STEP) * LENGTH_STEP


def token_budget(rows: int, batch: int, longest: int) -> int:
    """Most tokens of a microbatch of several conversations, padding included.

    Args:
        rows: Conversations of the greatest length that are in memory together.
        batch: Conversations of a step.
        longest: Tokens of the longest conversation of the run.
    """
    length = padded_length(longest)
    return min(batch * length, max(rows * length, LEAST_BUDGET))


def microbatches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """The microbatches of one step, as indices into `lengths`; each index is in exactly one of them.

    A microbatch of n rows costs n times the padded length of its longest row, plus `PASS_COST`. The split is the
    cheapest one in which every microbatch keeps to `budget`; a single row may exceed it. Rows of similar length share
    a microbatch in the cheapest split, so only runs of consecutive rows in order of length are tried (dynamic
    programming over the sorted rows).

    Args:
        lengths: Tokens of each conversation.
        budget: See `token_budget`.
    """
    order = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    # For the first n rows: the lowest cost, and where their last microbatch begins.
    costs, begins = [0], [0]
    for end in range(1, len(order) + 1):
        options = [
            (costs[start] + PASS_COST + tokens, start)
            for start in range(end)
            if (tokens := (end - start) * padded_length(lengths[order[start]])) <= budget
            or end - start == 1
        ]
        cost, start = min(options)
        costs.append(cost)
        begins.append(start)
    split: list[list[int]] = []
    end = len(order)
    while end:
        split.append(order[begins[end] : end])
        end = begins[end]
    return split[::-1]
