"""How the conversations of a step are split into microbatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.training.base import LEAST_BUDGET, find_token_budget, padded_length
from training.loop import PASS_COST, microbatches

LENGTHS = st.lists(st.integers(1, 3000), min_size=1, max_size=6)
BUDGETS = st.sampled_from([1, 256, 1024, 4096, 20_000])


def tokens(lengths: Sequence[int], rows: Sequence[int]) -> int:
    """Tokens of a microbatch, padding included."""
    return len(rows) * padded_length(max(lengths[at] for at in rows))


def cost(lengths: Sequence[int], split: Sequence[Sequence[int]]) -> int:
    """The cost of a split, in tokens."""
    return sum(PASS_COST + tokens(lengths, rows) for rows in split)


def fits(lengths: Sequence[int], rows: Sequence[int], budget: int) -> bool:
    """Whether a microbatch is allowed."""
    return len(rows) == 1 or tokens(lengths, rows) <= budget


def all_splits(indices: list[int]) -> Iterator[list[list[int]]]:
    """All partitions of the rows into microbatches."""
    if not indices:
        yield []
        return
    first, *rest = indices
    for split in all_splits(rest):
        yield [[first], *split]
        for at in range(len(split)):
            yield [*split[:at], [first, *split[at]], *split[at + 1 :]]


@given(LENGTHS, BUDGETS)
def test_each_row_is_read_once_and_within_the_budget(lengths: list[int], budget: int) -> None:
    """Each index is in one microbatch; several rows together keep to the budget."""
    split = microbatches(lengths, budget)

    assert sorted(at for rows in split for at in rows) == list(range(len(lengths)))
    assert all(fits(lengths, rows, budget) for rows in split)


@given(LENGTHS, BUDGETS)
def test_no_split_costs_less(lengths: list[int], budget: int) -> None:
    """No other split that keeps to the budget costs less."""
    allowed = [
        cost(lengths, split)
        for split in all_splits(list(range(len(lengths))))
        if all(fits(lengths, rows, budget) for rows in split)
    ]

    assert cost(lengths, microbatches(lengths, budget)) == min(allowed)


@pytest.mark.parametrize(
    ("rows", "batch", "longest", "budget"),
    [(4, 8, 2000, 8192), (1, 8, 100, LEAST_BUDGET), (1, 2, 100, 256)],
)  # fmt: skip
def test_budget(rows: int, batch: int, longest: int, budget: int) -> None:
    """The budget holds `rows` of the longest, at least `LEAST_BUDGET` tokens, and never more than a step."""
    assert find_token_budget(rows, batch, longest) == budget
