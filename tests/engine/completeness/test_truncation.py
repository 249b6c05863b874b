"""Where the truncation test cuts conversations, and the pairs that it makes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.completeness.truncation import Pair, cut_at, truncate


class TestCut:
    @given(st.integers(), st.text(), st.integers(2, 40))
    def test_before_the_last_boundary(self, seed: int, name: str, boundaries: int) -> None:
        """A conversation is cut at a boundary before its last one, always the same for one name."""
        place = cut_at(seed, name, boundaries)
        assert place is not None
        assert 0 <= place < boundaries - 1
        assert cut_at(seed, name, boundaries) == place

    def test_every_turn_is_as_likely(self) -> None:
        """Over 4,000 names each of four turns is drawn by 22% to 28%; another seed cuts three of four elsewhere."""
        first = [cut_at(0, f"c/{n}", 5) for n in range(4_000)]
        other = [cut_at(1, f"c/{n}", 5) for n in range(4_000)]
        assert set(first) == {0, 1, 2, 3}
        assert all(880 <= times <= 1_120 for times in Counter(first).values())
        assert 880 <= sum(a == b for a, b in zip(first, other, strict=True)) <= 1_120

    def test_one_boundary(self) -> None:
        """A conversation with one boundary cannot be cut."""
        assert cut_at(0, "c", 1) is None
        assert cut_at(0, "c", 0) is None


class TestPairs:
    def test_whole_and_cut(self) -> None:
        """A pair has the value at the last boundary and at the cut, which the name alone decides."""
        curve = [0.1, 0.2, 0.3, 0.9]
        found = truncate({"a": curve, "b": curve}, seed=3)
        assert found.pairs == tuple(
            Pair(name, 0.9, curve[cut_at(3, name, 4) or 0]) for name in ("a", "b")
        )
        alone = truncate({"b": [0.5, 0.6, 0.7, 0.8]}, seed=3)
        assert alone.pairs[0].cut == [0.5, 0.6, 0.7][cut_at(3, "b", 4) or 0]

    def test_columns(self) -> None:
        """Whole conversations come first; both of a pair are in one group."""
        found = truncate({"a": [0.1, 0.9], "b": [0.2, 0.8]}, seed=0)
        assert found.values == [0.9, 0.8, 0.1, 0.2]
        assert found.complete == [True, True, False, False]
        assert found.groups == [0, 1, 0, 1]

    def test_what_gives_no_pair_is_counted(self) -> None:
        """A conversation with one boundary, or without a value at its end or at the cut, gives no pair and is
        counted.
        """
        found = truncate(
            {"one": [0.5], "none": [], "end": [0.1, None], "cut": [None, 0.9], "whole": [0.1, 0.9]},
            seed=0,
        )
        assert [pair.conversation for pair in found.pairs] == ["whole"]
        assert (found.single, found.unread) == (2, 2)
        elsewhere = truncate({f"c/{n}": [None, 0.2, 0.9] for n in range(40)}, seed=0)
        assert 0 < elsewhere.unread < 40
