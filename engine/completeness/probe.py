"""The probe: a logistic regression on the hidden states at the boundaries of a project's own conversations.

It learns from the logs alone. The last boundary of a conversation is an end (label 1), its others are not (label 0), as
in the truncation test. No conversation is scored by a regression that saw it: the conversations are divided into folds,
and each fold is scored by the regression that was trained on the others (cross-fitting, Chernozhukov et al. 2018,
"Double/debiased machine learning", Econometrics Journal 21). This is repeated with other folds; the mean is the score,
and the spread between the repeats is its noise.

Some conversations broke off, so some labels 1 are wrong, while the labels 0 are right: the ends are a mixture of true
ends and of boundaries like the others. The share of the latter is estimated together with the calibration
(`engine.completeness.probe_calibration`), and each end weighs in training as much as it is likely to be a true one.
Both follow Elkan & Noto 2008, "Learning classifiers from only positive and unlabeled data" (KDD), with the two classes
exchanged; the mixture is that of Menon et al. 2015, "Learning from corrupted binary labels via class-probability
estimation" (ICML).

`cross_fit` scores the conversations of a project; `fit` makes one probe of all of them for conversations that come
later.

Linear probes on hidden states: Alain & Bengio 2016, "Understanding intermediate layers using linear classifier probes".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from engine.completeness.probe_calibration import (
    FOLDS,
    SEED,
    Bools,
    Calibration,
    Floats,
    Ints,
    assign_folds,
    even_weights,
)

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

States = NDArray[np.float32]
"""Hidden states as regressions compute with them, shape (boundaries, dimensions)."""

StoredStates = NDArray[np.float32] | NDArray[np.float16]
"""Hidden states as they are stored, shape (boundaries, dimensions)."""

VERSION = 2
"""Version of the way to fit; part of the config hash of the scores."""

REPEATS = 3
"""Number of cross-fittings, each with other folds."""

STEPS = FOLDS * REPEATS
"""How often `cross_fit` reports progress."""

INNER_FOLDS = 3
"""Number of folds of the training data in which the regularization is chosen."""

INVERSE_STRENGTHS = (1e-3, 1e-2)
"""Inverse strengths of the regularization (C of scikit-learn) to choose from."""

MAX_CONVERSATIONS = 20_000
"""Largest number of conversations that a probe learns from and is tested on. Of more, this many are drawn at random;
docs/lab/scale.md says why these are enough."""

MAX_TRAINING_BOUNDARIES = 4_000
"""Largest number of boundaries that one regression is trained on; more change the scores little and take long."""

MAX_BOUNDARIES_PER_BATCH = 200_000
"""Largest number of boundaries that are scored at once, which bounds the memory."""

MIN_END_WEIGHT = 0.02
"""Smallest weight of an end in training, so that a bad first fit cannot drop it for good."""

OnFold = Callable[[], None]
"""Is called after each fold of each repeat; may raise to cancel."""


def sample_conversations(ids: Sequence[int], preferred: Container[int] = ()) -> list[int]:
    """Returns at most `MAX_CONVERSATIONS` of some conversations, in their order.

    Those that are in `preferred` are taken before others; of too many, some are drawn at random with a fixed seed.
    """
    if len(ids) <= MAX_CONVERSATIONS:
        return list(ids)
    first = [index for index, key in enumerate(ids) if key in preferred]
    others = [index for index, key in enumerate(ids) if key not in preferred]
    random = np.random.default_rng(SEED)
    if len(first) > MAX_CONVERSATIONS:
        first = random.choice(first, MAX_CONVERSATIONS, replace=False).tolist()
    rest = MAX_CONVERSATIONS - len(first)
    then = random.choice(others, rest, replace=False).tolist() if others else []
    return [ids[index] for index in sorted([*first, *then])]


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Scores of every boundary by regressions that did not see its conversation.

    Attributes:
        p: Probability that this is a true end, at even odds of a whole conversation and the same one cut at random,
            calibrated; shape (boundaries,).
        spread: Standard deviation of `p` between the repeats; shape (boundaries,).
        calibration: Turns log-odds into `p`.
        regressions: The last one of each repeat, to score other conversations.
    """

    p: Floats
    spread: Floats
    calibration: Calibration
    regressions: tuple[Regression, ...]

    @property
    def broken(self) -> float:
        """Estimated share of the conversations that broke off, so that their last boundary is no true end."""
        return self.calibration.broken

    def score_unseen(self, states: StoredStates) -> Floats:
        """Returns the probability of an end at boundaries of conversations that were not learned from.

        It is from the mean log-odds of one regression of each repeat.

        Args:
            states: Shape (boundaries, dimensions); float16 is converted to float32.

        Returns:
            Shape (boundaries,).
        """
        with threadpool_limits(limits=1):
            log_odds = [regression.log_odds(states) for regression in self.regressions]
        return self.calibration.true_end_probability(np.mean(log_odds, axis=0))


