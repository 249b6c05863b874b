"""The blocks of conversations that are decoded together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.jobs.contract import BLOCK_CHARS, LEAST_ITEMS, MOST_ITEMS, blocks

lengths = st.lists(st.integers(0, 2 * BLOCK_CHARS), max_size=80)


@given(lengths)
def test_every_conversation_once_and_in_order(chars: list[int]) -> None:
    """The blocks joined are the list; none is empty or too large, only the last may be below the least size."""
    ids = list(range(100, 100 + len(chars)))
    made = list(blocks(ids, chars))
    assert [item for block in made for item in block] == ids
    assert all(1 <= len(block) <= MOST_ITEMS for block in made)
    assert all(len(block) >= LEAST_ITEMS for block in made[:-1])


@given(lengths, lengths)
def test_later_imports_only_add_blocks(chars: list[int], more: list[int]) -> None:
    """Later imports change no block but the last."""
    settled = list(blocks(range(len(chars)), chars))[:-1]
    after = list(blocks(range(len(chars) + len(more)), chars + more))
    assert after[: len(settled)] == settled


@given(lengths, st.integers(1, 5))
def test_parts_hold_the_blocks_of_the_whole(chars: list[int], of: int) -> None:
    """Parts for several machines are cut into just the blocks of the whole, each in one part."""
    ids = list(range(len(chars)))
    whole = list(blocks(ids, chars))
    parts = [[item for block in whole[number::of] for item in block] for number in range(of)]
    cut = [block for part in parts for block in blocks(part, [chars[item] for item in part])]
    assert sorted(cut) == whole
