"""A probe fitted to examples: from what a person said of some conversations, what they would say of the others.

A logistic regression on the hidden state at the last boundary of a conversation and on where that boundary lies. An
example has its probability from regressions that did not see it or one nearly equal to it, so that the
probabilities of the examples can be tested; the others have theirs from a regression on all examples. Both are
calibrated by Platt's line on the former.

It serves anything that a person can say: "complete" against "incomplete" (did it succeed), a tag against its absence.
docs/lab/verdicts.md says how features, strength and order were chosen.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from engine.completeness.probe import REPEATS, States
from engine.completeness.probe_calibration import FOLDS, SEED, Bools, Floats, Ints

STRENGTH = 1e-2
"""Inverse strength of the regularisation (C of scikit-learn)."""

PLACE_WEIGHT = 3.0
"""Weight of each of the three figures of a place, against one of each of the hundreds of a state."""

SCORE_WEIGHT = 10.0
"""Weight of the completeness score in the choice of the first conversations."""

START = 10
"""Conversations that are chosen for being typical, before uncertainty counts."""

BATCH = 5
"""New examples after which a probe is fitted anew."""

POOL = 4_000
"""Conversations that `instructive` chooses from at most."""


def features(states: States, places: Floats) -> States:
    """Standardised features of conversations: the hidden state and the place of the last boundary.

    Args:
        states: Hidden states at the last boundaries, shape (conversations, dimensions).
        places: Number of that boundary, characters so far, characters of the last step; shape (conversations, 3).

    Returns:
        Shape (conversations, dimensions + 3).
    """
    place = PLACE_WEIGHT * _standardised(np.log1p(places))
    return np.hstack([_standardised(states), place.astype(np.float32)])


def _standardised(values: NDArray[Any]) -> NDArray[Any]:
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))


def fit(known: States, mark: Ints, group: Ints) -> Floats | None:
    """Fits a probe to examples and predicts the label of every conversation.

    Args:
        known: The `features` of all conversations.
        mark: 1 for a positive example, -1 for a negative one, 0 for no example; shape (conversations,).
        group: Group of each example, in the order of `mark`; nearly equal ones share one.

    Returns:
        Calibrated probability that each conversation is positive, shape (conversations,); of an example by regressions
        that did not see it. None where there are fewer than two groups of either kind of example.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import StratifiedGroupKFold

    marked = np.flatnonzero(mark)
    label = mark[marked] > 0
    folds = min(FOLDS, len(np.unique(group[label])), len(np.unique(group[~label])))
    if folds < 2:
        return None
    values = np.zeros((REPEATS, len(marked)))
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class")
        for repeat in range(REPEATS):
            parts = StratifiedGroupKFold(folds, shuffle=True, random_state=SEED + repeat)
            for kept, held in parts.split(marked, label, group):
                if len(np.unique(label[kept])) == 2:
                    values[repeat, held] = _fitted(
                        known[marked[kept]], label[kept], known[marked[held]]
                    )
        unseen = values.mean(axis=0)
        slope, intercept = _line(unseen, label)
        odds = slope * _fitted(known[marked], label, known) + intercept
    odds[marked] = slope * unseen + intercept
    return np.asarray(1 / (1 + np.exp(-odds)))


def _fitted(known: States, label: Bools, wanted: States) -> Floats:
    """Log-odds of being positive at `wanted`, by a regression with both kinds of equal weight."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=STRENGTH, class_weight="balanced", max_iter=300)
    return np.asarray(model.fit(known, label).decision_function(wanted), dtype=np.float64)


def _line(values: Floats, label: Bools) -> tuple[float, float]:
    """Slope, at least 0, and intercept from values to log-odds.

    By maximum likelihood with the targets of Platt 1999, "Probabilistic outputs for support vector machines": one
    example of each kind is added in effect, so that a few examples do not claim certainty.
    """
    from scipy.optimize import minimize

    width = max(float(values.std()), 1e-9)
    positives, negatives = int(label.sum()), int((~label).sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(found: Floats) -> float:
        odds = found[0] * values / width + found[1]
        return float((np.logaddexp(0, odds) - target * odds).sum())

    slope, intercept = minimize(loss, [1.0, 0.0], bounds=[(0, 50), (-30, 30)]).x.tolist()
    return slope / width, intercept


def instructive(
    known: States, mark: Ints, p: Floats | None = None, score: Floats | None = None
) -> Ints:
    """The conversations that are no examples yet, the most informative first.

    The first `START` are typical of as many clusters of all conversations, the largest first, with the completeness
    score as one of the dimensions. From then on it is the next `BATCH` that count, for then a fit is made anew: they
    are typical of clusters of the less certain half, weighted by uncertainty, so that they are unsure and unlike each
    other (Zhdanov 2019, "Diverse mini-batch active learning").

    Args:
        known: The `features` of all conversations.
        mark: As `fit` takes it.
        p: Probability of being positive; None before any fit.
        score: Completeness scores, NaN where there is none; used for the first `START`.

    Returns:
        Indices of all conversations that are no examples; after the chosen ones, the others by falling uncertainty, or
        without `p` in a random order that is always the same.
    """
    free = np.flatnonzero(mark == 0)
    mixed = np.random.default_rng(SEED).permutation(len(mark))
    if p is None or np.count_nonzero(mark) < START:
        space = known
        if score is not None and np.isfinite(score).any():
            filled = np.where(np.isfinite(score), score, np.nanmean(score))
            more = SCORE_WEIGHT * _standardised(filled)[:, None]
            space = np.hstack([known, more.astype(np.float32)])
        pool = mixed[:POOL]
        chosen = pool[_typical(space[pool], START, np.ones(len(pool)))]
        chosen = chosen[mark[chosen] == 0]
        rest = mixed[np.isin(mixed, free)]
    else:
        unsure = 1 - np.abs(2 * p - 1) + 1e-6
        rest = free[np.argsort(-unsure[free], kind="stable")]
        pool = rest[: min(max(len(rest) // 2, 2 * BATCH), POOL)]
        chosen = pool[_typical(known[pool], BATCH, unsure[pool])]
    return np.concatenate([chosen, rest[~np.isin(rest, chosen)]])


def _typical(space: States, count: int, weight: Floats) -> Ints:
    """For each of so many clusters, the largest first, the row that is nearest to its centre."""
    from sklearn.cluster import KMeans

    count = min(count, len(np.unique(space, axis=0)))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    with threadpool_limits(limits=1):
        found = KMeans(count, n_init=2, random_state=SEED).fit(space, sample_weight=weight)
    distance = ((space - found.cluster_centers_[found.labels_]) ** 2).sum(axis=1)
    nearest = np.lexsort((distance, found.labels_))
    names, first = np.unique(found.labels_[nearest], return_index=True)
    order = np.argsort(-np.bincount(found.labels_, weights=weight)[names], kind="stable")
    return np.asarray(nearest[first][order], dtype=np.int64)
