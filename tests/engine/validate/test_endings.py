"""The truncation test on kept scores, and the test at matched places."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.validate.endings import draw_cuts, matched
from engine.validate.truncation import cut_at


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(0, 5))
def test_cuts_are_those_of_the_table(counts: list[int], seed: int) -> None:
    """Each conversation with two boundaries or more gives its last one and the one that the table cuts it at."""
    names = [f"c{n}" for n in range(len(counts))]
    found = draw_cuts(names, counts, seed)
    first = np.cumsum([0, *counts])
    expected = [
        (first[n] + counts[n] - 1, first[n] + place)
        for n, name in enumerate(names)
        if (place := cut_at(seed, name, counts[n])) is not None
    ]
    assert list(zip(found.whole.tolist(), found.cut.tolist(), strict=True)) == expected


class TestMatched:
    def test_only_equal_places_are_compared(self) -> None:
        """A conversation of two turns is held against the second boundary of longer ones, and those of one turn
        against first boundaries."""
        counts = [1, 2, 3]
        values = np.array([0.9, 0.1, 0.4, 0.2, 0.6, 0.8])
        # .9 beats .1 and .2; .4 loses to .6
        assert matched(values, counts) == (2 / 3, 3)

    def test_a_score_that_only_grows_with_position_is_at_chance(self) -> None:
        """What position alone tells is worth nothing here."""
        counts = [1, 2, 3, 4, 5]
        values = np.concatenate([np.arange(count, dtype=float) for count in counts])
        assert matched(values, counts)[0] == 0.5

    @given(st.lists(st.integers(1, 6), max_size=12))
    def test_it_counts_every_pair(self, counts: list[int]) -> None:
        """It is the share over all pairs, ties counting half."""
        draw = np.random.default_rng(len(counts))
        values = draw.integers(0, 3, sum(counts)).astype(float)
        curves = np.split(values, np.cumsum(counts)[:-1]) if counts else []
        wins = [
            (curve[-1] > other[len(curve) - 1]) + (curve[-1] == other[len(curve) - 1]) / 2
            for curve in curves
            for other in curves
            if len(other) > len(curve)
        ]
        share, pairs = matched(values, counts)
        assert pairs == len(wins)
        assert share is None if not wins else share == np.mean(wins)
