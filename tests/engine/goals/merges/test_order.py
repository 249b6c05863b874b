"""The order of the merge queue."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from engine.goals.merges.merge_probability import Prior, design, expected_error_reduction, refit

PRIOR = Prior(("near", "far"), (0.0, 1.0, 0.0), (1.0, 1.0, 1.0))
MODEL = refit(PRIOR, np.empty((0, 2)), [])


def expected_error_removed(
    features: npt.NDArray[np.float64], masses: npt.NDArray[np.float64], at: int
) -> float:
    """The same quantity by its definition: pair by pair, from the covariance after one more answer."""
    x, covariance = design(features), np.array(MODEL.covariance)
    p = MODEL.probabilities(features)
    c = p * (1 - p)
    after = np.linalg.inv(np.linalg.inv(covariance) + c[at] * np.outer(x[at], x[at]))
    removed = masses[at] * c[at]
    for j in range(len(x)):
        if j != at:
            removed += masses[j] * c[j] ** 2 * (x[j] @ (covariance - after) @ x[j])
    return float(removed)


def test_teaches_by_definition() -> None:
    """The closed form equals the expected error that one more answer removes, over all pairs."""
    random = np.random.default_rng(2)
    features, masses = random.normal(size=(7, 2)) * 2, random.random(7)
    found = expected_error_reduction(MODEL, features, masses)
    assert found == pytest.approx([expected_error_removed(features, masses, at) for at in range(7)])
