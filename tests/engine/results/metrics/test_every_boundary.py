"""Scores at every boundary as probabilities, before and after correction for how rare ends are."""

from __future__ import annotations

import numpy as np
import pytest

from engine.results.metrics.completeness import Place, Values, at_share, boundary_rows


def test_even_odds_become_the_odds_of_the_data() -> None:
    """A score that says nothing becomes the share of ends; certainty stays, and even shares change nothing."""
    p = np.array([0.0, 0.5, 1.0])
    assert at_share(p, 0.1).tolist() == pytest.approx([0.0, 0.1, 1.0])
    assert at_share(np.array([0.3]), 0.5).tolist() == pytest.approx([0.3])


def test_the_correction_calibrates_scores_at_even_odds() -> None:
    """One boundary of ten ends. A score that is the probability of an end at even odds overstates it, and is
    calibrated after the correction."""
    rng = np.random.default_rng(0)
    where, way = {}, {}
    for key in range(1, 101):
        # evidence that is normal with mean +1 at an end and -1 elsewhere has log-odds of twice its value
        shift = np.where(np.arange(10) == 9, 1.0, -1.0)
        p = 1 / (1 + np.exp(-2 * (rng.normal(size=10) + shift)))
        where[key] = Place(9, 0, tuple(range(10)))
        way[key] = dict(enumerate(p.tolist()))
    ways: dict[str, Values] = {"even": way}
    (row,) = boundary_rows(ways, where)
    assert (row.boundaries, row.share) == (1000, 0.1)
    assert row.mean > 0.2
    assert row.ece.value > 0.08
    assert row.corrected.value < 0.03
