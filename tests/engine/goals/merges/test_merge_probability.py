"""The fit of the merge probability: optimum, prior, learning from decisions, calibration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.goals.merges.merge_probability import MergeModel, Prior, design, refit

PRIOR = Prior(("near", "sure"), (-1.0, 2.0, 0.5), (1.0, 0.5, 0.5))
NONE: npt.NDArray[np.float64] = np.empty((0, 2))

values = st.floats(-8, 8) | st.just(float("nan"))
decisions = st.integers(0, 25).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (n, 2), elements=values),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


def slope(model: MergeModel, features: npt.NDArray[np.float64], merged: list[bool]) -> float:
    """Largest component of the gradient of the penalised loss."""
    x, w = design(features), np.array(model.weights)
    error = 1 / (1 + np.exp(-x @ w)) - np.array(merged, float)
    pull = (w - np.array(PRIOR.means)) / np.square(np.array(PRIOR.deviations))
    return float(np.abs(x.T @ error + pull).max())


class TestFit:
    @settings(max_examples=30)
    @given(decisions)
    def test_optimum(self, given: tuple[npt.NDArray[np.float64], list[bool]]) -> None:
        """For any decisions, also separable or contradictory ones, the gradient is zero at the fitted weights."""
        assert slope(refit(PRIOR, *given), *given) < 1e-4

    def test_learns_against_the_prior(self) -> None:
        """Forty decisions that contradict the prior outweigh it."""
        random = np.random.default_rng(3)
        x = random.normal(size=(40, 2))
        merged = (x[:, 1] > 0.5).tolist()
        model = refit(PRIOR, x, merged)
        fresh = random.normal(size=(400, 2))
        right = (model.probabilities(fresh) > 0.5) == (fresh[:, 1] > 0.5)
        before = (refit(PRIOR, NONE, []).probabilities(fresh) > 0.5) == (fresh[:, 1] > 0.5)
        assert right.mean() > before.mean() + 0.1


class TestProbability:
    def test_mean_over_the_weights(self) -> None:
        """The probability is the mean over the distribution of the weights: as many drawn weights give, and nearer to a
        half than that of the best weights, the more so where fewer decisions tell."""
        model = refit(PRIOR, np.array([[1.0, 0.0], [-1.0, 0.5]]), [True, False])
        x = np.array([[3.0, 0.0], [-2.0, 1.0], [0.2, 0.0]])
        drawn = np.random.default_rng(0).multivariate_normal(
            model.weights, np.array(model.covariance), 20_000
        )
        exact = (1 / (1 + np.exp(-design(x) @ drawn.T))).mean(axis=1)
        assert model.probabilities(x) == pytest.approx(exact, abs=0.02)
        best = 1 / (1 + np.exp(-design(x) @ np.array(model.weights)))
        assert (np.abs(model.probabilities(x) - 0.5) < np.abs(best - 0.5)).all()

    def test_count_to_merge(self) -> None:
        """The range of how many are to be merged holds the sum of the probabilities, and narrows with decisions."""
        x = np.random.default_rng(1).normal(size=(200, 2))
        merged = (x[:, 0] > 0).tolist()
        widths = []
        for n in (0, 10, 100):
            model = refit(PRIOR, x[:n], merged[:n])
            low, high = model.count_range(x)
            assert 0 <= low < model.probabilities(x).sum() < high <= len(x)
            widths.append(high - low)
        assert widths == sorted(widths, reverse=True)
        assert refit(PRIOR, NONE, []).count_range(x) == refit(PRIOR, NONE, []).count_range(x)

    def test_calibrated(self) -> None:
        """Where decisions are drawn from a model of this family, about a share p of the pairs at probability p is
        merged.
        """
        random = np.random.default_rng(5)
        true = np.array([-0.5, 1.5, 0.2])
        x = random.normal(size=(300, 2))
        merged = random.random(300) < 1 / (1 + np.exp(-design(x) @ true))
        model = refit(PRIOR, x, merged.tolist())
        fresh = random.normal(size=(20_000, 2))
        outcome = random.random(20_000) < 1 / (1 + np.exp(-design(fresh) @ true))
        p = model.probabilities(fresh)
        for low in np.arange(0, 1, 0.2):
            inside = (p >= low) & (p < low + 0.2)
            assert p[inside].mean() == pytest.approx(outcome[inside].mean(), abs=0.08)
