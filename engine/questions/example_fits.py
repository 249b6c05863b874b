"""Fits a probe to examples: conversations that a person answered a yes-no question on, the answers yes as positive
examples and the answers no as negative ones.

A fit begins with a guess that needs no example, for success the trouble of each conversation, and is a regression of
how the examples differ from it: on that guess again, on the signs of trouble, on the words of all messages, and on the
hidden state at the last boundary where a model read the conversation. The regression is regularized, so that a few
examples move little.

An example has its probability from regressions that did not see it or one nearly equal to it, so that the
probabilities of the examples can be tested; the others have theirs from a regression on all examples. Both are
calibrated by Platt's line on the former.

docs/lab/signs.md says how features and weights were chosen, docs/lab/verdicts.md how the order was.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from engine.base.arrays import Bools, Floats, Ints
from engine.completeness.probe import REPEATS
from engine.completeness.probe_calibration import FOLDS, SEED
from engine.completeness.regression import States
from engine.completeness.words import COLUMNS
from engine.signs.sums import standardize

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SIGN_WEIGHT = 0.3
"""Prior variance of the weight of each sign, in log-odds for a standard deviation; and of the first guess."""

STATE_WEIGHT = 0.6
"""Prior variance of all dimensions of a state together, in log-odds: the mean square of what they add."""

WORD_WEIGHT = 2.0
"""Prior variance of all words together, in log-odds: the mean square of what they add."""

MAX_BASIS = 400
"""Largest number of examples whose likeness to others the regression is on; of more, some are drawn at random."""

_NEWTON_STEPS, _SMALL_STEP = 25, 1e-6
"""Most steps of Newton's method, and the size of a step below which the method ends."""

_MAX_LOG_ODDS = 30.0
"""Greatest absolute value of log-odds before the exponential is taken, so that it does not overflow."""

_MAX_SLOPE = 50.0
"""Largest slope of the line of the calibration, on log-odds scaled to a standard deviation of 1."""

_FREE = 1e-3
"""Inverse prior variance of the intercept, which is hardly regularized."""

_MIN_CURVATURE = 1e-6
"""Least curvature that an example adds, so that the equations have one solution."""

_MIN_SHARE_OF_SIZE = 1e-6
"""Least share of the largest eigenvalue of the likeness that a direction needs to be kept."""

_SMALL = 1e-9
"""Replaces a divisor that may be 0."""

SCORE_WEIGHT = 0.8
"""Weight of the completeness score in the choice of the first conversations."""

TYPICAL_EXAMPLES = 10
"""Number of conversations that are chosen for being typical, before uncertainty counts."""

EXAMPLES_PER_FIT = 5
"""Number of new examples after which a probe is fitted anew."""

_MIN_UNCERTAINTY = 1e-6
"""Added to each uncertainty, so that none of the weights of the clusters is 0."""

MAX_POOL_CONVERSATIONS = 4_000
"""Largest number of conversations that `rank_by_information` chooses from."""


class KnownFeatures(NamedTuple):
    """What is known of all conversations without an example.

    Attributes:
        features: See `weight_features`; shape (conversations, features).
        words: See `word_vectors`; None without words.
        guess: Log-odds of being positive before any example, shape (conversations,).
    """

    features: States
    words: csr_array | None
    guess: Floats


def weight_features(signs: Floats, states: States | None = None) -> States:
    """Returns features of conversations, each weighted by how much it may matter.

    Args:
        signs: Standard scores of the signs of trouble, shape (conversations, signs).
        states: Hidden states at the last boundaries, shape (conversations, dimensions), NaN where there is none.

    Returns:
        Shape (conversations, signs + dimensions).
    """
    weighted = np.sqrt(SIGN_WEIGHT) * signs
    if states is not None:
        known = ~np.isnan(states[:, 0])
        standard = np.zeros_like(states)
        standard[known] = standardize(states[known])
        weighted = np.hstack([weighted, np.sqrt(STATE_WEIGHT / states.shape[1]) * standard])
    return np.asarray(weighted, dtype=np.float32)


