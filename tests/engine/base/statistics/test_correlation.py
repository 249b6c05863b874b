"""Correlation of two figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.statistics.correlation import correlate

NUMBERS = st.lists(st.integers(-5, 5), min_size=4, max_size=20).filter(
    lambda values: len(set(values)) > 1
)


@given(NUMBERS)
def test_equal_values_share_a_rank(values: list[int]) -> None:
    """Equal values get the mean of their ranks; Spearman's coefficient is Pearson's of these ranks."""
    ranks = [1 + sum(v < one for v in values) + (values.count(one) - 1) / 2 for one in values]
    order = list(range(len(values)))
    found = correlate(values, order)
    assert found is not None
    assert found.spearman.value == pytest.approx(np.corrcoef(ranks, order)[0, 1])


def test_by_hand() -> None:
    """Spearman's 1 - 6 Σd²/(n(n²-1)) of five pairs whose ranks differ by 1, 1, 0, 1, 1; Pearson of the numbers."""
    found = correlate([1, 2, 3, 4, 5], [20, 10, 30, 1000, 60])
    assert found is not None
    assert found.spearman.value == pytest.approx(1 - 6 * (1 + 1 + 0 + 1 + 1) / (5 * 24))
    assert found.pearson == pytest.approx(
        np.corrcoef([1, 2, 3, 4, 5], [20, 10, 30, 1000, 60])[0, 1]
    )


@given(NUMBERS)
def test_order_is_all_that_counts(values: list[int]) -> None:
    """A number and its cube have a rank correlation of 1; with the sign changed, of -1."""
    up = correlate(values, [value**3 for value in values])
    down = correlate(values, [-value for value in values])
    assert up is not None
    assert down is not None
    assert up.spearman.value == pytest.approx(1)
    assert down.spearman.value == pytest.approx(-1)


def test_it_holds_the_truth() -> None:
    """Of 400 samples of 60 pairs, 92% to 98.5% of the 95% intervals contain the true rank correlation."""
    rng = np.random.default_rng(3)

    def draw(n: int) -> tuple[list[float], list[float]]:
        first = rng.normal(size=n)
        return list(first), list(0.6 * first + 0.8 * rng.normal(size=n))

    everything = correlate(*draw(200_000))
    assert everything is not None
    held = 0
    for _ in range(400):
        found = correlate(*draw(60))
        assert found is not None
        held += found.spearman.low <= everything.spearman.value <= found.spearman.high
    assert 0.92 <= held / 400 <= 0.985


def test_what_cannot_be_told() -> None:
    """Three pairs, or a constant, have no correlation; lists of different lengths are an error."""
    assert correlate([1, 2, 3], [1, 2, 3]) is None
    assert correlate([1, 2, 3, 4], [7, 7, 7, 7]) is None
    with pytest.raises(ValueError, match="Pairs"):
        correlate([1], [1, 2])
