"""The probe: a logistic regression on words or hidden states at the boundaries of a project's own conversations.

It learns from the logs alone. The last boundary of a conversation is an end (label 1), its others are not (label 0), as
in the truncation test. No conversation is scored by a regression that saw it: the conversations are divided into folds,
and each fold is scored by the regression that was trained on the others (cross-fitting, Chernozhukov et al. 2018,
"Double/debiased machine learning", Econometrics Journal 21). This is repeated with other folds; the mean is the score,
and the spread between the repeats is its noise. Only the calibration, a rising curve from log-odds to probabilities, is
fitted to all of them.

Some conversations broke off, so some labels 1 are wrong, while the labels 0 are right: the ends are a mixture of true
ends and of boundaries like the others. The share of the latter is estimated together with the calibration
(`engine.completeness.probe_calibration`), and each end weighs in training as much as it is likely to be a true one.
Both follow Elkan & Noto 2008, "Learning classifiers from only positive and unlabeled data" (KDD), with the two classes
exchanged; the mixture is that of Menon et al. 2015, "Learning from corrupted binary labels via class-probability
estimation" (ICML).

`cross_fit` scores the conversations of a project; `fit` makes one probe of all of them for conversations that come
later; `stack` joins the scores of two kinds of features (Wolpert 1992, "Stacked generalization").

Linear probes on hidden states: Alain & Bengio 2016, "Understanding intermediate layers using linear classifier probes".
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from engine.base.arrays import Bools, Floats, Ints
from engine.completeness.probe_calibration import (
    FOLDS,
    MIN_STANDARD_DEVIATION,
    SEED,
    Calibration,
    assign_folds,
    even_weights,
)
from engine.completeness.regression import (
    Features,
    Regression,
    States,
    StoredStates,
    fit_regression,
)
from engine.completeness.words import BoundaryWords

VERSION = 4
"""Version of the way to fit; part of the config hash of the scores."""

REPEATS = 3
"""Number of cross-fittings, each with other folds."""

STEPS = FOLDS * REPEATS
"""How often `cross_fit` reports progress."""

INNER_FOLDS = 3
"""Number of folds of the training data in which the regularization is chosen."""

INVERSE_STRENGTHS = (1e-3, 1e-2)
"""Inverse strengths of the regularization (C of scikit-learn) to choose from, on hidden states."""

INVERSE_STRENGTHS_OF_WORDS = (0.05,)
"""Inverse strength of the regularization (C of scikit-learn) on words; between .03 and .1 nothing changes
(docs/lab/words.md)."""

MAX_CONVERSATIONS = 20_000
"""Largest number of conversations that a probe learns from and is tested on. Of more, this many are drawn at random;
docs/lab/scale.md says why these are enough."""

MAX_TRAINING_BOUNDARIES = 4_000
"""Largest number of boundaries that one regression is trained on; more change the scores little and take long."""

MIN_END_WEIGHT = 0.02
"""Smallest weight of an end in training, so that a bad first fit cannot drop it for good."""

OnFold = Callable[[], None]
"""Is called after each fold of each repeat; may raise to cancel."""


def sample_conversations(ids: Sequence[int], preferred: Container[int] = ()) -> list[int]:
    """Returns at most `MAX_CONVERSATIONS` of some conversations, given by their ids, in their order.

    Those that are in `preferred` are taken before others; of too many, some are drawn at random with a fixed seed.
    """
    if len(ids) <= MAX_CONVERSATIONS:
        return list(ids)
    preferred_indices = [index for index, key in enumerate(ids) if key in preferred]
    other_indices = [index for index, key in enumerate(ids) if key not in preferred]
    random = np.random.default_rng(SEED)
    if len(preferred_indices) > MAX_CONVERSATIONS:
        preferred_indices = random.choice(
            preferred_indices, MAX_CONVERSATIONS, replace=False
        ).tolist()
    places_left = MAX_CONVERSATIONS - len(preferred_indices)
    drawn = (
        random.choice(other_indices, places_left, replace=False).tolist() if other_indices else []
    )
    return [ids[index] for index in sorted([*preferred_indices, *drawn])]


# Cross-fitting


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Scores of every boundary by regressions that did not see its conversation.

    Attributes:
        log_odds: By the regression of each repeat, shape (`REPEATS`, boundaries).
        calibration: Turns log-odds into probabilities; fitted to all boundaries.
        folds: The fold of each boundary in each repeat, shape (`REPEATS`, boundaries).
        regressions: The regression that scored each fold of each repeat, by repeat and fold; none in a `Stack`.
    """

    log_odds: Floats
    calibration: Calibration
    folds: NDArray[np.int8]
    regressions: tuple[tuple[Regression, ...], ...]

    @property
    def p(self) -> Floats:
        """Probability that each boundary is a true end, at even odds of a whole conversation and the same one cut at
        random, calibrated; shape (boundaries,)."""
        return self.calibration.true_end_probability(self.log_odds.mean(axis=0))

    @property
    def spread(self) -> Floats:
        """Standard deviation of `p` between the repeats, shape (boundaries,)."""
        p_by_repeat = [self.calibration.true_end_probability(row) for row in self.log_odds]
        return np.asarray(np.std(p_by_repeat, axis=0))

    def at(self, rows: Ints) -> CrossFit:
        """Returns the cross-fitting with the scores of some of the boundaries only, given by their indices."""
        return replace(self, log_odds=self.log_odds[:, rows], folds=self.folds[:, rows])

    def unseen_log_odds(self, features: Features) -> Floats:
        """Returns the log-odds of an end at boundaries of conversations that were not learned from.

        They are the mean of those by one regression of each repeat, shape (boundaries,).

        Args:
            features: What is read at these boundaries.
        """
        # any regression of a repeat would do, since none learned from these: the last, as `WordWeights.folds` says
        last = [regressions[-1] for regressions in self.regressions]
        mean = Regression(
            np.mean([regression.weights for regression in last], axis=0),
            float(np.mean([regression.intercept for regression in last])),
            np.mean([regression.absent for regression in last], axis=0),
        )
        return mean.log_odds(features)

    def score_unseen(self, features: Features) -> Floats:
        """Returns the probability of an end at boundaries of conversations that were not learned from, shape
        (boundaries,); see `unseen_log_odds`."""
        return self.calibration.true_end_probability(self.unseen_log_odds(features))