def word_vectors(columns: Sequence[NDArray[np.uint16]]) -> csr_array:
    """Returns the words of conversations as unit vectors, shape (conversations, `words.COLUMNS`).

    Rare words have more weight (inverse document frequency); words of one conversation only and of all have none.

    Args:
        columns: The distinct columns of the words of each conversation.
    """
    from scipy.sparse import csr_array, diags_array

    starts = np.cumsum([0, *map(len, columns)])
    joined = np.concatenate([*columns, np.empty(0, np.uint16)]).astype(np.int32)
    count = np.bincount(joined, minlength=COLUMNS)
    weight = np.log(len(columns) / np.maximum(count, 1)) * (count > 1)
    table = csr_array((weight[joined].astype(np.float32), joined, starts), (len(columns), COLUMNS))
    length = np.sqrt(table.multiply(table).sum(axis=1))
    return csr_array(diags_array(1 / np.where(length > 0, length, 1)) @ table)


def fit_to_examples(known: KnownFeatures, marks: Ints, groups: Ints) -> Floats | None:
    """Returns the predictions of a probe that is fitted to the examples.

    Args:
        marks: 1 for a positive example, -1 for a negative one, 0 for no example; shape (conversations,).
        groups: Group of each example, in the order of `marks`; nearly equal ones share one.

    Returns:
        Calibrated probability that each conversation is positive, shape (conversations,); of an example by regressions
        that did not see it. None where there are fewer than two groups of either kind of example.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    examples = np.flatnonzero(marks)
    is_positive = marks[examples] > 0
    folds = min(FOLDS, len(np.unique(groups[is_positive])), len(np.unique(groups[~is_positive])))
    if folds < 2:
        return None
    log_odds = np.zeros((REPEATS, len(examples)))
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        table = _likeness_coordinates(known, examples)
        for repeat in range(REPEATS):
            parts = StratifiedGroupKFold(folds, shuffle=True, random_state=SEED + repeat)
            for train, held_out in parts.split(examples, is_positive, groups):
                if len(np.unique(is_positive[train])) == 2:
                    log_odds[repeat, held_out] = _predict_log_odds(
                        table, known.guess, examples[train], is_positive[train], examples[held_out]
                    )
        unseen = log_odds.mean(axis=0)
        slope, intercept = _fit_line(unseen, is_positive)
        all_rows = np.arange(len(marks))
        calibrated = (
            slope * _predict_log_odds(table, known.guess, examples, is_positive, all_rows)
            + intercept
        )
    calibrated[examples] = slope * unseen + intercept
    return np.asarray(1 / (1 + np.exp(-calibrated)))


def _likeness_coordinates(known: KnownFeatures, examples: Ints) -> Floats:
    """Returns the coordinates of all conversations in the space that the examples span, in which a regression with unit
    variance of each weight is one on all features (Williams and Seeger 2001, "Using the Nystrom method to speed up
    kernel machines").

    Returns:
        Shape (conversations, at most `MAX_BASIS`).
    """
    basis = np.random.default_rng(SEED).permutation(examples)[:MAX_BASIS]
    kernel = known.features @ known.features[basis].T
    kernel = kernel + SIGN_WEIGHT * np.outer(known.guess, known.guess[basis])
    if known.words is not None:
        mean = known.words.mean(axis=0)
        along = known.words @ mean
        products = (known.words @ known.words[basis].T).toarray()
        spread = max(1 - float(mean @ mean), _SMALL)
        centered = products - along[:, None] - along[None, basis] + mean @ mean
        kernel = kernel + WORD_WEIGHT / spread * centered
    size, direction = np.linalg.eigh(np.asarray(kernel[basis], dtype=np.float64))
    is_large = size > _MIN_SHARE_OF_SIZE * max(size.max(), _SMALL)
    return np.asarray(kernel @ (direction[:, is_large] / np.sqrt(size[is_large])))


def _predict_log_odds(
    table: Floats, guess: Floats, examples: Ints, is_positive: Bools, conversations: Ints
) -> Floats:
    """Returns the log-odds of being positive of conversations, shape (conversations,): the guess and what a regression
    on the examples, with equal weight of both kinds, adds to it (Newton's method)."""
    rows = np.hstack([table[examples], np.ones((len(examples), 1))])
    class_counts = np.where(is_positive, is_positive.sum(), (~is_positive).sum())
    weight = len(is_positive) / 2 / class_counts
    precision = np.eye(rows.shape[1])
    precision[-1, -1] = _FREE
    added = np.zeros(rows.shape[1])
    for _ in range(_NEWTON_STEPS):
        odds = np.clip(guess[examples] + rows @ added, -_MAX_LOG_ODDS, _MAX_LOG_ODDS)
        p = 1 / (1 + np.exp(-odds))
        gradient = rows.T @ (weight * (p - is_positive)) + precision @ added
        curvature = (rows.T * (weight * np.maximum(p * (1 - p), _MIN_CURVATURE))) @ rows + precision
        step = np.linalg.solve(curvature, gradient)
        added -= step
        if np.abs(step).max() < _SMALL_STEP:
            break
    return np.asarray(guess[conversations] + table[conversations] @ added[:-1] + added[-1])


def _fit_line(values: Floats, is_positive: Bools) -> tuple[float, float]:
    """Returns the slope, at least 0, and the intercept of the line from values to calibrated log-odds.

    It is fitted by maximum likelihood with the targets of Platt 1999, "Probabilistic outputs for support vector
    machines": one example of each kind is added in effect, so that a few examples do not claim certainty.
    """
    from scipy.optimize import minimize

    scale = max(float(values.std()), _SMALL)
    positives, negatives = int(is_positive.sum()), int((~is_positive).sum())
    target = np.where(is_positive, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(line: Floats) -> float:
        """Returns the log loss of a slope and an intercept."""
        odds = line[0] * values / scale + line[1]
        return float((np.logaddexp(0, odds) - target * odds).sum())

    bounds = [(0, _MAX_SLOPE), (-_MAX_LOG_ODDS, _MAX_LOG_ODDS)]
    slope, intercept = minimize(loss, [1.0, 0.0], bounds=bounds).x.tolist()
    return slope / scale, intercept


def rank_by_information(
    features: States, marks: Ints, p: Floats | None = None, score: Floats | None = None
) -> Ints:
    """Returns the indices of the conversations that are no examples yet, the most informative first.

    The first `TYPICAL_EXAMPLES` are typical of as many clusters of all conversations, the largest first, with the
    completeness score as one of the dimensions. From then on it is the next `EXAMPLES_PER_FIT` that count, for then a
    fit is made anew: they are typical of clusters of the less certain half, weighted by uncertainty, so that they are
    unsure and unlike each other (Zhdanov 2019, "Diverse mini-batch active learning").

    Args:
        features: The `weight_features` of all conversations.
        marks: As `fit_to_examples` takes it.
        p: Probability of being positive; None before any fit.
        score: Completeness scores, NaN where there is none; used for the first `TYPICAL_EXAMPLES`.

    Returns:
        Indices of all conversations that are no examples; after the chosen ones, the others by falling uncertainty, or
        without `p` in a random order that is always the same.
    """
    others = np.flatnonzero(marks == 0)
    shuffled = np.random.default_rng(SEED).permutation(len(marks))
    if p is None or np.count_nonzero(marks) < TYPICAL_EXAMPLES:
        space = features
        if score is not None and np.isfinite(score).any():
            filled = np.where(np.isfinite(score), score, np.nanmean(score))
            more = SCORE_WEIGHT * standardize(filled)[:, None]
            space = np.hstack([features, more.astype(np.float32)])
        pool = shuffled[:MAX_POOL_CONVERSATIONS]
        chosen = pool[_choose_typical(space[pool], TYPICAL_EXAMPLES, np.ones(len(pool)))]
        chosen = chosen[marks[chosen] == 0]
        ordered = shuffled[np.isin(shuffled, others)]
    else:
        uncertainty = 1 - np.abs(2 * p - 1) + _MIN_UNCERTAINTY
        ordered = others[np.argsort(-uncertainty[others], kind="stable")]
        pool = ordered[: min(max(len(ordered) // 2, 2 * EXAMPLES_PER_FIT), MAX_POOL_CONVERSATIONS)]
        chosen = pool[_choose_typical(features[pool], EXAMPLES_PER_FIT, uncertainty[pool])]
    return np.concatenate([chosen, ordered[~np.isin(ordered, chosen)]])


def _choose_typical(space: States, count: int, weights: Floats) -> Ints:
    """Returns the index of the row that is nearest to the center of its cluster, for each of `count` clusters, the
    largest first."""
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
