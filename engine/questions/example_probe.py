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

INVERSE_STRENGTH = 1e-2
"""Inverse strength of the regularization (C of scikit-learn)."""

PLACE_WEIGHT = 3.0
"""Weight of each of the three figures of a place, against one of each of the hundreds of a state."""

SCORE_WEIGHT = 10.0
"""Weight of the completeness score in the choice of the first conversations."""

TYPICAL_EXAMPLES = 10
"""Number of conversations that are chosen for being typical, before uncertainty counts."""

EXAMPLES_PER_FIT = 5
"""Number of new examples after which a probe is fitted anew."""

MAX_POOL_CONVERSATIONS = 4_000
"""Largest number of conversations that `rank_by_information` chooses from."""


def features(states: States, places: Floats) -> States:
    """Returns standardized features of conversations: the hidden state and the place of the last boundary.

    Args:
        states: Hidden states at the last boundaries, shape (conversations, dimensions).
        places: Number of that boundary, characters so far, characters of the last step; shape (conversations, 3).

    Returns:
        Shape (conversations, dimensions + 3).
    """
    place = PLACE_WEIGHT * _standardize(np.log1p(places))
    return np.hstack([_standardize(states), place.astype(np.float32)])


def _standardize(values: NDArray[Any]) -> NDArray[Any]:
    """Returns values with mean 0 and standard deviation 1 in each column; a constant column becomes 0."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))


def fit(known: States, mark: Ints, group: Ints) -> Floats | None:
    """Returns the predictions of a probe that is fitted to the examples.

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
    log_odds = np.zeros((REPEATS, len(marked)))
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The least populated class")
        for repeat in range(REPEATS):
            parts = StratifiedGroupKFold(folds, shuffle=True, random_state=SEED + repeat)
            for train, held_out in parts.split(marked, label, group):
                if len(np.unique(label[train])) == 2:
                    log_odds[repeat, held_out] = _predict_log_odds(
                        known[marked[train]], label[train], known[marked[held_out]]
                    )
        unseen = log_odds.mean(axis=0)
        slope, intercept = _fit_line(unseen, label)
        calibrated = slope * _predict_log_odds(known[marked], label, known) + intercept
    calibrated[marked] = slope * unseen + intercept
    return np.asarray(1 / (1 + np.exp(-calibrated)))


def _predict_log_odds(examples: States, label: Bools, conversations: States) -> Floats:
    """Returns the log-odds of being positive of conversations, by a regression on examples with equal weight of both
    kinds; shape (conversations,)."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=INVERSE_STRENGTH, class_weight="balanced", max_iter=300)
    return np.asarray(model.fit(examples, label).decision_function(conversations), dtype=np.float64)


def _fit_line(values: Floats, label: Bools) -> tuple[float, float]:
    """Returns the slope, at least 0, and the intercept of the line from values to calibrated log-odds.

    It is fitted by maximum likelihood with the targets of Platt 1999, "Probabilistic outputs for support vector
    machines": one example of each kind is added in effect, so that a few examples do not claim certainty.
    """
    from scipy.optimize import minimize

    scale = max(float(values.std()), 1e-9)
    positives, negatives = int(label.sum()), int((~label).sum())
    target = np.where(label, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(line: Floats) -> float:
        odds = line[0] * values / scale + line[1]
        return float((np.logaddexp(0, odds) - target * odds).sum())

    slope, intercept = minimize(loss, [1.0, 0.0], bounds=[(0, 50), (-30, 30)]).x.tolist()
    return slope / scale, intercept


def rank_by_information(
    known: States, mark: Ints, p: Floats | None = None, score: Floats | None = None
) -> Ints:
    """Returns the conversations that are no examples yet, the most informative first.

    The first `TYPICAL_EXAMPLES` are typical of as many clusters of all conversations, the largest first, with the
    completeness score as one of the dimensions. From then on it is the next `EXAMPLES_PER_FIT` that count, for then a
    fit is made anew: they are typical of clusters of the less certain half, weighted by uncertainty, so that they are
    unsure and unlike each other (Zhdanov 2019, "Diverse mini-batch active learning").

    Args:
        known: The `features` of all conversations.
        mark: As `fit` takes it.
        p: Probability of being positive; None before any fit.
        score: Completeness scores, NaN where there is none; used for the first `TYPICAL_EXAMPLES`.

    Returns:
        Indices of all conversations that are no examples; after the chosen ones, the others by falling uncertainty, or
        without `p` in a random order that is always the same.
    """
    unmarked = np.flatnonzero(mark == 0)
    shuffled = np.random.default_rng(SEED).permutation(len(mark))
    if p is None or np.count_nonzero(mark) < TYPICAL_EXAMPLES:
        space = known
        if score is not None and np.isfinite(score).any():
            filled = np.where(np.isfinite(score), score, np.nanmean(score))
            more = SCORE_WEIGHT * _standardize(filled)[:, None]
            space = np.hstack([known, more.astype(np.float32)])
        pool = shuffled[:MAX_POOL_CONVERSATIONS]
        chosen = pool[_choose_typical(space[pool], TYPICAL_EXAMPLES, np.ones(len(pool)))]
        chosen = chosen[mark[chosen] == 0]
        rest = shuffled[np.isin(shuffled, unmarked)]
    else:
        uncertainty = 1 - np.abs(2 * p - 1) + 1e-6
        rest = unmarked[np.argsort(-uncertainty[unmarked], kind="stable")]
        pool = rest[: min(max(len(rest) // 2, 2 * EXAMPLES_PER_FIT), MAX_POOL_CONVERSATIONS)]
        chosen = pool[_choose_typical(known[pool], EXAMPLES_PER_FIT, uncertainty[pool])]
    return np.concatenate([chosen, rest[~np.isin(rest, chosen)]])


def _choose_typical(space: States, count: int, weights: Floats) -> Ints:
    """Returns, for each of so many clusters, the largest first, the index of the row that is nearest to its center."""
    from sklearn.cluster import KMeans

    count = min(count, len(np.unique(space, axis=0)))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    with threadpool_limits(limits=1):
        clustering = KMeans(count, n_init=2, random_state=SEED).fit(space, sample_weight=weights)
    distance = ((space - clustering.cluster_centers_[clustering.labels_]) ** 2).sum(axis=1)
    nearest = np.lexsort((distance, clustering.labels_))
    names, first = np.unique(clustering.labels_[nearest], return_index=True)
    order = np.argsort(-np.bincount(clustering.labels_, weights=weights)[names], kind="stable")
    return np.asarray(nearest[first][order], dtype=np.int64)
