"""Nearly equal conversations share a group, whatever their order, and different ones do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversations.shingle_overlap import (
    MANY_CONVERSATIONS,
    MANY_SHARE,
    MIN_SHARED,
    groups,
    shingles,
)

VOCABULARY = [f"word{number}" for number in range(5_000)]


def text_of(seed: int, words: int = 120) -> str:
    """A text of random words."""
    return " ".join(np.random.default_rng(seed).choice(VOCABULARY, words))


def changed(text: str, seed: int, words: int) -> str:
    """The text with some words exchanged."""
    random = np.random.default_rng(seed)
    found = text.split()
    for at in random.choice(len(found), words, replace=False):
        found[at] = "other"
    return " ".join(found)


def numbers(texts: list[str]) -> list[int]:
    """The groups of texts."""
    return [int(number) for number in groups([shingles(text) for text in texts])]


class TestGroups:
    @settings(max_examples=20, deadline=None)  # the first call imports scipy
    @given(st.integers(0, 1_000), st.integers(0, 8))
    def test_a_copy_with_a_few_changed_words_shares_the_group(self, seed: int, words: int) -> None:
        """Up to 8 of 120 words changed, case and punctuation too; another text stays by itself."""
        text = text_of(seed)
        copy = changed(text, seed, words).upper().replace(" ", ", ")
        assert numbers([text, text_of(seed + 5_000), copy]) == [0, 1, 0]

    @settings(max_examples=20, deadline=None)
    @given(
        st.lists(st.sets(st.integers(0, 25), max_size=10).map(sorted), max_size=25),
    )
    def test_no_pair_is_missed(self, rows: list[list[int]]) -> None:
        """Comparing only who shares a rare shingle finds the pairs that comparing all with all finds."""
        common = max(MANY_CONVERSATIONS, MANY_SHARE * len(rows))
        kept = [{one for one in row if sum(one in each for each in rows) <= common} for row in rows]
        found = groups([np.array(row, dtype=np.uint32) for row in rows]).tolist()
        for a, one in enumerate(kept):
            for b, other in enumerate(kept[:a]):
                both = len(one & other)
                if both and both >= MIN_SHARED * len(one | other):
                    assert found[a] == found[b]

    def test_copies_of_copies_share_one_group(self) -> None:
        """The first and the last of a chain of copies share a group, though they share few words."""
        chain = [text_of(1)]
        for step in range(12):
            chain.append(changed(chain[-1], step, 7))
        first, last = set(shingles(chain[0])), set(shingles(chain[-1]))
        assert len(first & last) < MIN_SHARED * len(first | last)
        assert set(numbers(chain)) == {0}

    @pytest.mark.parametrize("count", [MANY_CONVERSATIONS + 1])
    def test_a_prompt_that_all_share_does_not_count(self, count: int) -> None:
        """Conversations behind one long prompt are told apart by what follows it, copies among them found."""
        prompt = text_of(1, words=1_000)
        texts = [f"{prompt} {text_of(number + 2)}" for number in range(count)]
        assert numbers([*texts, texts[3]]) == [*range(count), 3]

    @pytest.mark.parametrize("texts", [[], [""], ["", "hi", "Hi there", ""]])
    def test_texts_without_three_words_stay_by_themselves(self, texts: list[str]) -> None:
        """What has no shingle is near to nothing; nothing at all has no groups."""
        assert numbers(texts) == list(range(len(texts)))
