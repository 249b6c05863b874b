"""Aptitude and unreliability of repeated simulations."""

from __future__ import annotations

import pytest

from engine.simulate.sharded.aptitude import ScoredPlay, aptitudes


def runs(instruction: str, *scores: float, condition: str = "sharded") -> list[ScoredPlay]:
    """Repetitions of one instruction."""
    return [ScoredPlay("math", condition, "m", instruction, score) for score in scores]


def test_means_over_instructions() -> None:
    """Each figure is computed for each instruction and then averaged, whatever their numbers of runs."""
    (row,) = aptitudes([*runs("a", *[0] * 5, *[1] * 5), *runs("b", 1, 1), *runs("c", *[0] * 9, 1)])
    assert (row.instructions, row.runs, row.fewest) == (3, 22, 2)
    assert row.performance == pytest.approx((50 + 100 + 10) / 3)
    # Of nine zeros and a one, the 90th percentile lies a tenth of the way between them.
    assert row.aptitude == pytest.approx((100 + 100 + 10) / 3)
    assert row.unreliability == pytest.approx((100 + 0 + 10) / 3)


def test_rows() -> None:
    """Each condition has a row, in order."""
    found = aptitudes([*runs("a", 1, condition="sharded"), *runs("a", 0, condition="full")])
    assert [(row.condition, row.performance, row.fewest) for row in found] == [
        ("full", 0, 1),
        ("sharded", 100, 1),
    ]
    assert aptitudes([]) == []
