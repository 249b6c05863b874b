"""Confidence limits of a mean of bounded values, against values by hand and by drawing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.base.statistics.intervals import mean_limits


def test_by_hand() -> None:
    """Of n values of 0 the upper limit m has (1 - m)^n = .025, as Clopper and Pearson; of no value nothing is known."""
    assert mean_limits([0.0] * 40, [0.0] * 40) == pytest.approx((0.0, 1 - 0.025 ** (1 / 40)))
    assert mean_limits([1.0] * 40, [1.0] * 40) == pytest.approx((0.025 ** (1 / 40), 1.0))
    assert mean_limits([], []) == (0.0, 1.0)


def test_bounds_of_cases() -> None:
    """The lower limit is of the lows and the upper of the highs; both are within Hoeffding's plain form."""
    low, high = mean_limits([0.1, 0.3] * 20, [0.5, 0.9] * 20)
    half = math.sqrt(math.log(2 / 0.05) / (2 * 40))
    assert 0.2 - half < low < 0.2 < 0.7 < high < 0.7 + half


def test_coverage() -> None:
    """They hold the mean in 95% of the samples or more, and the lower one by not much more than it has to."""
    rng = np.random.default_rng(5)
    draws = (rng.random((1000, 30)) < 0.2).astype(float)
    limits = [mean_limits(row, row) for row in draws]
    assert np.mean([low <= 0.2 <= high for low, high in limits]) >= 0.95
    assert np.mean([low for low, _ in limits]) > 0.04
