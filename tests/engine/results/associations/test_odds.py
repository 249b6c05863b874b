"""Odds ratios within strata, their correction for many tests, and groups of near-equal features."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import erfc

from engine.results.associations.odds import (
    Incidence,
    adjust_p_values,
    group_near_equal,
    odds_ratios,
    weigh_tests,
)

Bools = NDArray[np.bool_]


def incidence_of(has: Bools) -> Incidence:
    """The pairs of a table of features by conversations."""
    return Incidence(*np.nonzero(has))


def side_with(first: int, second: int) -> Bools:
    """A feature that so many of the first hundred conversations have, and so many of the second hundred."""
    has = np.zeros((1, 200), bool)
    has[0, :first] = has[0, 100 : 100 + second] = True
    return has


IS_FIRST = np.arange(200) < 100


class TestOddsRatios:
    def test_in_one_stratum_it_is_the_ordinary_odds_ratio(self) -> None:
        """The logarithm and its error are those of four cells (Woolf 1955), but for half a conversation."""
        odds = odds_ratios(incidence_of(side_with(40, 20)), 1, IS_FIRST, np.zeros(200, int))
        assert odds.log_ratio[0] == pytest.approx(math.log(40 * 80 / (60 * 20)), abs=0.02)
        assert odds.error[0] == pytest.approx(
            math.sqrt(1 / 40 + 1 / 60 + 1 / 20 + 1 / 80), rel=0.02
        )
        assert (odds.first[0], odds.second[0]) == (40, 20)

    def test_what_only_tells_strata_apart_goes_with_neither_side(self) -> None:
        """A feature of all of one stratum, which is mostly on one side, has even odds within strata."""
        is_first = np.r_[
            np.ones(80, bool), np.zeros(20, bool), np.ones(20, bool), np.zeros(80, bool)
        ]
        stratum = np.repeat([0, 1], 100)
        has = (np.arange(200) < 100)[None] & (np.arange(200) % 10 != 0)
        apart = odds_ratios(incidence_of(has), 1, is_first, np.zeros(200, int))
        within = odds_ratios(incidence_of(has), 1, is_first, stratum)
        assert apart.log_ratio[0] / apart.error[0] > 5
        assert abs(within.log_ratio[0]) < 0.1

    def test_sides_that_are_swapped_show_the_same(self) -> None:
        """What all of one side and none of the other has is as clear as the reverse, and clearer than all else."""
        is_first = np.arange(24) < 12
        has = np.stack([is_first, ~is_first, is_first & (np.arange(24) > 0)])
        one, other = (
            odds_ratios(incidence_of(has), 3, side, np.zeros(24, int))
            for side in (is_first, ~is_first)
        )
        assert one.z == pytest.approx(-other.z)
        assert one.z[0] == pytest.approx(-one.z[1])
        assert one.z[0] > one.z[2]
        assert one.p[0] == pytest.approx(2 / math.comb(24, 12), rel=0.5)

    @pytest.mark.parametrize("share", [0.5, 0.1])
    def test_random_sides_show_nothing(self, share: float) -> None:
        """About a twentieth of random splits, at most 9 of 100, shows any of 800 features that depend on each other."""
        rng = np.random.default_rng(0)
        kinds = rng.random((40, 400)) < rng.uniform(0.1, 0.6, (40, 1))
        has = kinds[rng.integers(0, 40, 800)] & (rng.random((800, 400)) < 0.8)
        incidence, shown = incidence_of(has), 0
        for _ in range(100):
            is_first = np.zeros(400, bool)
            is_first[rng.permutation(400)[: round(400 * share)]] = True
            odds = odds_ratios(incidence, 800, is_first, rng.integers(0, 4, 400))
            p = erfc(np.abs(odds.log_ratio / odds.error) / math.sqrt(2))
            shown += bool((adjust_p_values(p) < 0.05).any())
        assert shown <= 9


def test_a_weight_stands_for_so_many_tests() -> None:
    """A test of more weight needs a less small p, at the cost of the others."""
    p = np.array([0.01, 0.02, 0.5, 0.5])
    assert adjust_p_values(p) == pytest.approx([0.04, 0.04, 0.5, 0.5])
    weighted = adjust_p_values(p, np.array([0.4, 2.8, 0.4, 0.4]))
    assert weighted[:2] == pytest.approx([0.05, 0.0286], abs=1e-4)


@pytest.mark.parametrize(
    ("terms", "words", "of_term", "of_word"),
    [(2, 98, 10.0, 80 / 98), (30, 70, 5 / 3, 5 / 7), (7, 3, 1, 1)],
)
def test_a_property_weighs_as_much_as_a_word_or_more(
    terms: int, words: int, of_term: float, of_word: float
) -> None:
    """A property weighs ten times the mean, less where properties had more than half of all weight, but never less than
    a word; the mean weight is 1."""
    weights = weigh_tests(np.repeat([True, False], [terms, words]))
    assert weights == pytest.approx([of_term] * terms + [of_word] * words)


class TestNearEqual:
    def test_features_of_the_same_conversations_are_one_group(self) -> None:
        """What nearly the same conversations have joins the feature that comes first; a part of them does not."""
        has = np.zeros((3, 100), bool)
        has[0, :40] = has[1, :36] = has[2, :20] = True
        groups = group_near_equal(incidence_of(has), np.array([1, 0, 2]), 100, 0.8)
        assert [group.tolist() for group in groups] == [[1, 0], [2]]
