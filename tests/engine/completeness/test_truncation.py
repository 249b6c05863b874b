"""The truncation test and its figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.statistics.intervals import Interval
from engine.completeness.truncation import cut_at, draw_cuts, matched, matched_difference, truncate


def test_whole_and_cut() -> None:
    """A conversation gives the value at its last boundary and at the cut, which its name alone decides; one with a
    single boundary gives none."""
    curve = [0.1, 0.2, 0.3, 0.9]
    whole, cut = truncate(["a", "one", "b", "none"], [curve, [0.5], curve, []], seed=3)
    assert whole == [0.9, 0.9]
    assert cut == [curve[cut_at(3, name, 4) or 0] for name in ("a", "b")]
    assert truncate(["b"], [curve], seed=3) == ([0.9], cut[1:])


GOOD_OVER_FAIR = 0.1499
"""P(x + 2 > y) - P(x + 1 > y) where x and y are sums of two standard normal values: the normal distribution function at
1 minus that at 1/2."""


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
        curves = [np.array(one) for one in ([0.9], [0.1, 0.4], [0.2, 0.6, 0.8])]
        # .9 beats .1 and .2; .4 loses to .6
        share, pairs = matched(curves)
        assert share is not None
        assert (share.value, pairs) == (2 / 3, 3)

    def test_a_score_that_only_grows_with_position_is_at_chance(self) -> None:
        """What position alone tells is worth nothing here."""
        share, _ = matched([np.arange(count, dtype=float) for count in (1, 2, 3, 4, 5)])
        assert share is not None
        assert share.value == 0.5

    @given(st.lists(st.integers(1, 6), max_size=12))
    def test_it_counts_every_pair(self, counts: list[int]) -> None:
        """It is the share over all pairs, ties counting half, and lies in its interval."""
        draw = np.random.default_rng(len(counts))
        curves = [draw.integers(0, 3, count).astype(float) for count in counts]
        wins = [
            (curve[-1] > other[len(curve) - 1]) + (curve[-1] == other[len(curve) - 1]) / 2
            for curve in curves
            for other in curves
            if len(other) > len(curve)
        ]
        share, pairs = matched(curves)
        assert pairs == len(wins)
        if share is None:
            assert not wins
        else:
            assert share.value == np.mean(wins)
            assert 0 <= share.low <= share.value <= share.high <= 1


class TestMatchedDifference:
    def test_it_is_the_difference_of_the_shares(self) -> None:
        """It is one share minus the other, over the same pairs; a scoring does not differ from itself, for sure."""
        draw = np.random.default_rng(1)
        counts = draw.integers(1, 6, 40)
        curves, others = ([draw.normal(size=count) for count in counts] for _ in range(2))
        found = matched_difference(curves, others)
        shares = [matched(one)[0] for one in (curves, others)]
        assert found is not None
        assert shares[0] is not None
        assert shares[1] is not None
        assert found.value == pytest.approx(shares[0].value - shares[1].value)
        assert matched_difference(curves, curves) == Interval(0.0, 0.0, 0.0)

    def test_the_interval_covers(self) -> None:
        """Of 95% intervals of two scorings that share what makes a conversation easy, about 95% contain the true
        difference, and they are narrower than those of two shares apart."""
        draw = np.random.default_rng(5)
        inside, narrower = 0, 0
        for _ in range(200):
            counts = draw.integers(1, 6, 60)
            own = draw.normal(size=60)
            noise = [own[n] + draw.normal(size=count) for n, count in enumerate(counts)]
            ends = [np.append(np.zeros(count - 1), 1.0) for count in counts]
            good = [one + 2 * end for one, end in zip(noise, ends, strict=True)]
            fair = [one + end for one, end in zip(noise, ends, strict=True)]
            found = matched_difference(good, fair)
            shares = [matched(one)[0] for one in (good, fair)]
            assert found is not None
            inside += found.low <= GOOD_OVER_FAIR <= found.high
            apart = sum(one.high - one.low for one in shares if one is not None)
            narrower += found.high - found.low < apart
        assert 180 <= inside <= 199
        assert narrower == 200
