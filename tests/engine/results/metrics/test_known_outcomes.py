"""Figures of known outcomes: aptitude and unreliability of repeated simulations, and means by the number of turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.results.metrics.known_outcomes import Mean, Scored, aptitudes, by_turns, figures


def runs(instruction: str, *scores: float, condition: str = "sharded") -> list[Scored]:
    """Repetitions of one instruction."""
    return [Scored("math", condition, "m", instruction, score) for score in scores]


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


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=1))
def test_bounds(pairs: list[tuple[str, float]]) -> None:
    """Aptitude is at most 100 and at least the unreliability."""
    (row,) = aptitudes(Scored("t", "c", "m", name, score) for name, score in pairs)
    assert -1e-9 <= row.unreliability <= row.aptitude + 1e-9 <= 100 + 2e-9
    assert row.runs == len(pairs)


def test_rows_by_turns() -> None:
    """There is a row for each number of turns; the mean of a figure is over those that have it, the count over all."""
    first, second = by_turns(
        [
            (3, {"rating": {"Detail Level": 2, "Diversity": 0}}),
            (2, {"rating": {"Detail Level": 1}, "reward": 0.5}),
            (3, {"rating": {"Detail Level": 1, "Diversity": 1}}),
            (3, None),
        ]
    )
    assert (first.turns, first.conversations) == (2, 1)
    assert first.means == {"Detail Level": Mean(1.0, 1), "reward": Mean(0.5, 1)}
    assert (second.turns, second.conversations) == (3, 3)
    assert second.means == {"Detail Level": Mean(1.5, 2), "Diversity": Mean(0.5, 2)}


def test_what_is_a_figure() -> None:
    """Figures are ratings, reward, completeness and the mean satisfaction; texts and missing values are not."""
    truth = {
        "rating": {"Detail": 2, "note": "good"},
        "rating_options": {"Detail": "详细"},
        "complete": True,
        "satisfaction": [4, None, 5],
        "hallucination": [False],
        "reward": None,
    }
    assert figures(truth) == {"Detail": 2.0, "complete": 1.0, "satisfaction": 4.5}
    assert figures({"rating": "good", "satisfaction": [None]}) == {}


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2))))
def test_nothing_is_lost(pairs: list[tuple[int, int]]) -> None:
    """The counts of the rows add up to all conversations, and their weighted means to the mean of all."""
    rows = by_turns((turns, {"rating": {"x": value}}) for turns, value in pairs)
    assert sum(row.conversations for row in rows) == len(pairs)
    total = sum(row.means["x"].value * row.means["x"].count for row in rows)
    assert total == pytest.approx(sum(value for _, value in pairs))