def cross_fit(
    features: Features,
    is_end: Bools,
    group_ids: Ints,
    on_fold: OnFold = lambda: None,
    inverse_strengths: Sequence[float] = INVERSE_STRENGTHS,
    calibrated: Bools | slice = slice(None),
) -> CrossFit:
    """Scores every boundary by regressions that never saw its group; the calibration is fitted to all.

    On states the regressions are fitted side by side, one on each core; on words one after another, because liblinear
    cannot do otherwise (`engine.completeness.regression`).

    Args:
        features: Words, or hidden states of shape (boundaries, dimensions); float16 is computed with as float32.
        is_end: Label of each boundary, shape (boundaries,).
        group_ids: Group of each boundary, shape (boundaries,): boundaries of one conversation, and of conversations
            nearly equal to it, share one.
        on_fold: Called after each fold of each repeat; may raise to cancel.
        inverse_strengths: Inverse strengths of the regularization to choose from.
        calibrated: Whether the calibration is fitted to each boundary, shape (boundaries,).

    Raises:
        ValueError: There are fewer groups than folds, or only one label.
    """
    randoms = [np.random.default_rng(SEED + repeat) for repeat in range(REPEATS)]
    folds = np.array([assign_folds(group_ids, FOLDS, random) for random in randoms], dtype=np.int8)
    log_odds = np.empty((REPEATS, len(is_end)))
    fitted: dict[tuple[int, int], Regression] = {}

    def fit_fold(repeat: int, fold: int) -> None:
        """Fits the regression of a fold to the other folds, and scores the fold with it."""
        random = np.random.default_rng([SEED, repeat, fold])
        rows = _limit_rows(np.flatnonzero(folds[repeat] != fold), is_end, random)
        regression = _fit_twice(
            _as_float32(features[rows]), is_end[rows], group_ids[rows], random, inverse_strengths
        )
        held_out = np.flatnonzero(folds[repeat] == fold)
        log_odds[repeat, held_out] = regression.log_odds(features, held_out)
        fitted[repeat, fold] = regression

    with _quiet_fits():
        _on_all_cores(fit_fold, on_fold)
        calibration = Calibration.fit(
            log_odds.mean(axis=0)[calibrated], is_end[calibrated], group_ids[calibrated]
        )
    regressions = tuple(
        tuple(fitted[repeat, fold] for fold in range(FOLDS)) for repeat in range(REPEATS)
    )
    return CrossFit(log_odds, calibration, folds, regressions)


