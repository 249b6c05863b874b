"""The probe: a logistic regression on the hidden states at the boundaries of a project's own conversations.

It learns from the logs alone. The last boundary of a conversation is an end (label 1), its others are not (label 0), as
in the truncation test. No conversation is scored by a regression that saw it: the conversations are divided into folds,
and each fold is scored by the regression that was trained on the others (cross-fitting, Chernozhukov et al. 2018,
"Double/debiased machine learning", Econometrics Journal 21). This is repeated with other folds; the mean is the score,
and the spread between the repeats is its noise.

Linear probes on hidden states: Alain & Bengio 2016, "Understanding intermediate layers using linear classifier probes".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from sklearn.isotonic import IsotonicRegression

Floats = NDArray[np.float64]
States = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

VERSION = 1
"""Version of the way to fit; part of the config hash of the scores."""

FOLDS = 5
REPEATS = 3
INNER_FOLDS = 3
STRENGTHS = (1e-3, 1e-2)
"""Inverse strengths of the regularisation (C of scikit-learn) to choose from."""

MOST_ROWS = 4_000
"""Boundaries that one regression is trained on at most; more change the scores little and take long."""

SEED = 20_261_122
STEPS = FOLDS * REPEATS
"""How often `cross_fit` reports progress."""

OnFold = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Scores of every boundary by regressions that did not see its conversation.

    Attributes:
        p: Probability of an end at even odds of ends and other boundaries, calibrated; shape (boundaries,).
        spread: Standard deviation of `p` between the repeats; shape (boundaries,).
    """

    p: Floats
    spread: Floats


def cross_fit(
    states: States,
    end: Bools,
    group: Ints,
    on_fold: OnFold = lambda: None,
    strengths: Sequence[float] = STRENGTHS,
) -> CrossFit:
    """Scores every boundary by a probe that never saw its group.

    Args:
        states: Hidden states, shape (boundaries, dimensions).
        end: Label of each boundary, shape (boundaries,).
        group: Group of each boundary, shape (boundaries,): boundaries of one conversation, and of conversations nearly
            equal to it, share one.
        on_fold: Called after each fold of each repeat; may raise to cancel.
        strengths: Inverse strengths of the regularisation to choose from.

    Raises:
        ValueError: There are fewer groups than folds, or only one label.
    """
    from sklearn.exceptions import ConvergenceWarning

    # One thread: matrices this small are slower on several, and the number of cores would change the last digits.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # the last digits of a weight decide nothing
        values = np.empty((REPEATS, len(end)))
        for repeat in range(REPEATS):
            random = np.random.default_rng(SEED + repeat)
            values[repeat] = _one_repeat(states, end, group, random, strengths, on_fold)
        calibration = Calibration.of(values.mean(axis=0), end, group)
    p = np.stack([calibration.p(row) for row in values])
    return CrossFit(calibration.p(values.mean(axis=0)), p.std(axis=0))


def _one_repeat(
    states: States,
    end: Bools,
    group: Ints,
    random: np.random.Generator,
    strengths: Sequence[float],
    on_fold: OnFold,
) -> Floats:
    fold = _folds(group, FOLDS, random)
    values = np.empty(len(end))
    for number in range(FOLDS):
        train = _rows(np.flatnonzero(fold != number), end, random)
        strength = _strength(states[train], end[train], group[train], random, strengths)
        values[fold == number] = _fitted(
            states[train], end[train], strength, states[fold == number]
        )
        on_fold()
    return values


def _folds(group: Ints, folds: int, random: np.random.Generator) -> Ints:
    """A fold for each boundary, the same for all of a group; folds differ by at most one group."""
    names, index = np.unique(group, return_inverse=True)
    if len(names) < folds:
        raise ValueError(f"{len(names)} groups cannot be divided into {folds} folds")
    return np.asarray(random.permutation(len(names)) % folds)[index]


def _rows(rows: Ints, end: Bools, random: np.random.Generator) -> Ints:
    """At most `MOST_ROWS` of the rows, as many ends as possible up to one half."""
    if len(rows) <= MOST_ROWS:
        return rows
    ends, others = random.permutation(rows[end[rows]]), random.permutation(rows[~end[rows]])
    half = MOST_ROWS // 2
    few = min(len(ends), max(half, MOST_ROWS - len(others)))
    return np.sort(np.concatenate([ends[:few], others[: MOST_ROWS - few]]))


