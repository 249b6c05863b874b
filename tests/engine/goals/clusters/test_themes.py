"""Goals under themes."""

from __future__ import annotations

import numpy as np
import pytest

from engine.goals.stages.deciding import group_by_theme, theme_label


def alike(*themes: tuple[int, ...], goals: int = 8) -> np.ndarray:
    """Similarities that are high within themes, and low with noise elsewhere."""
    rng = np.random.default_rng(0)
    similarity = rng.uniform(0, 0.2, (goals, goals))
    similarity = (similarity + similarity.T) / 2
    for theme in themes:
        similarity[np.ix_(theme, theme)] += 0.6
    np.fill_diagonal(similarity, 1)
    return similarity


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_goals_that_are_alike_are_a_theme(scale: float) -> None:
    """Goals that are more alike than most stand under one theme, however large the cosines are; the others in none."""
    assert group_by_theme(scale * alike((0, 3, 7), (1, 2))) == [[0, 3, 7], [1, 2]]


@pytest.mark.parametrize(
    ("goals", "label"),
    [
        (
            ["Return something", "Get a refund", "Exchange a size"],
            "Return something, get a refund, exchange a size",
        ),
        (["Find a flat", "A", "ATM search", "Pay"], "Find a flat, A and 2 more"),
        (["Find food · Thai", "Find food · Greek", "FAQ"], "Find food, FAQ"),
    ],
)
def test_a_theme_is_named_by_its_goals(goals: list[str], label: str) -> None:
    """The name of a theme lists its goals, those that only a value tells apart once, and counts those beyond three."""
    assert theme_label(goals) == label
