"""The probe: a logistic regression on the hidden states at the boundaries of a project's own conversations.

It learns from the logs alone. The last boundary of a conversation is an end (label 1), its others are not (label 0), as
in the truncation test. No conversation is scored by a regression that saw it: the conversations are divided into folds,
and each fold is scored by the regression that was trained on the others (cross-fitting, Chernozhukov et al. 2018,
"Double/debiased machine learning", Econometrics Journal 21). This is repeated with other folds; the mean is the score,
and the spread between the repeats is its noise.

Some conversations broke off, so some labels 1 are wrong, while the labels 0 are right: the ends are a mixture of true
ends and of boundaries like the others. The share of the latter is estimated together with the calibration
(`Calibration`), and each end weighs in training as much as it is likely to be a true one. Both follow Elkan & Noto
2008, "Learning classifiers from only positive and unlabeled data" (KDD), with the two classes exchanged; the mixture is
that of Menon et al. 2015, "Learning from corrupted binary labels via class-probability estimation" (ICML).

Linear probes on hidden states: Alain & Bengio 2016, "Understanding intermediate layers using linear classifier probes".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]
States = NDArray[np.float32]
StoredStates = NDArray[np.float32] | NDArray[np.float16]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

VERSION = 2
"""Version of the way to fit; part of the config hash of the scores."""

FOLDS = 5
REPEATS = 3
INNER_FOLDS = 3
STRENGTHS = (1e-3, 1e-2)
"""Inverse strengths of the regularisation (C of scikit-learn) to choose from."""

MOST = 20_000
"""Most conversations that a probe learns from and is tested on. Of more, this many are drawn at random;
docs/lab/scale.md says why these are enough."""

MOST_ROWS = 4_000
"""Boundaries that one regression is trained on at most; more change the scores little and take long."""

AT_ONCE = 200_000
"""Boundaries that are scored at once, which bounds the memory."""

SEED = 20_261_122
STEPS = FOLDS * REPEATS
"""How often `cross_fit` reports progress."""

OnFold = Callable[[], None]


def drawn(ids: Sequence[int], first: Container[int] = ()) -> list[int]:
    """At most `MOST` of some conversations, in their order: those that are in `first` (a set, or a mapping), then
    others, drawn at random with a fixed seed."""
    if len(ids) <= MOST:
        return list(ids)
    wanted = [at for at, key in enumerate(ids) if key in first]
    others = [at for at, key in enumerate(ids) if key not in first]
    random = np.random.default_rng(SEED)
    if len(wanted) > MOST:
        wanted = random.choice(wanted, MOST, replace=False).tolist()
    chosen = random.choice(others, MOST - len(wanted), replace=False).tolist() if others else []
    return [ids[at] for at in sorted([*wanted, *chosen])]


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Scores of every boundary by regressions that did not see its conversation.

    Attributes:
        p: Probability that this is a true end, at even odds of a whole conversation and the same one cut at random,
            calibrated; shape (boundaries,).
        spread: Standard deviation of `p` between the repeats; shape (boundaries,).
        calibration: From log-odds to `p`.
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

    def of_others(self, states: StoredStates) -> Floats:
        """Probability of an end at boundaries of conversations that were not learned from, by one regression of each
        repeat.

        Args:
            states: Shape (boundaries, dimensions); float16 is converted to float32.

        Returns:
            Shape (boundaries,).
        """
        with threadpool_limits(limits=1):
            values = [regression.log_odds(states) for regression in self.regressions]
        return self.calibration.p(np.mean(values, axis=0))


def cross_fit(
    states: StoredStates,
    end: Bools,
    group: Ints,
    on_fold: OnFold = lambda: None,
    strengths: Sequence[float] = STRENGTHS,
    learn: Bools | None = None,
) -> CrossFit:
    """Scores every boundary by a probe that never saw its group.

    Args:
        states: Hidden states, shape (boundaries, dimensions); float16 is computed with as float32.
        end: Label of each boundary, shape (boundaries,).
        group: Group of each boundary, shape (boundaries,): boundaries of one conversation, and of conversations nearly
            equal to it, share one.
        on_fold: Called after each fold of each repeat; may raise to cancel.
        strengths: Inverse strengths of the regularisation to choose from.
        learn: The boundaries to learn from, all of them by default; the labels of the others are not looked at.

    Raises:
        ValueError: There are fewer groups to learn from than folds, or only one label.
    """
    from sklearn.exceptions import ConvergenceWarning

    learn = np.ones(len(end), dtype=bool) if learn is None else learn
    # One thread: matrices this small are slower on several, and the number of cores would change the last digits.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # the last digits of a weight decide nothing
        values = np.empty((REPEATS, len(end)))
        regressions = []
        for repeat in range(REPEATS):
            random = np.random.default_rng(SEED + repeat)
            values[repeat], regression = _one_repeat(
                states, end, group, learn, random, strengths, on_fold
            )
            regressions.append(regression)
        mean = values.mean(axis=0)
        calibration = Calibration.of(mean[learn], end[learn], group[learn])
    p = np.stack([calibration.p(row) for row in values])
    return CrossFit(calibration.p(mean), p.std(axis=0), calibration, tuple(regressions))


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
        """Probability of an end at each boundary, shape (boundaries,)."""
        return self.calibration.p(
            np.asarray(states @ self.weights + self.intercept, dtype=np.float64)
        )


def fit(states: States, end: Bools, group: Ints) -> Probe:
    """Fits a probe to every boundary; its calibration is that of held-out groups.

    Args:
        states, end, group: As `cross_fit` takes them.

    Raises:
        ValueError: There are fewer groups than folds, or only one label.
    """
    random = np.random.default_rng(SEED)
    rows = _rows(np.arange(len(end)), end, random)
    states, end, group = states[rows], end[rows], group[rows]
    weight = even_weights(end, group)
    # What the regression says at the origin and at each unit vector gives its weights on raw states.
    units = np.vstack([np.zeros(states.shape[1]), np.eye(states.shape[1])]).astype(np.float32)
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strength, held_out = _strength(states, end, group, weight, random, STRENGTHS)
        values = regress(states, end, weight, strength).log_odds(units)
        calibration = Calibration.of(held_out, end, group)
    weights = (values[1:] - values[0]).astype(np.float32)
    return Probe(weights, float(values[0]), calibration)


def _one_repeat(
    states: StoredStates,
    end: Bools,
    group: Ints,
    learn: Bools,
    random: np.random.Generator,
    strengths: Sequence[float],
    on_fold: OnFold,
) -> tuple[Floats, Regression]:
    """Log-odds of all boundaries, each by a regression that was trained on other folds; and the last regression."""
    fold = np.full(len(end), FOLDS)
    fold[learn] = _folds(group[learn], FOLDS, random)
    # Boundaries that no fit uses stand in the fold of their group; without one, any regression may score them.
    names, first = np.unique(group[learn], return_index=True)
    of_group = dict(zip(names.tolist(), fold[learn][first].tolist(), strict=True))
    fold[~learn] = [of_group.get(name, name % FOLDS) for name in group[~learn].tolist()]
    values = np.empty(len(end))
    for number in range(FOLDS):
        train = _rows(np.flatnonzero(learn & (fold != number)), end, random)
        known = _computable(states[train]), end[train]
        weight = even_weights(end[train], group[train])
        strength, held_out = _strength(*known, group[train], weight, random, strengths)
        line = Calibration.line(held_out, end[train], weight)
        true = np.where(end[train], np.maximum(line.p_true(held_out), LEAST_WEIGHT), 1)
        regression = regress(*known, weight * true, strength)
        values[fold == number] = regression.log_odds(states[fold == number])
        on_fold()
    return values, regression


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
    weight: Floats,
    random: np.random.Generator,
    strengths: Sequence[float],
) -> tuple[float, Floats]:
    """The strength with the least log loss on held-out groups of the training data, and its held-out log-odds."""
    fold = _folds(group, INNER_FOLDS, random)
    found: list[tuple[float, float, Floats]] = []
    for strength in strengths:
        values = np.zeros(len(end))
        for number in range(INNER_FOLDS):
            kept, held = fold != number, fold == number
            if len(np.unique(end[kept])) == 2:
                regression = regress(states[kept], end[kept], weight[kept], strength)
                values[held] = regression.log_odds(states[held])
        loss = float(weight @ np.logaddexp(0, np.where(end, -values, values)))
        found.append((loss, strength, values))
    _, strength, values = min(found, key=lambda each: each[0])
    return strength, values


def _computable(states: StoredStates) -> States:
    return states.astype(np.float32) if states.dtype == np.float16 else cast("States", states)


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression on states that are scaled to unit variance."""

    scale: StandardScaler
    model: LogisticRegression

    def log_odds(self, states: StoredStates) -> Floats:
        """Log-odds of an end at each boundary, shape (boundaries,); computes with `AT_ONCE` states at a time."""
        found = [
            np.asarray(
                self.model.decision_function(self.scale.transform(_computable(states[first:last])))
            )
            for first, last in pairwise([*range(0, len(states), AT_ONCE), len(states)])
        ]
        return np.concatenate(found, dtype=np.float64) if found else np.empty(0)