def cross_fit(
    states: StoredStates,
    is_end: Bools,
    group_ids: Ints,
    on_fold: OnFold = lambda: None,
    inverse_strengths: Sequence[float] = INVERSE_STRENGTHS,
    may_learn: Bools | None = None,
) -> CrossFit:
    """Scores every boundary by a probe that never saw its group.

    Args:
        states: Hidden states, shape (boundaries, dimensions); float16 is computed with as float32.
        is_end: Label of each boundary, shape (boundaries,).
        group_ids: Group of each boundary, shape (boundaries,): boundaries of one conversation, and of conversations
            nearly equal to it, share one.
        on_fold: Called after each fold of each repeat; may raise to cancel.
        inverse_strengths: Inverse strengths of the regularization to choose from.
        may_learn: Whether each boundary may be learned from, shape (boundaries,), all of them by default; the labels of
            the others are not looked at.

    Raises:
        ValueError: There are fewer groups to learn from than folds, or only one label.
    """
    from sklearn.exceptions import ConvergenceWarning

    may_learn = np.ones(len(is_end), dtype=bool) if may_learn is None else may_learn
    # One thread: matrices this small are slower on several, and the number of cores would change the last digits.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # The last digits of a weight decide nothing.
        warnings.simplefilter("ignore", ConvergenceWarning)
        log_odds = np.empty((REPEATS, len(is_end)))
        regressions = []
        for repeat in range(REPEATS):
            random = np.random.default_rng(SEED + repeat)
            log_odds[repeat], regression = _fit_one_repeat(
                states, is_end, group_ids, may_learn, random, inverse_strengths, on_fold
            )
            regressions.append(regression)
        mean = log_odds.mean(axis=0)
        calibration = Calibration.fit(mean[may_learn], is_end[may_learn], group_ids[may_learn])
    spread = np.stack([calibration.true_end_probability(row) for row in log_odds]).std(axis=0)
    p = calibration.true_end_probability(mean)
    return CrossFit(p, spread, calibration, tuple(regressions))


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe fitted to all conversations, for boundaries that come later.

    Attributes:
        weights: Shape (dimensions,); the log-odds of an end are `states @ weights + intercept`.
    """

    weights: States
    intercept: float
    calibration: Calibration

    def p(self, states: States) -> Floats:
        """Returns the probability of an end at each boundary, shape (boundaries,)."""
        log_odds = np.asarray(states @ self.weights + self.intercept, dtype=np.float64)
        return self.calibration.true_end_probability(log_odds)


def fit(states: States, is_end: Bools, group_ids: Ints) -> Probe:
    """Returns a probe fitted to every boundary; its calibration is that of held-out groups.

    Args:
        states, is_end, group_ids: As `cross_fit` takes them.

    Raises:
        ValueError: There are fewer groups than folds, or only one label.
    """
    random = np.random.default_rng(SEED)
    rows = _limit_rows(np.arange(len(is_end)), is_end, random)
    states, is_end, group_ids = states[rows], is_end[rows], group_ids[rows]
    weights = even_weights(is_end, group_ids)
    # What the regression says at the origin and at each unit vector gives its weights on raw states.
    units = np.vstack([np.zeros(states.shape[1]), np.eye(states.shape[1])]).astype(np.float32)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # A fit that has not converged, and one on few ends, warn in several ways; neither decides anything.
        warnings.simplefilter("ignore")
        choice = _choose_strength(states, is_end, group_ids, weights, random, INVERSE_STRENGTHS)
        log_odds = regress(states, is_end, weights, choice.inverse_strength).log_odds(units)
        calibration = Calibration.fit(choice.held_out_log_odds, is_end, group_ids)
    state_weights = (log_odds[1:] - log_odds[0]).astype(np.float32)
    return Probe(state_weights, float(log_odds[0]), calibration)


def _fit_one_repeat(
    states: StoredStates,
    is_end: Bools,
    group_ids: Ints,
    may_learn: Bools,
    random: np.random.Generator,
    inverse_strengths: Sequence[float],
    on_fold: OnFold,
) -> tuple[Floats, Regression]:
    """Returns the log-odds at all boundaries, each by a regression that was trained on other folds; and the last
    regression.

    Each regression is fitted twice: first for the held-out log-odds of its training data, then with each end weighed by
    the probability, which these give, that it is a true one.
    """
    fold_of_boundary = np.full(len(is_end), FOLDS)  # FOLDS stands for none yet
    fold_of_boundary[may_learn] = assign_folds(group_ids[may_learn], FOLDS, random)
    # Boundaries that no fit uses stand in the fold of their group; without one, any regression may score them.
    groups, first = np.unique(group_ids[may_learn], return_index=True)
    fold_of_group = dict(
        zip(groups.tolist(), fold_of_boundary[may_learn][first].tolist(), strict=True)
    )
    fold_of_boundary[~may_learn] = [
        fold_of_group.get(group, group % FOLDS) for group in group_ids[~may_learn].tolist()
    ]
    log_odds = np.empty(len(is_end))
    for held_out_fold in range(FOLDS):
        is_held_out = fold_of_boundary == held_out_fold
        rows = _limit_rows(np.flatnonzero(may_learn & ~is_held_out), is_end, random)
        train_states, train_end = _as_float32(states[rows]), is_end[rows]
        train_groups = group_ids[rows]
        weights = even_weights(train_end, train_groups)
        choice = _choose_strength(
            train_states, train_end, train_groups, weights, random, inverse_strengths
        )
        calibration_line = Calibration.fit_line(choice.held_out_log_odds, train_end, weights)
        # The probability of each end, given its label, that it is a true one.
        p_true = calibration_line.label_truth_probability(choice.held_out_log_odds)
        end_weights = np.where(train_end, np.maximum(p_true, MIN_END_WEIGHT), 1)
        regression = regress(
            train_states, train_end, weights * end_weights, choice.inverse_strength
        )
        log_odds[is_held_out] = regression.log_odds(states[is_held_out])
        on_fold()
    return log_odds, regression


def _limit_rows(rows: Ints, is_end: Bools, random: np.random.Generator) -> Ints:
    """Returns at most `MAX_TRAINING_BOUNDARIES` of the rows, rising, with as many ends as possible up to one half."""
    if len(rows) <= MAX_TRAINING_BOUNDARIES:
        return rows
    ends, others = random.permutation(rows[is_end[rows]]), random.permutation(rows[~is_end[rows]])
    half = MAX_TRAINING_BOUNDARIES // 2
    end_count = min(len(ends), max(half, MAX_TRAINING_BOUNDARIES - len(others)))
    chosen_others = others[: MAX_TRAINING_BOUNDARIES - end_count]
    return np.sort(np.concatenate([ends[:end_count], chosen_others]))


class _StrengthChoice(NamedTuple):
    """An inverse strength of the regularization, and how it does.

    Attributes:
        loss: Weighted log loss on held-out groups.
        held_out_log_odds: Log-odds of an end at each boundary by a regression that did not see its group.
    """

    loss: float
    inverse_strength: float
    held_out_log_odds: Floats


def _choose_strength(
    states: States,
    is_end: Bools,
    group_ids: Ints,
    weights: Floats,
    random: np.random.Generator,
    inverse_strengths: Sequence[float],
) -> _StrengthChoice:
    """Returns the strength with the least log loss on held-out groups of the training data."""
    fold = assign_folds(group_ids, INNER_FOLDS, random)
    choices: list[_StrengthChoice] = []
    for inverse_strength in inverse_strengths:
        log_odds = np.zeros(len(is_end))
        for held_out_fold in range(INNER_FOLDS):
            train, held_out = fold != held_out_fold, fold == held_out_fold
            # With one label nothing can be trained: log-odds of 0 say nothing for or against an end.
            if len(np.unique(is_end[train])) == 2:
                regression = regress(states[train], is_end[train], weights[train], inverse_strength)
                log_odds[held_out] = regression.log_odds(states[held_out])
        loss = float(weights @ np.logaddexp(0, np.where(is_end, -log_odds, log_odds)))
        choices.append(_StrengthChoice(loss, inverse_strength, log_odds))
    return min(choices, key=lambda choice: choice.loss)


def _as_float32(states: StoredStates) -> States:
    """Returns states as float32, in which regressions compute."""
    return states.astype(np.float32) if states.dtype == np.float16 else cast("States", states)


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression on states that are scaled to unit variance."""

    scale: StandardScaler
    model: LogisticRegression

    def log_odds(self, states: StoredStates) -> Floats:
        """Returns the log-odds of an end at each boundary, shape (boundaries,), computed batch by batch."""
        log_odds = [
            np.asarray(
                self.model.decision_function(self.scale.transform(_as_float32(states[first:last])))
            )
            for first, last in pairwise(
                [*range(0, len(states), MAX_BOUNDARIES_PER_BATCH), len(states)]
            )
        ]
        return np.concatenate(log_odds, dtype=np.float64) if log_odds else np.empty(0)


def regress(states: States, is_end: Bools, weights: Floats, inverse_strength: float) -> Regression:
    """Returns a regression trained so that both classes have equal weight.

    Args:
        states, is_end, weights: Of the boundaries to learn from, shapes (boundaries, dimensions), (boundaries,) and
            (boundaries,).
        inverse_strength: C of scikit-learn.

    Raises:
        ValueError: There is only one label.
    """
    # Imported where it is used: it takes a second, and this module is imported at every start.
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if is_end.all() or not is_end.any():
        raise ValueError("a probe needs ends and other boundaries")
    weight_of_class = np.where(is_end, weights[is_end].sum(), weights[~is_end].sum())
    scale = StandardScaler().fit(states)
    model = LogisticRegression(C=inverse_strength, max_iter=300)
    sample_weights = weights / weight_of_class * len(is_end) / 2
    model.fit(scale.transform(states), is_end, sample_weight=sample_weights)
    return Regression(scale, model)
