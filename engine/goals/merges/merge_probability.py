"""The merge probability of pairs of groups: its features, the model that is fitted to decisions, and the order in which
pairs are decided.

**Features.** Each is scaled so that 0 is neutral and 1 is a clear difference, on any data and with any embedder: the
scaled similarity of members is measured from the threshold that `granularity` found for these clusters, the cosine of
descriptions from its median. So one prior suits any data. The prior weights were set by hand on public data sets:
similarity dominates until there are decisions or answers of a model. docs/lab/goals.md has the results. NaN, which
means that the model was not asked, counts as 0.

**Fit.** Logistic regression with a Gaussian prior. With weights w, prior mean m and prior deviations s, the weights
maximize

    sum over decisions of log p(decision | w) - sum over i of (w_i - m_i)^2 / (2 s_i^2)

which is strictly concave, so Newton's method finds the one optimum, the same for the same decisions in any order. The
inverse of the Hessian there is the covariance of the weights (Laplace approximation).

A probability is the mean over this distribution of the weights, not the value at the optimum, which is too sure while
there are few decisions. With z the mean of the logit and v its variance it is about sigmoid(z / sqrt(1 + pi v / 8))
(MacKay 1992, The evidence framework applied to classification networks, Neural Computation 4).

**Order.** By similarity, by merge probability, or by expected error reduction (active learning): by how much a
decision lowers the expected squared error of the merge probabilities, summed over all undecided pairs, each weighted
by its mass. Deciding pair i removes its own error p_i (1 - p_i) = c_i, with p_i the mean over the distribution of the
weights. It also changes the weights: with covariance S of the weights, one more Bernoulli observation at x_i reduces
the variance of the logit of pair j by c_i (x_j' S x_i)^2 / (1 + c_i x_i' S x_i) (the rank-one update of the Laplace
approximation), and the variance of its probability by c_j^2 times that. So

    reduction(i) = mass_i c_i + c_i / (1 + c_i x_i' S x_i) * sum over j /= i of mass_j c_j^2 (x_j' S x_i)^2

This is the variance criterion of active learning (Cohn, Ghahramani & Jordan 1996, J. Artif. Intell. Res. 4) for a
logistic model. The sum over j is a quadratic form, so all pairs are ranked in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.goals.records import MergeOrder

Floats = npt.NDArray[np.float64]

STEPS = 50
CLOSE = 1e-10
DRAWS, SEED = 200, 0
"""Draws of the weights for `count_range`."""


@dataclass(frozen=True, slots=True)
class Prior:
    """The prior of the weights.

    Attributes:
        names: Names of the features; the intercept, which is the first weight, is not among them.
        means, deviations: Of the weights, the intercept first; shape (1 + features,).
        leeway: Until there is a decision, a pair is at most as probable as one with this much more of the first feature
            and 0 for the others. None sets no such limit.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    leeway: float | None = None


@dataclass(frozen=True, slots=True)
class MergeModel:
    """The fitted weights.

    Attributes:
        weights: The intercept first.
        covariance: Of the weights, shape (1 + features, 1 + features).
        decisions: Number of decisions that it was fitted to; 0 means the prior alone.
    """

    prior: Prior
    weights: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    decisions: int

    def probabilities(self, features: Floats) -> Floats:
        """Merge probabilities, shape (...), from features of shape (..., features), NaN where unknown."""
        x = design(features)
        found = self._averaged(x)
        if self.decisions or self.prior.leeway is None:
            return found
        first = np.zeros_like(x)
        first[..., 0], first[..., 1] = 1, x[..., 1] + self.prior.leeway
        limited: Floats = np.minimum(found, self._averaged(first))
        return limited

    def count_range(self, features: Floats) -> tuple[float, float]:
        """Between which numbers the count of those of the pairs that are to be merged lies: the 5% and 95% quantiles of
        the sum of their probabilities by the distribution of the weights; features of shape (pairs, features)."""
        x = design(features)
        root = np.linalg.cholesky(np.array(self.covariance))
        normal = np.random.default_rng(SEED).standard_normal((DRAWS, len(root)))
        drawn = np.array(self.weights) + normal @ root.T
        low, high = np.quantile([_sigmoid(x @ weights).sum() for weights in drawn], (0.05, 0.95))
        return float(low), float(high)

    def _averaged(self, x: Floats) -> Floats:
        """Mean probabilities over the distribution of the weights, from rows of `design`."""
        variance = np.einsum("...f,fg,...g->...", x, np.array(self.covariance), x)
        return _sigmoid(x @ np.array(self.weights) / np.sqrt(1 + np.pi / 8 * variance))