def regress(states: States, end: Bools, weight: Floats, strength: float) -> Regression:
    """Trains a regression in which both classes have equal weight.

    Args:
        states, end, weight: Of the boundaries to learn from, shapes (boundaries, dimensions), (boundaries,) and
            (boundaries,).
        strength: Inverse strength of the regularisation.

    Raises:
        ValueError: There is only one label.
    """
    # imported where it is used: it takes a second, and this module is imported at every start
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if end.all() or not end.any():
        raise ValueError("a probe needs ends and other boundaries")
    share = np.where(end, weight[end].sum(), weight[~end].sum())
    scale = StandardScaler().fit(states)
    model = LogisticRegression(C=strength, max_iter=300)
    model.fit(scale.transform(states), end, sample_weight=weight / share * len(end) / 2)
    return Regression(scale, model)


def even_weights(end: Bools, group: Ints) -> Floats:
    """Weights with which ends and other boundaries weigh one half each, as in the truncation test.

    Every end weighs the same, and the other boundaries of a group together as much as its ends, so that a long
    conversation counts no more than a short one. A label that is missing has no weight.
    """
    _, index = np.unique(group, return_inverse=True)
    ends = np.bincount(index, end)
    others = np.bincount(index, ~end)
    weight = np.where(end, 1.0, (np.maximum(ends, 1) / np.maximum(others, 1))[index])
    return np.asarray(weight / np.where(end, weight[end].sum(), weight[~end].sum()) / 2)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns log-odds into probabilities: Platt's line, or isotonic regression where that fits better.

    The odds of label 1, at even weights of both labels, are `(1 - broken) * L + broken`, where L are the odds of a true
    end: conversations that broke off have label 1 as often as their boundaries look like the others. The line gives
    log L; it and `broken` are fitted together by maximum likelihood.

    Attributes:
        slope, intercept: Of the line on log-odds (Platt 1999, "Probabilistic outputs for support vector machines").
        broken: Estimated share of label 1 that is no true end.
        steps: The isotonic regression in place of the line; None if the line has the lower held-out log loss.
    """

    slope: float
    intercept: float
    broken: float
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
                found = cls._fit(values[kept], end[kept], group[kept], isotonic)
                label = found.p_label(values[held])
                chance = np.where(end[held], label, 1 - label)
                losses[isotonic] -= float(even_weights(end[held], group[held]) @ np.log(chance))
        return cls._fit(values, end, group, isotonic=losses[True] < losses[False])

    @classmethod
    def _fit(cls, values: Floats, end: Bools, group: Ints, isotonic: bool) -> Calibration:
        from sklearn.isotonic import IsotonicRegression

        weight = even_weights(end, group)
        line = cls.line(values, end, weight)
        if not isotonic:
            return line
        steps = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        return replace(line, steps=steps.fit(values, end, sample_weight=weight))

    @classmethod
    def line(cls, values: Floats, end: Bools, weight: Floats) -> Calibration:
        """The line, fitted to weighted labels."""
        from scipy.optimize import minimize

        width = max(float(values.std()), 1e-9)
        ends, others = values[end] / width, values[~end] / width
        of_ends, of_others = weight[end], weight[~end]

        def loss(found: Floats) -> float:
            slope, intercept, broken = found
            odds = [
                (1 - broken)
                * np.exp((slope * part + intercept).clip(-MOST_LOG_ODDS, MOST_LOG_ODDS))
                + broken
                for part in (ends, others)
            ]
            return float(of_ends @ np.log1p(1 / odds[0]) + of_others @ np.log1p(odds[1]))

        bounds = [(0, 50), (-MOST_LOG_ODDS, MOST_LOG_ODDS), (0, MOST_BROKEN)]
        # From both sides: at 0 the share can be left only along with the line.
        starts = [minimize(loss, [1, 0, start], bounds=bounds) for start in (0.0, 0.3)]
        slope, intercept, broken = min(starts, key=lambda found: float(found.fun)).x.tolist()
        return cls(slope / width, intercept, broken)

    def p(self, values: Floats) -> Floats:
        """Probabilities of a true end by log-odds, within `[NEVER_SURE, 1 - NEVER_SURE]`."""
        odds = self._odds(values)
        return np.asarray(odds / (1 + odds)).clip(NEVER_SURE, 1 - NEVER_SURE)

    def p_label(self, values: Floats) -> Floats:
        """Probabilities of label 1, whether true or not."""
        odds = (1 - self.broken) * self._odds(values) + self.broken
        return np.asarray(odds / (1 + odds)).clip(NEVER_SURE, 1 - NEVER_SURE)

    def p_true(self, values: Floats) -> Floats:
        """Probability that a boundary with label 1 is a true end."""
        odds = (1 - self.broken) * self._odds(values)
        return np.asarray(odds / (odds + self.broken + 1e-12))

    def _odds(self, values: Floats) -> Floats:
        """Odds of a true end, at even weights of true ends and others."""
        line = self.slope * values + self.intercept
        odds: Floats = np.exp(line.clip(-MOST_LOG_ODDS, MOST_LOG_ODDS))
        if self.steps is not None:
            label = self.steps.predict(values).clip(NEVER_SURE, 1 - NEVER_SURE)
            stepped = np.maximum(label / (1 - label) - self.broken, 0) / (1 - self.broken)
            # A little of the line keeps the order of values that share a step.
            p = 0.95 * stepped / (1 + stepped) + 0.05 * odds / (1 + odds)
            odds = p / (1 - p)
        return odds


NEVER_SURE = 1e-4
"""Least and, from 1, largest probability: a few hundred conversations cannot show more certainty."""

MOST_LOG_ODDS = 30.0
"""Bound of log-odds before the exponential is taken."""

MOST_BROKEN = 0.9
"""Largest share of broken conversations that is considered; with more, ends are not told from others."""

LEAST_WEIGHT = 0.02
"""Least weight of an end in training, so that a bad first fit cannot drop it for good."""
