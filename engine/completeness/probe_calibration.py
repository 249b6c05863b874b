"""The calibration of the probe: from the log-odds of a regression to the probability of a true end.

A boundary of a conversation has label 1 if it is the last one, and label 0 otherwise. Some conversations broke off, so
their last boundary has label 1 and is no true end; how many is estimated here. Groups are conversations that are nearly
equal: the boundaries of a group are never on both sides of a division into folds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from engine.base.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from sklearn.isotonic import IsotonicRegression


FOLDS = 5
"""Number of folds into which groups are divided."""

SEED = 20_261_122
"""Seed of everything that is drawn at random, so that equal logs give equal scores."""

MIN_PROBABILITY = 1e-4
"""Smallest probability and, from 1, largest one: a few hundred conversations cannot show more certainty."""

MAX_LOG_ODDS = 30.0
"""Bound of log-odds before the exponential is taken."""

MAX_SLOPE = 50.0
"""Largest slope of the line, on log-odds scaled to a standard deviation of 1."""

START_SHARES = (0.0, 0.3)
"""Shares of broken conversations from each of which the fit of the line starts once; the better fit counts."""

LINE_SHARE = 0.05
"""Share of the line in a probability that is made of it and of the isotonic regression."""

MIN_STANDARD_DEVIATION = 1e-9
"""Least standard deviation by which log-odds are divided, where all of them are equal."""

MIN_ODDS = 1e-12
"""Least odds, or a number added to them, where something is divided by odds that may be 0."""

MAX_BOUNDARIES = 20_000
"""Largest number of boundaries that a calibration is fitted to; of more, some are drawn."""

MAX_BROKEN_SHARE = 0.9
"""Largest share of broken conversations that is considered; with more, ends are not told from others."""


def assign_folds(group_ids: Ints, folds: int, random: np.random.Generator) -> Ints:
    """Returns a fold for each boundary, the same for all of a group; folds differ by at most one group.

    Args:
        group_ids: Group of each boundary, shape (boundaries,).
        folds: Number of folds.

    Returns:
        Numbers in `range(folds)`, shape (boundaries,).

    Raises:
        ValueError: There are fewer groups than folds.
    """
    names, index = np.unique(group_ids, return_inverse=True)
    if len(names) < folds:
        raise ValueError(f"{len(names)} groups cannot be divided into {folds} folds")
    return np.asarray(random.permutation(len(names)) % folds)[index]


def even_weights(is_end: Bools, group_ids: Ints) -> Floats:
    """Returns weights with which ends and other boundaries weigh one half each, as in the truncation test.

    Every end weighs the same, and the other boundaries of a group together as much as its ends (as one end where it has
    none), so that a long conversation counts no more than a short one. Where all labels are equal they weigh one half.

    Args:
        is_end: Label of each boundary, shape (boundaries,).
        group_ids: Group of each boundary, shape (boundaries,).

    Returns:
        Shape (boundaries,).
    """
    _, index = np.unique(group_ids, return_inverse=True)
    end_counts = np.bincount(index, is_end)
    other_counts = np.bincount(index, ~is_end)
    # A group may lack a label: one without ends counts as if it had one; one without others has none to weigh.
    share_of_other = (np.maximum(end_counts, 1) / np.maximum(other_counts, 1))[index]
    weights = np.where(is_end, 1.0, share_of_other)
    class_weights = np.where(is_end, weights[is_end].sum(), weights[~is_end].sum())
    return np.asarray(weights / class_weights / 2)


def log_loss(p: Floats, is_end: Bools, group_ids: Ints) -> float:
    """Returns the evenly weighted log loss of held-out boundaries; all have shape (boundaries,)."""
    weights = even_weights(is_end, group_ids)
    return float(-weights @ np.log(np.where(is_end, p, 1 - p)))


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns log-odds into probabilities: Platt's line, or isotonic regression where that fits better.

    Of the boundaries with label 1, a share `broken` is no true end and looks like those with label 0. At even weights
    of both labels the density of label 1 is `(1 - broken) * true ends + broken * others`; divided by the density of
    the others, these are the odds of label 1: `(1 - broken) * L + broken`, where L are the odds of a true end. The line
    gives log L; it and `broken` are fitted together by maximum likelihood.

    Attributes:
        slope, intercept: Of the line on log-odds (Platt 1999, "Probabilistic outputs for support vector machines").
        broken: Estimated share of label 1 that is no true end.
        isotonic: The isotonic regression in place of the line; None if the line has the lower held-out log loss.
    """

    slope: float
    intercept: float
    broken: float
    isotonic: IsotonicRegression | None = None

    @classmethod
    def fit(cls, log_odds: Floats, is_end: Bools, group_ids: Ints) -> Calibration:
        """Returns the calibration with the lower log loss on held-out groups, fitted to all boundaries.

        Args:
            log_odds: Log-odds of an end at each boundary, shape (boundaries,).
            is_end: Label of each boundary, shape (boundaries,).
            group_ids: Group of each boundary, shape (boundaries,).

        Raises:
            ValueError: There are fewer groups than folds.
        """
        random = np.random.default_rng(SEED)
        if len(is_end) > MAX_BOUNDARIES:
            rows = np.sort(random.choice(len(is_end), MAX_BOUNDARIES, replace=False))
            log_odds, is_end, group_ids = log_odds[rows], is_end[rows], group_ids[rows]
        fold = assign_folds(group_ids, FOLDS, random)
        losses = np.zeros(2)
        for held_out_fold in range(FOLDS):
            training, held_out = fold != held_out_fold, fold == held_out_fold
            # Nothing can be fitted to one label; both ways lose this fold.
            if len(np.unique(is_end[training])) < 2:
                continue
            both = cls._fit_both(log_odds[training], is_end[training], group_ids[training])
            for way, calibration in enumerate(both):
                p_label = calibration.label_probability(log_odds[held_out])
                losses[way] += log_loss(p_label, is_end[held_out], group_ids[held_out])
        return cls._fit_both(log_odds, is_end, group_ids)[int(losses.argmin())]

    @classmethod
    def _fit_both(
        cls, log_odds: Floats, is_end: Bools, group_ids: Ints
    ) -> tuple[Calibration, Calibration]:
        """Returns the calibrations by the line and by isotonic regression, fitted to all these boundaries.

        The arrays have shape (boundaries,).
        """
        from sklearn.isotonic import IsotonicRegression

        weights = even_weights(is_end, group_ids)
        line = cls.fit_line(log_odds, is_end, weights)
        isotonic_fit = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        isotonic_fit.fit(log_odds, is_end, sample_weight=weights)
        return line, replace(line, isotonic=isotonic_fit)

    @classmethod
    def fit_line(cls, log_odds: Floats, is_end: Bools, weights: Floats) -> Calibration:
        """Returns the calibration by the line, fitted to weighted labels; all arguments have shape (boundaries,)."""
        from scipy.optimize import minimize

        # With a standard deviation of 1, one pair of bounds and starts fits all log-odds.
        scale = max(float(log_odds.std()), MIN_STANDARD_DEVIATION)
        end_log_odds, other_log_odds = log_odds[is_end] / scale, log_odds[~is_end] / scale
        end_weights, other_weights = weights[is_end], weights[~is_end]

        def loss(parameters: Floats) -> tuple[float, Floats]:
            """Returns minus the weighted log-likelihood of the labels, and its gradient.

            Of odds o, label 1 has probability o / (1 + o).

            Args:
                parameters: Slope, intercept and `broken`, shape (3,).
            """
            slope, intercept, broken = parameters
            total, gradient = 0.0, np.zeros(3)
            for part, part_weights, sign in (
                (end_log_odds, end_weights, -1),
                (other_log_odds, other_weights, 1),
            ):
                true_odds = np.exp((slope * part + intercept).clip(-MAX_LOG_ODDS, MAX_LOG_ODDS))
                odds = np.maximum((1 - broken) * true_odds + broken, MIN_ODDS)
                # log(1 + 1 / o) for an end, log(1 + o) for another, and their derivatives by o.
                total += float(part_weights @ np.log1p(odds**sign))
                by_odds = part_weights * sign / (1 + odds) / (odds if sign < 0 else 1)
                by_line = by_odds * (1 - broken) * true_odds
                gradient += by_line @ part, by_line.sum(), by_odds @ (1 - true_odds)
            return total, gradient

        bounds = [(0, MAX_SLOPE), (-MAX_LOG_ODDS, MAX_LOG_ODDS), (0, MAX_BROKEN_SHARE)]
        # From two starts: at `broken` = 0 the optimizer may stay although a larger share fits better with another line.
        optima = [
            minimize(loss, [1, 0, broken], jac=True, bounds=bounds) for broken in START_SHARES
        ]
        slope, intercept, broken = min(optima, key=lambda optimum: float(optimum.fun)).x.tolist()
        return cls(slope / scale, intercept, broken)

    def true_end_probability(self, log_odds: Floats) -> Floats:
        """Returns the probability of a true end at each boundary, within `[MIN_PROBABILITY, 1 - MIN_PROBABILITY]`.

        Args:
            log_odds: Log-odds of an end at each boundary, as a regression gives them; shape (boundaries,).
        """
        odds = self._true_end_odds(log_odds)
        return np.asarray(odds / (1 + odds)).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)

    def label_probability(self, log_odds: Floats) -> Floats:
        """Returns the probability of label 1 at each boundary, whether the label is true or not.

        Takes and returns shape (boundaries,).
        """
        odds = (1 - self.broken) * self._true_end_odds(log_odds) + self.broken
        return np.asarray(odds / (1 + odds)).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)

    def label_truth_probability(self, log_odds: Floats) -> Floats:
        """Returns the probability that a boundary is a true end, given that it has label 1.

        Takes and returns shape (boundaries,).
        """
        odds = (1 - self.broken) * self._true_end_odds(log_odds)
        return np.asarray(odds / (odds + self.broken + MIN_ODDS))

    def _true_end_odds(self, log_odds: Floats) -> Floats:
        """Returns the odds of a true end at each boundary, at even weights of true ends and others.

        Takes and returns shape (boundaries,).
        """
        line = self.slope * log_odds + self.intercept
        odds: Floats = np.exp(line.clip(-MAX_LOG_ODDS, MAX_LOG_ODDS))
        if self.isotonic is not None and len(odds):
            # The regression gives the probability of label 1: the formula of the class, solved for L.
            p_label = self.isotonic.predict(log_odds).clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
            isotonic_odds = np.maximum(p_label / (1 - p_label) - self.broken, 0) / (1 - self.broken)
            # A little of the line keeps the order of boundaries to which the isotonic regression gives one value.
            isotonic_part = (1 - LINE_SHARE) * isotonic_odds / (1 + isotonic_odds)
            line_part = LINE_SHARE * odds / (1 + odds)
            p_true_end = isotonic_part + line_part
            odds = p_true_end / (1 - p_true_end)
        return odds
