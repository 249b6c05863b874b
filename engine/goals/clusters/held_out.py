"""Validates clusters on held-out conversations: a share is held out, the others are clustered, and those held out are
assigned to the nearest cluster (Soroka et al., "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions",
Table 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.base.errors import NotYet, UsageError
from engine.goals.clusters.membership import assign, membership_of
from engine.model.embedders.vectors import Floats, Mask, Numbers, Vectors, has_vector


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Result of a hold-out; distances are means over conversations, to the centre of their own cluster.

    Attributes:
        clusters: Number of clusters of the training conversations.
        train, test: Number of training and of held-out conversations that have a vector.
        outliers: Number of training conversations in no cluster; they are not in the distances.
        novel: Number of held-out conversations that are farther from every cluster than its own members are.
        cosine_train, cosine_test: Mean cosine distance; that of the held-out ones includes novel ones.
        euclidean_train, euclidean_test: Mean Euclidean distance between the vectors of length 1.
    """

    clusters: int
    train: int
    test: int
    outliers: int
    novel: int
    cosine_train: float
    cosine_test: float
    euclidean_train: float
    euclidean_test: float


def held_out(count: int, share: float, seed: int) -> Mask:
    """Mask of the conversations to hold out, shape (count,): a random share, at least one held out and one not.

    Raises:
        UsageError: There are fewer than two conversations, or the share is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise UsageError(f"A share of {share} cannot be held out.", "Choose one like 0.5.")
    if count < 2:
        raise NotYet("There are too few conversations to hold any out.")
    chosen = np.zeros(count, dtype=np.bool_)
    number = min(count - 1, max(1, round(share * count)))
    chosen[np.random.default_rng([seed, 0x484F]).permutation(count)[:number]] = True
    return chosen


def judge(train: Vectors, labels: Numbers, test: Vectors) -> HeldOut:
    """Assigns the held-out rows to clusters and measures the distances of both sets.

    Args:
        train, test: Rows of length 1 from one embedder; rows of zeros are ignored.
        labels: Cluster of each row of `train` in 0 .. k - 1, negative for outliers.
    """
    k = int(labels.max()) + 1
    membership = membership_of(train, labels, k)
    inside = labels >= 0
    own = np.einsum("ij,ij->i", train[inside], membership.centres[labels[inside]])
    live = test[has_vector(test)]
    found = assign(live, membership)
    near, far = np.maximum(0, 1 - own), found.distances
    return HeldOut(
        clusters=k,
        train=int(has_vector(train).sum()),
        test=len(live),
        outliers=int((has_vector(train) & ~inside).sum()),
        novel=int((found.labels < 0).sum()),
        cosine_train=_mean(near),
        cosine_test=_mean(far),
        euclidean_train=_mean(np.sqrt(2 * near)),
        euclidean_test=_mean(np.sqrt(2 * far)),
    )


def _mean(values: Floats) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else 0.0
