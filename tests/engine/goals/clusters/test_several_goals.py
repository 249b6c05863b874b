"""How far the parts of a group lie apart, compared with how far groups do."""

from __future__ import annotations

import numpy as np
import pytest

from engine.goals.views.splitting import gap_between_parts, usual_gap
from engine.model.embedders.vectors import Vectors, unit_rows


def around(*axes: int, each: int = 40, spread: float = 0.1, seed: int = 0) -> Vectors:
    """Rows of length 1 near some axes of a space of ten dimensions."""
    noise = np.random.default_rng(seed).normal(size=(each * len(axes), 10)) * spread
    return unit_rows((np.repeat(np.eye(10)[list(axes)], each, axis=0) + noise).astype(np.float32))


def test_two_goals_lie_apart_and_one_does_not() -> None:
    """Of a group around two axes the parts are those; the parts of a group around one lie close."""
    two, one = around(0, 1), around(0)
    assert gap_between_parts(two, np.arange(len(two))) > 0.9
    assert gap_between_parts(one, np.arange(len(one))) < 0.1
    same = np.tile(one[:1], (12, 1))
    assert gap_between_parts(same, np.arange(12)) == 0


def test_the_usual_gap_is_that_to_the_nearest_group() -> None:
    """It is the median over groups, and 1 where there is no other group."""
    centers = unit_rows(np.array([[1, 0, 0], [1, 0.2, 0], [0, 0, 1]], dtype=np.float32))
    near = 1 - float(centers[0] @ centers[1])
    assert usual_gap(centers) == pytest.approx(near)
    assert usual_gap(centers[:1]) == 1
