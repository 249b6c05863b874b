"""Differences between two samples: printed examples, another library, and how often they are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from engine.results.comparison.differences import p_of_share_difference, share_difference

counts = st.integers(1, 200).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


class TestShares:
    @pytest.mark.parametrize(
        ("first", "second", "low", "high"),
        [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((10, 10), (0, 20), 0.6791, 1.0000),
        ],
    )
    def test_printed_intervals(
        self, first: tuple[int, int], second: tuple[int, int], low: float, high: float
    ) -> None:
        """The intervals are those of Newcombe (1998), table II, method 10, who takes the first minus the second."""
        found = share_difference(*second, *first)
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)

    def test_false_alarms(self) -> None:
        """Of equal shares at most 5 in 100 are called different, and the interval holds the truth in 95 of 100."""
        random = np.random.default_rng(5)
        alarms = covered = 0
        draws = [(random.binomial(60, 0.2), random.binomial(80, 0.2)) for _ in range(1500)]
        for one, two in draws:
            alarms += p_of_share_difference(one, 60, two, 80) < 0.05
            found = share_difference(one, 60, two, 80)
            covered += found.low <= 0 <= found.high
        assert alarms / len(draws) < 0.06
        assert covered / len(draws) > 0.94
