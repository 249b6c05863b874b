"""The merge probability: a logistic model of few features that starts from a prior and learns from decisions.

Features come standardised (see `evidence`), so 0 is what is usual and the prior holds for any data and embedder. What
was not asked yet is NaN and counts as usual. With weights w, prior mean m and prior deviations s, the weights maximise

    sum over decisions of log p(decision | w) - sum over i of (w_i - m_i)^2 / (2 s_i^2)

which is strictly concave, so Newton's method finds the one optimum, the same for the same decisions in any order. The
inverse of the curvature there is how uncertain the weights still are (Laplace); `order` uses it to see what a decision
would teach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STEPS = 50
CLOSE = 1e-10


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before any decision.

    Attributes:
        names: Of the features; the intercept is the first weight and has none.
        means, deviations: Of the weights, the intercept's first; shape (1 + features,).
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MergeModel:
    """Weights as they are now.

    Attributes:
        weights: The intercept first.
        covariance: Of the weights, shape (1 + features, 1 + features).
        decisions: How many it was fitted on; 0 is the prior alone.
    """

    prior: Prior
    weights: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    decisions: int

    def probabilities(self, features: Floats) -> Floats:
        """Merge probabilities, shape (...), of features, shape (..., features), NaN where not known."""
        return _sigmoid(design(features) @ np.array(self.weights))

    def state(self) -> dict[str, tuple[float, float, float]]:
        """For each weight, by its name: what it is, its deviation, and the prior's mean."""
        spread = np.sqrt(np.diag(np.array(self.covariance)))
        rows = zip(self.weights, spread.tolist(), self.prior.means, strict=True)
        return dict(zip(("intercept", *self.prior.names), rows, strict=True))


def refit(prior: Prior, features: Floats, merged: Sequence[bool]) -> MergeModel:
    """Fits the merge probability to decisions.

    Args:
        features: As they were when each decision was taken, shape (decisions, features), NaN where not known.
        merged: What was decided.
    """
    mean = np.array(prior.means)
    precision = 1 / np.square(np.array(prior.deviations))
    x = design(np.asarray(features, float).reshape(len(merged), len(prior.names)))
    y = np.array(merged, float)

    def loss(weights: Floats) -> float:
        z = x @ weights
        return float(
            (np.logaddexp(0, z) - y * z).sum() + (precision * (weights - mean) ** 2).sum() / 2
        )

    weights, curvature = mean.copy(), np.diag(precision)
    for _ in range(STEPS):
        p = _sigmoid(x @ weights)
        slope = x.T @ (p - y) + precision * (weights - mean)
        curvature = (x.T * (p * (1 - p))) @ x + np.diag(precision)
        step = np.linalg.solve(curvature, slope)
        if float(slope @ step) < CLOSE:
            # So near the optimum a full step squares what is left of the error.
            weights = weights - step
            break
        size, before = 1.0, loss(weights)
        # Far from the optimum a full step may overshoot; half of the promised gain is too much to ask of it.
        while (
            size > CLOSE and loss(weights - size * step) > before - size * float(slope @ step) / 4
        ):
            size /= 2
        weights = weights - size * step
    covariance = np.linalg.inv(curvature)
    return MergeModel(
        prior,
        tuple(weights.tolist()),
        tuple(map(tuple, ((covariance + covariance.T) / 2).tolist())),
        len(merged),
    )


def design(features: Floats) -> Floats:
    """Features with a leading 1 for the intercept; what is not known counts as usual."""
    known = np.nan_to_num(features, nan=0.0)
    return np.concatenate([np.ones((*known.shape[:-1], 1)), known], axis=-1)


def _sigmoid(z: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(z, -500, 500)))
