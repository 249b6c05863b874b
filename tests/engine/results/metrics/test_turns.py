"""Means of known figures by the number of turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.results.metrics.turns import Mean, by_turns, figures


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
