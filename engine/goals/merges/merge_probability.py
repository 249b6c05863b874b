"""The merge probability of pairs of groups: its features, the model that is fitted to decisions, and the order in which
pairs are decided.

**Features.** Each is scaled so that 0 is neutral and 1 is a clear difference, on any data and with any embedder: the
scaled similarity of members is measured from the threshold that `find_granularity` found for these clusters, the cosine
of descriptions from its median. So one prior suits any data. The prior weights were set by hand on public data sets:
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
from dataclasses import dataclass, replace

import numpy as np

from engine.base.arrays import Floats
from engine.goals.clusters.clustering import median_and_deviation
from engine.goals.records import MergeOrder

MAX_NEWTON_STEPS = 50
"""Number of steps of Newton's method after which the fit stops if it has not converged."""
CONVERGED_DECREMENT = 1e-10
"""Newton decrement (slope times step) below which the fit has converged. Also the smallest step size that the line
search tries."""
LEEWAY_DECISIONS = 5
"""Decisions that double the leeway: one alone says too little about what unlike pairs with good evidence are."""
_SUFFICIENT_DECREASE = 0.25
"""Share of the decrease of the loss that the gradient predicts, which a step of the fit must reach (Armijo's rule)."""
_MAX_EXPONENT = 500.0
"""Greatest absolute value of an exponent, so that no exponential overflows."""

MIN_INFORMATIVE = 0.2
"""Merge probability below which a pair comes after all others in the order `informative`."""

NAMES = ("closeness", "description", "overlap", "yes", "size")
"""Names of the features, in their order; the arguments of `standardize` say what each is made from."""

AGREEMENT_DECISIONS = 10
"""Decisions on pairs that the model answered on with which its agreement counts half; see `prior_for`."""

SIMILARITY_UNIT = 0.1
"""Scaled similarity above the threshold at which `closeness` is 1."""

NEUTRAL_OVERLAP = 0.1
"""Share of neighbors in the other group at which the feature is 0."""

OVERLAP_OFFSET = 0.02
"""Added to overlaps before the logarithm, so that 0 stays finite."""

MAX_ABSOLUTE_FEATURE = 10.0
"""Features are clipped to this absolute value, so that none outweighs all others."""

MIN_SPREAD = 1e-6
"""Least standard deviation of a `RobustScale`, so that it can be divided by."""

_MIN_PROBABILITY = 1e-3
"""Probabilities are clipped to this and one minus this, so that their log-odds stay finite."""


@dataclass(frozen=True, slots=True)
class Prior:
    """The prior of the weights.

    Attributes:
        means, deviations: Means and standard deviations of the weights, the intercept first; shape (1 + features,).
        leeway: Until there is a decision, a pair is at most as probable as one with this much more of the first feature
            and 0 for the others; each `LEEWAY_DECISIONS` decisions add as much again, so that after some the limit is
            above all. None sets no such limit.
    """

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    leeway: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MergeModel:
    """The fitted weights.

    Attributes:
        prior: The prior that it was fitted with.
        weights: Means of the weights, the intercept first, shape (1 + features,).
        covariance: Covariance of the weights, shape (1 + features, 1 + features).
        decisions: Number of decisions that it was fitted to; 0 means the prior alone.
    """

    prior: Prior
    weights: Floats
    covariance: Floats
    decisions: int

    def probabilities(self, features: Floats) -> Floats:
        """Returns merge probabilities, shape (...), from features of shape (..., features), NaN where unknown."""
        x = design(features)
        averages = self._average_probabilities(x)
        if self.prior.leeway is None:
            return averages
        # The pair that sets the limit, by the prior alone: the first feature plus the leeway, and 0 for the others.
        leeway = self.prior.leeway * (1 + self.decisions / LEEWAY_DECISIONS)
        limits = np.zeros_like(x)
        limits[..., 0], limits[..., 1] = 1, x[..., 1] + leeway
        variances = np.square(np.array(self.prior.deviations))
        prior_alone = replace(
            self, weights=np.array(self.prior.means), covariance=np.diag(variances)
        )
        limited_averages: Floats = np.minimum(averages, prior_alone._average_probabilities(limits))
        return limited_averages

    def _average_probabilities(self, x: Floats) -> Floats:
        """Returns mean probabilities over the distribution of the weights, shape (...), from `x` of `design`, shape
        (..., 1 + features)."""
        variance = np.einsum("...f,fg,...g->...", x, self.covariance, x)
        return _sigmoid(x @ self.weights / np.sqrt(1 + np.pi / 8 * variance))


