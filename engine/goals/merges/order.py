"""The order of the merge queue: the most similar pair first, the most probable, or the one whose answer teaches most.

What an answer teaches is the expected squared error of merge probabilities that it removes, summed over all undecided
pairs, each weighted by its mass. Deciding pair i removes its own error p_i (1 - p_i) = c_i. It also changes the
weights: with covariance S of the weights, one more Bernoulli answer at x_i reduces the variance of the logit of pair j
by c_i (x_j' S x_i)^2 / (1 + c_i x_i' S x_i) (the rank-one update of the Laplace approximation), and the variance of its
probability by c_j^2 times that. So

    teaches(i) = mass_i c_i + c_i / (1 + c_i x_i' S x_i) * sum over j /= i of mass_j c_j^2 (x_j' S x_i)^2

This is the variance criterion of active learning (Cohn, Ghahramani & Jordan 1996, J. Artif. Intell. Res. 4) for a
logistic model. The sum is one quadratic form, so a queue of any length is ranked in one pass.
"""

from __future__ import annotations

import numpy as np

from engine.goals.merges.merge_probability import Floats, MergeModel, design
from engine.records.goals import MergeOrder


def teaches(model: MergeModel, features: Floats, masses: Floats) -> Floats:
    """What deciding each pair would teach, shape (pairs,); the formula is in the docstring of this module.

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
    taught: Floats = masses * c + c / (1 + c * own) * of_others
    return taught


def ranked(
    order: MergeOrder, model: MergeModel, features: Floats, similarities: Floats, masses: Floats
) -> list[int]:
    """Indices of the pairs, the next to decide first; ties keep the order of the pairs.

    Args:
        similarities: Of the descriptions, shape (pairs,).
    """
    if order == "similarity":
        worth = similarities
    elif order == "probability":
        worth = model.probabilities(features)
    else:
        worth = teaches(model, features, masses)
    return list(map(int, np.argsort(-worth, kind="stable")))