def refit(prior: Prior, features: Floats, merged: Sequence[bool]) -> MergeModel:
    """Fits the merge probability to decisions.

    Args:
        prior: The prior of the weights.
        features: Features at the time of each decision, shape (decisions, features), NaN where unknown.
        merged: Whether each decision was to merge.
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
            # this near the optimum Newton's method converges quadratically
            weights = weights - step
            break
        size, before = 1.0, loss(weights)
        # backtracking line search: halve the step until the loss falls by a quarter of what the gradient predicts
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
    """Features with a leading 1 for the intercept; NaN becomes 0."""
    known = np.nan_to_num(features, nan=0.0)
    return np.concatenate([np.ones((*known.shape[:-1], 1)), known], axis=-1)


def _sigmoid(z: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(z, -500, 500)))


NAMES = ("closeness", "description", "overlap", "likelihood", "yes", "size")
PRIOR = Prior(
    NAMES,
    means=(0.0, 1.2, 0.15, 0.3, 0.5, 0.1, 0.0),
    deviations=(2.0, 0.4, 0.15, 0.2, 0.3, 0.1, 0.2),
    leeway=1.5,
)
"""Prior of the intercept and of the weights. The yes of a small model is near chance (AUROC .54 on pairs of clusters of
a public set), so it starts with little weight, which grows when it agrees with decisions. The intercept has the widest
prior, so decisions move it first. The first name is `closeness`, the name under which it is stored. Before any
decision, all other features together count for no more than .15 of scaled similarity (`leeway`)."""

SIMILARITY_UNIT = 0.1
NATS_UNIT = 0.1
NEUTRAL_OVERLAP = 0.1
"""Share of neighbors in the other group at which the feature is 0."""
MIN_OVERLAP = 0.02
WIDEST = 10.0
"""Features are clipped to this absolute value, so that none outweighs all others."""
MIN_SPREAD = 1e-6


@dataclass(frozen=True, slots=True)
class RobustScale:
    """Median and robust standard deviation of a measure over pairs of groups, most of which are different goals."""

    middle: float
    spread: float

    @classmethod
    def of(cls, values: Floats) -> RobustScale:
        """Median and 1.4826 times the median absolute deviation; NaN values are left out."""
        known = values[~np.isnan(values)]
        if not len(known):
            return cls(0.0, 1.0)
        middle = float(np.median(known))
        spread = 1.4826 * float(np.median(np.abs(known - middle)))
        if spread < MIN_SPREAD:  # most values are equal, for example when most groups share no word
            spread = max(MIN_SPREAD, float(known.std()))
        return cls(middle, spread)


def standardized(
    *,
    scaled_similarity: Floats,
    threshold: float,
    description: Floats,
    description_scale: RobustScale,
    overlap: Floats,
    likelihood: Floats,
    yes: Floats,
    yes_reversed: Floats,
    sizes: tuple[Floats, Floats],
) -> Floats:
    """Features of pairs, shape (pairs, len(NAMES)), NaN where an input is NaN. All arrays have shape (pairs,).

    Args:
        scaled_similarity, threshold: See `engine.goals.clusters.granularity`.
        description: Cosines of the descriptions.
        description_scale: Scale of these cosines over all pairs of the original clusters, so that merges do not shift
            it.
        overlap: Share of the neighbors of one group's members that are in the other; the larger of both directions.
        likelihood: Likelihood ratios, nats per token.
        yes, yes_reversed: Probability that the model answers yes, in both orders of the pair.
        sizes: Number of members of the first and of the second groups.
    """
    found = np.empty((len(scaled_similarity), len(NAMES)))
    found[:, 0] = (scaled_similarity - threshold) / SIMILARITY_UNIT
    found[:, 1] = (description - description_scale.middle) / description_scale.spread
    found[:, 2] = np.log2((overlap + MIN_OVERLAP) / (NEUTRAL_OVERLAP + MIN_OVERLAP))
    found[:, 3] = likelihood / NATS_UNIT
    found[:, 4] = (_logit(yes) + _logit(yes_reversed)) / 2
    found[:, 5] = np.log(np.minimum(*sizes) / np.maximum(*sizes))
    clipped: Floats = np.clip(found, -WIDEST, WIDEST)
    return clipped


def _logit(p: Floats) -> Floats:
    inside = np.clip(p, 1e-3, 1 - 1e-3)
    found: Floats = np.log(inside / (1 - inside))
    return found


def expected_error_reduction(model: MergeModel, features: Floats, masses: Floats) -> Floats:
    """Expected error reduction of deciding each pair, shape (pairs,); the module docstring has the formula.

    Args:
        features: Of the undecided pairs, shape (pairs, features), NaN where unknown.
        masses: Weight of each pair, not negative, shape (pairs,).
    """
    x = design(features)
    p = model.probabilities(features)
    c = p * (1 - p)
    moved = x @ np.array(model.covariance)
    targets = (x.T * (masses * c * c)) @ x
    of_others = np.einsum("if,fg,ig->i", moved, targets, moved)
    own = np.einsum("if,if->i", moved, x)
    of_others -= masses * np.square(c * own)
    gain: Floats = masses * c + c / (1 + c * own) * of_others
    return gain


def ranked(
    order: MergeOrder, model: MergeModel, features: Floats, similarities: Floats, masses: Floats
) -> list[int]:
    """Indices of the pairs, the next to decide first; ties keep the order of the pairs.

    Args:
        order: `similarity`, `probability`, or `informative`, which is by expected error reduction.
        features: Of the pairs, shape (pairs, features), NaN where unknown.
        similarities: Cosines of the descriptions, shape (pairs,).
        masses: Weight of each pair, shape (pairs,).
    """
    if order == "similarity":
        worth = similarities
    elif order == "probability":
        worth = model.probabilities(features)
    else:
        worth = expected_error_reduction(model, features, masses)
    return list(map(int, np.argsort(-worth, kind="stable")))