def refit(prior: Prior, features: Floats, merged: Sequence[bool]) -> MergeModel:
    """Returns the merge model fitted to decisions.

    Args:
        prior: The prior of the weights.
        features: Features at the time of each decision, shape (decisions, features), NaN where unknown.
        merged: Whether each decision was to merge.
    """
    mean = np.array(prior.means)
    precision = 1 / np.square(np.array(prior.deviations))
    x = design(np.asarray(features, float).reshape(len(merged), len(prior.means) - 1))
    y = np.array(merged, float)

    def loss(weights: Floats) -> float:
        """Returns the negative log posterior of weights of shape (1 + features,), up to a constant."""
        z = x @ weights
        return float(
            (np.logaddexp(0, z) - y * z).sum() + (precision * (weights - mean) ** 2).sum() / 2
        )

    weights, curvature = mean.copy(), np.diag(precision)
    for _ in range(MAX_NEWTON_STEPS):
        p = _sigmoid(x @ weights)
        slope = x.T @ (p - y) + precision * (weights - mean)
        curvature = (x.T * (p * (1 - p))) @ x + np.diag(precision)
        step = np.linalg.solve(curvature, slope)
        if float(slope @ step) < CONVERGED_DECREMENT:
            # this near the optimum Newton's method converges quadratically
            weights = weights - step
            break
        step_size, previous_loss = 1.0, loss(weights)
        # backtracking line search: halve the step until the loss falls by a share of what the gradient predicts
        while (
            step_size > CONVERGED_DECREMENT
            and loss(weights - step_size * step)
            > previous_loss - step_size * float(slope @ step) * _SUFFICIENT_DECREASE
        ):
            step_size /= 2
        weights = weights - step_size * step
    covariance = np.linalg.inv(curvature)
    symmetric = (covariance + covariance.T) / 2  # up to rounding it is so already
    return MergeModel(prior, weights, symmetric, decisions=len(merged))


def design(features: Floats) -> Floats:
    """Returns features of shape (..., features) with a leading 1 for the intercept, shape (..., 1 + features); NaN
    becomes 0."""
    filled = np.nan_to_num(features, nan=0.0)
    return np.concatenate([np.ones((*filled.shape[:-1], 1)), filled], axis=-1)


def _sigmoid(z: Floats) -> Floats:
    """Returns the probabilities of logits, of the same shape."""
    return 1 / (1 + np.exp(-np.clip(z, -_MAX_EXPONENT, _MAX_EXPONENT)))


PRIOR = Prior(
    means=(0.0, 1.2, 0.15, 0.3, 0.1, 0.0),
    deviations=(2.0, 0.4, 0.15, 0.2, 0.1, 0.2),
    leeway=1.5,
)
"""Prior of the intercept and of the weights. The yes of a small model is near chance (AUROC .54 on pairs of clusters of
a public set), so it starts with little weight, which grows when it agrees with decisions. The intercept has the widest
prior, so decisions move it first. The first name is `closeness`, the name under which it is stored. Before any
decision, all other features together count for no more than .15 of scaled similarity (`leeway`)."""


def prior_for(yes: Floats, merged: Sequence[bool]) -> Prior:
    """Returns the prior in which the model's yes has the weight that it earned: more by the share of decisions that it
    agreed with less the share that it did not, shrunk while they are few; never less than 0.

    Args:
        yes: The feature `yes` at the time of each decision, shape (decisions,), NaN where the model was not asked.
        merged: Whether each decision was to merge.
    """
    answered = ~np.isnan(yes)
    agreed = (yes[answered] > 0) == np.array(merged, dtype=bool)[answered]
    surplus = 2 * int(agreed.sum()) - len(agreed)
    means = list(PRIOR.means)
    weight = 1 + NAMES.index("yes")
    means[weight] = max(0.0, means[weight] + surplus / (len(agreed) + AGREEMENT_DECISIONS))
    return replace(PRIOR, means=tuple(means))


