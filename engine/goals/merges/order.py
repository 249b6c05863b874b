"""Orders of the merge queue: by similarity, by merge probability, or by expected error reduction (active learning).

The expected error reduction of a decision is by how much it lowers the expected squared error of the merge
probabilities, summed over all undecided pairs, each weighted by its mass. Deciding pair i removes its own error
p_i (1 - p_i) = c_i, with p_i the mean over the distribution of the weights. It also changes the weights: with
covariance S of the weights, one more Bernoulli observation at x_i reduces the variance of the logit of pair j by
c_i (x_j' S x_i)^2 / (1 + c_i x_i' S x_i) (the rank-one update of the Laplace approximation), and the variance of its
probability by c_j^2 times that. So

    reduction(i) = mass_i c_i + c_i / (1 + c_i x_i' S x_i) * sum over j /= i of mass_j c_j^2 (x_j' S x_i)^2

This is the variance criterion of active learning (Cohn, Ghahramani & Jordan 1996, J. Artif. Intell. Res. 4) for a
logistic model. The sum over j is a quadratic form, so all pairs are ranked in one pass.
"""

from __future__ import annotations

import numpy as np

from engine.goals.merges.merge_probability import Floats, MergeModel, design
from engine.goals.records import MergeOrder


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