def _strength(
    states: States,
    end: Bools,
    group: Ints,
    random: np.random.Generator,
    strengths: Sequence[float],
) -> float:
    """The strength with the least log loss on held-out groups of the training data."""
    if len(strengths) == 1 or len(np.unique(group)) < INNER_FOLDS:
        return strengths[0]
    fold = _folds(group, INNER_FOLDS, random)
    losses = []
    for strength in strengths:
        loss = 0.0
        for number in range(INNER_FOLDS):
            kept, held = fold != number, fold == number
            if len(np.unique(end[kept])) < 2:
                continue
            values = _fitted(states[kept], end[kept], strength, states[held])
            each = np.logaddexp(0, np.where(end[held], -values, values))
            loss += float(balanced_weights(end[held]) @ each)
        losses.append(loss)
    return strengths[int(np.argmin(losses))]


def _fitted(states: States, end: Bools, strength: float, wanted: States) -> Floats:
    """Log-odds of an end at `wanted`, by a regression on the other states with both classes of equal weight."""
    # imported where it is used: it takes a second, and this module is imported at every start
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scale = StandardScaler().fit(states)
    model = LogisticRegression(C=strength, class_weight="balanced", max_iter=300)
    model.fit(scale.transform(states), end)
    return np.asarray(model.decision_function(scale.transform(wanted)), dtype=np.float64)


def balanced_weights(end: Bools) -> Floats:
    """Weights with which both classes weigh one half; a class that is missing has none."""
    ends = int(end.sum())
    return np.where(end, 0.5 / max(ends, 1), 0.5 / max(len(end) - ends, 1))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns log-odds into probabilities: Platt's line, or isotonic regression where that fits better.

    Attributes:
        slope, intercept: Of the line on log-odds (Platt 1999).
        steps: The isotonic regression in place of the line; None if the line has the lower held-out log loss.
    """

    slope: float
    intercept: float
    steps: IsotonicRegression | None = None

    @classmethod
    def of(cls, values: Floats, end: Bools, group: Ints) -> Calibration:
        """The calibration with the lower log loss on held-out groups, fitted to all of the values."""
        fold = _folds(group, FOLDS, np.random.default_rng(SEED))
        losses = {False: 0.0, True: 0.0}
        for isotonic in losses:
            for number in range(FOLDS):
                kept, held = fold != number, fold == number
                if len(np.unique(end[kept])) < 2:
                    continue
                p = cls._fit(values[kept], end[kept], isotonic).p(values[held])
                chance = np.where(end[held], p, 1 - p)
                losses[isotonic] -= float(balanced_weights(end[held]) @ np.log(chance))
        return cls._fit(values, end, isotonic=losses[True] < losses[False])

    @classmethod
    def _fit(cls, values: Floats, end: Bools, isotonic: bool) -> Calibration:
        from sklearn.isotonic import IsotonicRegression
        from sklearn.linear_model import LogisticRegression

        line = LogisticRegression(C=1e6, class_weight="balanced").fit(values[:, None], end)
        slope, intercept = float(line.coef_[0, 0]), float(line.intercept_[0])
        if not isotonic:
            return cls(slope, intercept)
        steps = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        steps.fit(values, end, sample_weight=balanced_weights(end))
        return cls(slope, intercept, steps)

    def p(self, values: Floats) -> Floats:
        """Probabilities of log-odds, within `[NEVER_SURE, 1 - NEVER_SURE]`."""
        p: Floats = 0.5 + 0.5 * np.tanh((self.slope * values + self.intercept) / 2)  # the logistic
        if self.steps is not None:
            # A little of the line keeps the order of values that share a step.
            p = 0.95 * self.steps.predict(values) + 0.05 * p
        return np.asarray(p).clip(NEVER_SURE, 1 - NEVER_SURE)


NEVER_SURE = 1e-4
"""Least and, from 1, largest probability: a few hundred conversations cannot show more certainty."""
