"""Logistic regressions from what is read at boundaries, words or hidden states, to whether a conversation ends there.

A boundary is a place where a conversation could end; it is an end (label 1, `is_end`) if it is the last one of its
conversation. `fit_regression` makes a `Regression`, which gives the log-odds of an end at other boundaries. The probe
(`engine.completeness.probe`) is made of such regressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.completeness.probe_calibration import SEED
from engine.completeness.words import DISTANCES, BoundaryWords

States = NDArray[np.float32]
"""Hidden states as regressions compute with them, shape (boundaries, dimensions)."""

StoredStates = NDArray[np.float32] | NDArray[np.float16]
"""Hidden states as they are stored, shape (boundaries, dimensions)."""

Features = StoredStates | BoundaryWords
"""What a regression reads at boundaries. Hidden states and words both have a length, and give some of the boundaries by
their index."""

TOLERANCE_OF_WORDS = 0.1
"""Tolerance at which liblinear stops on words: AUROC is the same as at its default of 1e-4, in half the time."""

MAX_ITERATIONS_ON_WORDS, MAX_ITERATIONS_ON_STATES = 1_000, 300
"""Most iterations of the solvers; a fit that has not converged by then is used as it is."""

MAX_BOUNDARIES_PER_BATCH = 20_000
"""Largest number of boundaries that are scored at once, which bounds the memory."""

_LIBLINEAR = Lock()
"""Lock that is held while liblinear fits: it draws from one generator of random numbers for the whole process, so that
fits side by side would not come out the same twice."""


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression.

    Attributes:
        weights: Of each dimension of a state, shape (dimensions,), or of each column of words, shape
            (`DISTANCES * COLUMNS`,).
        intercept: Log-odds before any feature.
        absent: On words, what is added for a message that is not there, by its distance: the mean of those that are, so
            that it speaks neither for nor against an end; shape (`DISTANCES`,).
    """

    weights: Floats
    intercept: float
    absent: Floats = field(default_factory=lambda: np.zeros(DISTANCES))

    def log_odds(self, features: Features, rows: Ints | None = None) -> Floats:
        """Returns the log-odds of an end, computed batch by batch.

        Args:
            rows: Indices of the boundaries; None for all.

        Returns:
            Shape (boundaries,) or that of `rows`.
        """
        rows = np.arange(len(features)) if rows is None else rows
        log_odds = np.empty(len(rows))
        for first in range(0, len(rows), MAX_BOUNDARIES_PER_BATCH):
            batch = features[rows[first : first + MAX_BOUNDARIES_PER_BATCH]]
            sums = (
                batch.sums(self.weights, self.absent)
                if isinstance(batch, BoundaryWords)
                else batch.astype(np.float64) @ self.weights
            )
            log_odds[first : first + MAX_BOUNDARIES_PER_BATCH] = sums + self.intercept
        return log_odds


def fit_regression(
    features: Features, is_end: Bools, boundary_weights: Floats, inverse_strength: float
) -> Regression:
    """Returns a regression fitted so that both labels have equal weight.

    Args:
        features: What is read at the boundaries to learn from.
        is_end: Label of each of them, shape (boundaries,).
        boundary_weights: Weight of each of them among those with its label, shape (boundaries,).
        inverse_strength: Inverse strength of the regularization, C of scikit-learn.

    Raises:
        ValueError: There is only one label.
    """
    if is_end.all() or not is_end.any():
        raise ValueError("a regression needs ends and other boundaries")
    weight_of_label = np.where(
        is_end, boundary_weights[is_end].sum(), boundary_weights[~is_end].sum()
    )
    sample_weights = boundary_weights / weight_of_label * len(is_end) / 2
    if isinstance(features, BoundaryWords):
        return _fit_to_words(features, is_end, sample_weights, inverse_strength)
    return _fit_to_states(features, is_end, sample_weights, inverse_strength)


def _fit_to_words(
    words: BoundaryWords, is_end: Bools, sample_weights: Floats, inverse_strength: float
) -> Regression:
    """Returns a regression on words; arguments as those of `fit_regression`."""
    # Imported where it is used: it takes a second, and this module is imported at every start.
    from sklearn.linear_model import LogisticRegression

    # The dual problem has one variable for each boundary, not one for each of a hundred thousand columns.
    model = LogisticRegression(
        C=inverse_strength,
        solver="liblinear",
        dual=True,
        tol=TOLERANCE_OF_WORDS,
        max_iter=MAX_ITERATIONS_ON_WORDS,
        random_state=SEED,
    )
    matrix = words.matrix()
    with _LIBLINEAR:
        model.fit(matrix, is_end, sample_weight=sample_weights)
    weights = model.coef_[0]
    absent = [_mean_of_present(words, is_end, weights, distance) for distance in range(DISTANCES)]
    return Regression(weights, float(model.intercept_[0]), np.array(absent))


def _mean_of_present(words: BoundaryWords, is_end: Bools, weights: Floats, distance: int) -> float:
    """Returns the mean sum of the weights of the words of the messages at a distance, ends and other boundaries
    counting alike; 0 where no boundary has such a message."""
    present = words.messages[:, distance] >= 0
    sums = words[present].at_distance(distance).sums(weights, np.zeros(DISTANCES))
    by_label = (is_end[present], ~is_end[present])
    means = [sums[with_label].mean() for with_label in by_label if with_label.any()]
    return float(np.mean(means)) if means else 0.0


def _fit_to_states(
    states: StoredStates, is_end: Bools, sample_weights: Floats, inverse_strength: float
) -> Regression:
    """Returns a regression on states, which are scaled to unit variance for the fit; arguments as those of
    `fit_regression`."""
    from sklearn.linear_model import LogisticRegression

    mean = states.mean(axis=0, dtype=np.float64)
    deviation = states.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1
    model = LogisticRegression(C=inverse_strength, max_iter=MAX_ITERATIONS_ON_STATES)
    scaled = ((states - mean) / deviation).astype(np.float32)
    model.fit(scaled, is_end, sample_weight=sample_weights)
    weights = model.coef_[0] / deviation
    return Regression(weights, float(model.intercept_[0] - mean @ weights))
