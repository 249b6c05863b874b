"""Control limits of completion."""

from __future__ import annotations

import numpy as np
import pytest

from engine.results.watch.chart import MAX_IN_POINT, Part, limits, point_size, points


def test_limits() -> None:
    """They are those of a p-chart where the past share is known well, and wider where few conversations say it."""
    low, high = limits(Part(60_000, 100_000), 50)
    assert (low, high) == pytest.approx(
        (0.6 - 3 * (0.24 / 50) ** 0.5, 0.6 + 3 * (0.24 / 50) ** 0.5), abs=1e-3
    )
    narrow, wide = limits(Part(600, 1000), 50), limits(Part(18, 30), 50)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert (
        limits(Part(30, 30), 50)[0] < 0.95
    )  # where all were complete, one that is not is no alarm


def test_few_alarms_without_a_change() -> None:
    """Of points with the past share, of few past conversations or many, fewer than 1 in 100 lie outside."""
    random = np.random.default_rng(5)
    for count in (30, 3000):
        past = random.binomial(count, 0.7, 4000)
        outside = 0
        for complete in past:
            part = Part(int(complete), count)
            size = point_size(part)
            low, high = limits(part, size)
            outside += not low <= random.binomial(size, 0.7) / size <= high
        assert outside < 40


def test_points() -> None:
    """Points are equal numbers of consecutive conversations; what is left over waits; a drop lies outside."""
    past = Part(700, 1000)
    size = point_size(past)
    good = [(f"t{at:03}", at % 10 < 7) for at in range(size)]
    bad = [(f"u{at:03}", at % 10 < 2) for at in range(size)]
    found, waiting = points(past, [*good, *bad, ("v", True)])
    assert [one.outside for one in found] == [False, True]
    assert found[0].until == good[-1][0]
    assert waiting == 1
    assert point_size(Part(10, 10)) == MAX_IN_POINT