@dataclass(frozen=True, slots=True)
class RobustScale:
    """Median (`middle`) and robust standard deviation (`spread`) of a measure over pairs of groups, most of which are
    different goals."""

    middle: float
    spread: float

    @classmethod
    def of(cls, values: Floats) -> RobustScale:
        """Returns the scale of values of shape (pairs,); NaN values are left out."""
        known_values = values[~np.isnan(values)]
        if not len(known_values):
            return cls(0.0, 1.0)
        middle, spread = median_and_deviation(known_values)
        if spread < MIN_SPREAD:  # most values are equal, for example when most groups share no word
            spread = max(MIN_SPREAD, float(known_values.std()))
        return cls(middle, spread)


def standardize(
    *,
    scaled_similarity: Floats,
    threshold: float,
    description: Floats,
    description_scale: RobustScale,
    overlap: Floats,
    yes: Floats,
    yes_reversed: Floats,
    sizes: tuple[Floats, Floats],
) -> Floats:
    """Returns the features of pairs, shape (pairs, len(NAMES)), NaN where an input is NaN. All arrays have shape
    (pairs,).

    Args:
        scaled_similarity, threshold: See `engine.goals.clusters.granularity`.
        description: Cosines of the descriptions.
        description_scale: Scale of these cosines over all pairs of the original clusters, so that merges do not shift
            it.
        overlap: Share of the neighbors of one group's members that are in the other; the larger of both directions.
        yes, yes_reversed: Probability that the model answers yes, in both orders of the pair; the second NaN where it
            was asked in one order.
        sizes: Number of members of the first and of the second groups.
    """
    columns = np.empty((len(scaled_similarity), len(NAMES)))  # in the order of NAMES
    columns[:, 0] = (scaled_similarity - threshold) / SIMILARITY_UNIT
    columns[:, 1] = (description - description_scale.middle) / description_scale.spread
    columns[:, 2] = np.log2((overlap + OVERLAP_OFFSET) / (NEUTRAL_OVERLAP + OVERLAP_OFFSET))
    # Where one order was sure enough, the other was not asked about.
    columns[:, 3] = (_logit(yes) + _logit(np.where(np.isnan(yes_reversed), yes, yes_reversed))) / 2
    columns[:, 4] = np.log(np.minimum(*sizes) / np.maximum(*sizes))
    clipped_columns: Floats = np.clip(columns, -MAX_ABSOLUTE_FEATURE, MAX_ABSOLUTE_FEATURE)
    return clipped_columns


def _logit(p: Floats) -> Floats:
    """Returns the log-odds of probabilities, of the same shape."""
    clipped = np.clip(p, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    logits: Floats = np.log(clipped / (1 - clipped))
    return logits


def expected_error_reduction(model: MergeModel, features: Floats, masses: Floats) -> Floats:
    """Returns the expected error reduction of deciding each pair, shape (pairs,); the module docstring has the formula.

    Args:
        features: Of the undecided pairs, shape (pairs, features), NaN where unknown.
        masses: Weight of each pair, not negative, shape (pairs,).
    """
    # In the symbols of the module docstring: x, p, c; a row of `projected` is x_i' S, and `own_variance` x_i' S x_i.
    x = design(features)
    p = model.probabilities(features)
    c = p * (1 - p)
    projected = x @ model.covariance
    # The sum over all j of mass_j c_j^2 x_j x_j', from which the sum of each i follows as a quadratic form.
    weighted_moment = (x.T * (masses * c * c)) @ x
    others_reduction = np.einsum("if,fg,ig->i", projected, weighted_moment, projected)
    own_variance = np.einsum("if,if->i", projected, x)
    others_reduction -= masses * np.square(
        c * own_variance
    )  # the pair itself is none of the others
    reduction: Floats = masses * c + c / (1 + c * own_variance) * others_reduction
    return reduction


def rank_pairs(
    order: MergeOrder, model: MergeModel, features: Floats, similarities: Floats, masses: Floats
) -> list[int]:
    """Returns the indices of the pairs, the next to decide first; ties keep the order of the pairs.

    Args:
        order: `similarity`, `probability`, or `informative`, which is by expected error reduction.
        features: Of the pairs, shape (pairs, features), NaN where unknown.
        similarities: Cosines of the descriptions, shape (pairs,).
        masses: Weight of each pair, shape (pairs,).
    """
    if order == "similarity":
        priorities = similarities
    elif order == "probability":
        priorities = model.probabilities(features)
    else:
        priorities = expected_error_reduction(model, features, masses)
        # a person begins with what may be one goal, however much the refusal of another pair would say
        priorities[model.probabilities(features) < MIN_INFORMATIVE] -= priorities.max() + 1
    return list(map(int, np.argsort(-priorities, kind="stable")))
