"""How the rows of a step are split into parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.run_directory.microbatches import PASS, SHORT, parts, room_of, width

LENGTHS = st.lists(st.integers(1, 3000), min_size=1, max_size=6)
ROOMS = st.sampled_from([1, 256, 1024, 4096, 20_000])


def cost(lengths: Sequence[int], split: Sequence[Sequence[int]]) -> int:
    """Of a split, in tokens."""
    return sum(PASS + len(part) * width(max(lengths[at] for at in part)) for part in split)


def fits(lengths: Sequence[int], part: Sequence[int], room: int) -> bool:
    """Whether a part may be."""
    return len(part) == 1 or len(part) * width(max(lengths[at] for at in part)) <= room


def all_splits(places: list[int]) -> Iterator[list[list[int]]]:
    """Every way to split them."""
    if not places:
        yield []
        return
    first, *rest = places
    for split in all_splits(rest):
        yield [[first], *split]
        for at in range(len(split)):
            yield [*split[:at], [first, *split[at]], *split[at + 1 :]]


@given(LENGTHS, ROOMS)
def test_each_row_is_read_once_and_within_the_room(lengths: list[int], room: int) -> None:
    """Each place is in one part; several rows together keep to the room."""
    split = parts(lengths, room)

    assert sorted(at for part in split for at in part) == list(range(len(lengths)))
    assert all(fits(lengths, part, room) for part in split)


@given(LENGTHS, ROOMS)
def test_no_split_costs_less(lengths: list[int], room: int) -> None:
    """Of all splits that keep to the room none costs less."""
    allowed = [
        cost(lengths, split)
        for split in all_splits(list(range(len(lengths))))
        if all(fits(lengths, part, room) for part in split)
    ]

    assert cost(lengths, parts(lengths, room)) == min(allowed)


def test_short_rows_go_together_and_a_long_one_alone() -> None:
    """Seven short conversations are one pass beside a long one."""
    assert parts([100, 2000, *[100] * 6], 2048) == [[1], [0, 2, 3, 4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("rows", "batch", "longest", "room"),
    [(1, 8, 2048, 2048), (4, 8, 2000, 8192), (1, 8, 100, SHORT), (1, 2, 100, 256), (1, 8, 5000, 5056),
     (16, 8, 2048, 16_384)],
)  # fmt: skip
def test_room(rows: int, batch: int, longest: int, room: int) -> None:
    """There is room for so many of the longest, for short ones up to a length, never for more than a step."""
    assert room_of(rows, batch, longest) == room