@contextmanager
def _quiet_fits() -> Iterator[None]:
    """Lets each fit of the block use one thread, and silences its warnings."""
    # Matrices this small are slower on several threads, and their number would change the last digits of the scores.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # A fit that has not converged, and one on few ends, warn in several ways; neither decides anything.
        warnings.simplefilter("ignore")
        yield


def _on_all_cores(fit_fold: Callable[[int, int], None], on_fold: OnFold) -> None:
    """Fits each fold of each repeat, given by their numbers, on as many threads as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        places = product(range(REPEATS), range(FOLDS))
        futures = [threads.submit(fit_fold, *place) for place in places]
        try:
            for future in as_completed(futures):
                future.result()
                on_fold()
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _limit_rows(rows: Ints, is_end: Bools, random: np.random.Generator) -> Ints:
    """Returns at most `MAX_TRAINING_BOUNDARIES` of the rows, which rise, in their order. Of too many, half are ends;
    where there are too few ends or too few others, the rest are of the other kind."""
    if len(rows) <= MAX_TRAINING_BOUNDARIES:
        return rows
    ends, others = random.permutation(rows[is_end[rows]]), random.permutation(rows[~is_end[rows]])
    half = MAX_TRAINING_BOUNDARIES // 2
    end_count = min(len(ends), max(half, MAX_TRAINING_BOUNDARIES - len(others)))
    chosen_others = others[: MAX_TRAINING_BOUNDARIES - end_count]
    return np.sort(np.concatenate([ends[:end_count], chosen_others]))


def _as_float32(features: Features) -> Features:
    """Returns states as float32, in which regressions compute; words as they are."""
    return features if isinstance(features, BoundaryWords) else features.astype(np.float32)


def _fit_twice(
    features: Features,
    is_end: Bools,
    group_ids: Ints,
    random: np.random.Generator,
    inverse_strengths: Sequence[float],
) -> Regression:
    """Returns a regression with each end weighed by the probability that it is a true one.

    This probability is known from a first fit: from the log-odds of held-out parts of the same boundaries.

    Args:
        features, is_end, group_ids: As `cross_fit` takes them, of the boundaries to learn from.
    """
    weights = even_weights(is_end, group_ids)
    choice = _choose_strength(features, is_end, group_ids, weights, random, inverse_strengths)
    line = Calibration.fit_line(choice.held_out_log_odds, is_end, weights)
    # The probability of each end, given its label, that it is a true one.
    p_true = line.label_truth_probability(choice.held_out_log_odds)
    end_weights = np.where(is_end, np.maximum(p_true, MIN_END_WEIGHT), 1)
    return fit_regression(features, is_end, weights * end_weights, choice.inverse_strength)


class _StrengthChoice(NamedTuple):
    """An inverse strength of the regularization, and how well a regression with it predicts held-out groups.

    Attributes:
        loss: Weighted log loss on held-out groups.
        inverse_strength: C of scikit-learn.
        held_out_log_odds: Log-odds of an end at each boundary by a regression that did not see its group.
    """

    loss: float
    inverse_strength: float
    held_out_log_odds: Floats


def _choose_strength(
    features: Features,
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
            seen, held_out = fold != held_out_fold, fold == held_out_fold
            # With one label nothing can be trained: log-odds of 0 say nothing for or against an end.
            if len(np.unique(is_end[seen])) == 2:
                regression = fit_regression(
                    features[seen], is_end[seen], weights[seen], inverse_strength
                )
                log_odds[held_out] = regression.log_odds(features[held_out])
        loss = float(weights @ np.logaddexp(0, np.where(is_end, -log_odds, log_odds)))
        choices.append(_StrengthChoice(loss, inverse_strength, log_odds))
    return min(choices, key=lambda choice: choice.loss)


# Joining two probes


@dataclass(frozen=True, slots=True)
class Stack:
    """Scores from the weighted sum of the log-odds of two probes; the weights are found by cross-fitting.

    Attributes:
        joined: The log-odds and the calibration of the sum; it has no regressions of its own.
        weights: Weights of the two log-odds for boundaries that were not learned from, shape (2,).
        weights_of_rows: Weights with which each boundary was scored, shape (boundaries, 2).
    """

    joined: CrossFit
    weights: Floats
    weights_of_rows: Floats

    def score_unseen(self, first: Floats, second: Floats) -> Floats:
        """Returns the probability of an end, given the log-odds by both probes; all of shape (boundaries,)."""
        both = np.column_stack([first, second])
        return self.joined.calibration.true_end_probability(both @ self.weights)


def stack(first: CrossFit, second: CrossFit, is_end: Bools, group_ids: Ints) -> Stack:
    """Joins two cross-fittings of the same boundaries by a logistic regression on their log-odds.

    Its weights are not negative, and those with which a group is scored are found on others.

    Args:
        is_end: Label of each boundary, shape (boundaries,).
        group_ids: As `cross_fit` takes them.
    """
    both = np.stack([first.log_odds, second.log_odds], axis=-1)
    mean = both.mean(axis=0)
    fold = assign_folds(group_ids, FOLDS, np.random.default_rng(SEED))
    weights = np.empty(mean.shape)
    with _quiet_fits():
        for held_out in range(FOLDS):
            seen = fold != held_out
            weights[~seen] = _stack_weights(mean[seen], is_end[seen], group_ids[seen])
        log_odds = (both * weights).sum(axis=-1)
        calibration = Calibration.fit(log_odds.mean(axis=0), is_end, group_ids)
        weights_of_unseen = _stack_weights(mean, is_end, group_ids)
    joined = replace(first, log_odds=log_odds, calibration=calibration, regressions=())
    return Stack(joined, weights_of_unseen, weights)


def _stack_weights(log_odds: Floats, is_end: Bools, group_ids: Ints) -> Floats:
    """Returns the weight of each of two log-odds, shape (2,), at least 0, by maximum likelihood.

    Args:
        log_odds: Shape (boundaries, 2).
    """
    from scipy.optimize import minimize

    weights, sign = even_weights(is_end, group_ids), np.where(is_end, 1, -1)
    scale = np.maximum(log_odds.std(axis=0), MIN_STANDARD_DEVIATION)
    scaled = log_odds / scale

    def loss(line: Floats) -> tuple[float, Floats]:
        """Returns the weighted log loss of two weights and an intercept, and its gradient."""
        margin = sign * (scaled @ line[:2] + line[2])
        slope = -weights * sign * np.exp(-np.logaddexp(0, margin))
        gradient = np.append(slope @ scaled, slope.sum())
        return float(weights @ np.logaddexp(0, -margin)), gradient

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(loss, [0.5, 0.5, 0.0], jac=True, bounds=bounds).x[:2]
    return np.asarray(best / scale)


# One probe fitted to all


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe fitted to all conversations, for boundaries that come later."""

    regression: Regression
    calibration: Calibration

    def p(self, states: StoredStates) -> Floats:
        """Returns the probability of an end at each boundary, shape (boundaries,)."""
        return self.calibration.true_end_probability(self.regression.log_odds(states))


def fit(states: States, is_end: Bools, group_ids: Ints) -> Probe:
    """Returns a probe fitted to every boundary, or to `MAX_TRAINING_BOUNDARIES` of them where there are more.

    All ends weigh the same here, whether they are likely to be true ones or not. The calibration is fitted to the
    log-odds of held-out groups.

    Args:
        states, is_end, group_ids: As `cross_fit` takes them.

    Raises:
        ValueError: There are fewer groups than folds, or only one label.
    """
    random = np.random.default_rng(SEED)
    rows = _limit_rows(np.arange(len(is_end)), is_end, random)
    states, is_end, group_ids = states[rows], is_end[rows], group_ids[rows]
    weights = even_weights(is_end, group_ids)
    with _quiet_fits():
        choice = _choose_strength(states, is_end, group_ids, weights, random, INVERSE_STRENGTHS)
        regression = fit_regression(states, is_end, weights, choice.inverse_strength)
        calibration = Calibration.fit(choice.held_out_log_odds, is_end, group_ids)
    return Probe(regression, calibration)
