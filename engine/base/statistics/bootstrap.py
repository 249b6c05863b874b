"""How well a value separates two kinds, with intervals from bootstraps of conversations.

Two sets of metrics: `draw` computes those of a classifier at a threshold (`Classification`), `Resampling.rank` those of
an order in which wrong cases should come first (`RANK_FIGURES`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics import ranking
from engine.base.statistics.intervals import Classification, Interval

THRESHOLD = 0.5
"""Default value from which on a classifier says *complete*."""

BINS = 10
"""Number of bins of the calibration error."""

DRAWS = 2_000

MIN_DRAWS = 200
"""Fewest draws, however many groups there are."""

SEED = 20_240_917
"""Seed of the draws, so that equal arguments give equal intervals."""

# Limits of `draw`

_MAX_DRAWN_WEIGHTS = 10_000_000
"""Most bootstrap weights that `draw` draws: of more than 5,000 groups it makes fewer draws, at least `MIN_DRAWS`. The
intervals of so many groups are so narrow that their ends are the same within three thousandths."""

_BLOCK_WEIGHTS = 2_000_000
"""Most bootstrap weights that `draw` has in memory at once, one for each value in each draw."""

NAMES = tuple(field.name for field in fields(Classification))
"""Names of the metrics of a classifier, in the order of arrays: accuracy, precision, recall, f1, auroc, ap, ece."""

_ECE = NAMES.index("ece")
"""Index of the calibration error in arrays."""

# Limits of `Resampling`

_MAX_STORED_WEIGHTS = 40_000_000
"""Most bootstrap weights that a `Resampling` stores, two bytes each."""

_RANK_BLOCK_WEIGHTS = 1_000_000
"""Most bootstrap weights that a `Resampling` draws or ranks at once."""

RANK_FIGURES = ("auroc", "average_precision")
"""Names of the ranking metrics, in the order of arrays.

- `auroc`: area under the ROC curve.
- `average_precision`: precision of finding the wrong cases from the highest score down.
"""


# Classification


def figures(values: Sequence[float], complete: Sequence[bool]) -> dict[str, float]:
    """Returns the metrics of `Classification` by name, without intervals.

    Raises:
        ValueError: One kind is missing, the lengths differ, or a value is not in [0, 1].
    """
    sample = _Sample.of(values, complete, None, THRESHOLD)
    metrics = sample.figures(np.ones((1, sample.group_count)), None)[0]
    return dict(zip(NAMES, map(float, metrics), strict=True))


@dataclass(frozen=True, slots=True)
class BootstrapDraws:
    """All metrics, observed and in each bootstrap draw. The same groups give the same draws, so two scores can be
    paired.

    Attributes:
        observed: Observed metrics in the order of `NAMES`, shape (7,).
        draws: Metrics of each draw, shape (draws, 7).
    """

    observed: Floats
    draws: Floats

    def classification(self) -> Classification:
        """Returns the metrics with their intervals."""
        low, high = np.quantile(self.draws, [0.025, 0.975], axis=0)
        # the basic bootstrap interval, which turns the percentiles around the observed value
        turned = 2 * self.observed[_ECE] - high[_ECE], 2 * self.observed[_ECE] - low[_ECE]
        low[_ECE], high[_ECE] = np.clip(turned, 0.0, 1.0)
        return Classification(
            *(
                Interval(float(value), float(min(bottom, value)), float(max(top, value)))
                for value, bottom, top in zip(self.observed, low, high, strict=True)
            )
        )


def draw(
    values: Sequence[float],
    complete: Sequence[bool],
    groups: Sequence[int] | None = None,
    threshold: float = THRESHOLD,
) -> BootstrapDraws:
    """Returns all metrics, observed and in each bootstrap draw, from which `classification` makes 95% intervals.

    A cluster bootstrap: each draw resamples as many groups (conversations) as there are, with replacement, with all
    their values (Efron & Tibshirani 1993, An Introduction to the Bootstrap).

    Pseudo-observations: with few errors the plain bootstrap gives intervals that are too narrow, and with none an
    interval of width 0. So each draw also has four of them, a complete and an incomplete one above the highest value
    and the same below the lowest, weighted by Gamma(1/2) variables: the Bayesian bootstrap (Rubin 1981, Ann. Stat. 9)
    of a Jeffreys prior.

    Calibration error (ECE): it does without pseudo-observations. Small bins bias it upwards, and the draws twice, so it
    gets the basic bootstrap interval, which subtracts the bias of the draws.

    Measured coverage of the 95% intervals, over 150 samples each of 10, 30 and 100 pairs with weak and strong
    separation: 90% to 99%; of the calibration error 64% to 91%, which stays too large with few pairs. Equal arguments
    give equal intervals.

    Args:
        values: Scores in [0, 1].
        complete: The label of each value.
        groups: Group of each value, resampled together; None makes each value its own group.
        threshold: Value from which on a classifier says *complete*.

    Raises:
        ValueError: One kind is missing, the lengths differ, or a value is not in [0, 1].
    """
    sample = _Sample.of(values, complete, groups, threshold)
    n = sample.group_count
    random = np.random.default_rng(SEED)
    even = np.full(n, 1 / n)
    drawn = []
    remaining = min(DRAWS, max(MIN_DRAWS, _MAX_DRAWN_WEIGHTS // n))
    while remaining:
        block = min(remaining, max(1, _BLOCK_WEIGHTS // max(n, len(sample.values))))
        weights = random.multinomial(n, even, size=block).astype(float)
        drawn.append(sample.figures(weights, random.gamma(0.5, size=(block, 4))))
        remaining -= block
    return BootstrapDraws(sample.figures(np.ones((1, n)), None)[0], np.concatenate(drawn))


@dataclass(frozen=True, slots=True)
class _Sample:
    """Values in ascending order, prepared for computing weighted metrics.

    Attributes:
        values: The values, ascending, shape (values,).
        labels: 1 for each value that is complete, else 0; shape (values,).
        groups: Group of each value, shape (values,).
        group_count: Number of groups.
        starts: Index of the first value of each run of equal values, shape (runs,).
        first_called: Index in `starts` of the first run at or above the threshold; values from there on are called
            complete.
    """

    values: Floats
    labels: Floats
    groups: Ints
    group_count: int
    starts: Ints
    first_called: int

    @classmethod
    def of(
        cls,
        values: Sequence[float],
        complete: Sequence[bool],
        groups: Sequence[int] | None,
        threshold: float,
    ) -> _Sample:
        """Returns the sample of these values; raises ValueError as `draw` does."""
        value, label, group = ranking.as_arrays(values, complete, groups)
        if not label.any() or label.all():
            raise ValueError("Both kinds are needed.")
        if not ((value >= 0) & (value <= 1)).all():
            raise ValueError("Values must be in [0, 1].")
        order = np.argsort(value, kind="stable")
        value, label, group = value[order], label[order], group[order]
        starts = np.flatnonzero(np.append(True, value[1:] != value[:-1]))
        first_called = int(np.searchsorted(value[starts], threshold, "left"))
        return cls(value, label.astype(float), group, int(group.max()) + 1, starts, first_called)

    def figures(self, weights: Floats, pseudo_weights: Floats | None) -> Floats:
        """Returns the metrics of each draw in the order of `NAMES`, shape (draws, 7).

        Args:
            weights: Weight of each group, shape (draws, groups).
            pseudo_weights: Those of the pseudo-observations: a complete and an incomplete one above the highest value,
                then the same below the lowest, shape (draws, 4); None for no pseudo-observations.
        """
        weight = weights[:, self.groups]  # of each value, shape (draws, values)
        if pseudo_weights is None:
            pseudo_weights = np.zeros((len(weights), 4))
        # weights of the complete and of the incomplete values in each run of equal values, shape (draws, runs); then
        # with the pseudo-observations below and above them, shape (draws, runs + 2)
        complete = np.add.reduceat(weight * self.labels, self.starts, axis=1)
        incomplete = np.add.reduceat(weight * (1 - self.labels), self.starts, axis=1)
        complete = np.column_stack([pseudo_weights[:, 2], complete, pseudo_weights[:, 0]])
        incomplete = np.column_stack([pseudo_weights[:, 3], incomplete, pseudo_weights[:, 1]])
        first = 1 + self.first_called  # after the pseudo-observations below the lowest value
        true_positive = complete[:, first:].sum(axis=1)
        false_positive = incomplete[:, first:].sum(axis=1)
        positive, negative = complete.sum(axis=1), incomplete.sum(axis=1)
        return np.column_stack(
            [
                (true_positive + negative - false_positive) / (positive + negative),
                ranking.ratio(true_positive, true_positive + false_positive),
                ranking.ratio(true_positive, positive),
                ranking.ratio(2 * true_positive, positive + true_positive + false_positive),
                ranking.weighted_area(complete, incomplete),
                ranking.average_precision(complete, incomplete),
                self._calibration_error(weight),
            ]
        )

    def _calibration_error(self, weight: Floats) -> Floats:
        """Returns the ECE of each draw, shape (draws,): the mean of |share complete - mean value| over the bins,
        weighted by their weight.

        Args:
            weight: Weight of each value in each draw, shape (draws, values).
        """
        bin_of_value = np.minimum((self.values * BINS).astype(int), BINS - 1)
        _, starts = np.unique(bin_of_value, return_index=True)
        gaps = np.add.reduceat(weight * (self.labels - self.values), starts, axis=1)
        return ranking.ratio(np.abs(gaps).sum(axis=1), weight.sum(axis=1))


# Ranking


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranking metrics of one score, with their bootstrap draws.

    Attributes:
        observed: Observed metrics in the order of `RANK_FIGURES`, shape (2,).
        drawn: Metrics of each draw, shape (draws, 2); NaN where a draw has one class only. None when a class is in
            fewer than `MIN_GROUPS` conversations, where bootstrap intervals are far too narrow.
    """

    observed: Floats
    drawn: Floats | None

    def figure(self, index: int) -> Interval:
        """Returns a metric with its 95% percentile interval; the whole range when `drawn` is None."""
        value = float(self.observed[index])
        if self.drawn is None:
            return Interval(value, 0.0, 1.0)
        return _interval(value, self.drawn[:, index])


def _interval(observed: float, drawn: Floats) -> Interval:
    """Returns an observed value with the 95% percentile interval of its draws."""
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(observed, min(observed, float(low)), max(observed, float(high)))


class Resampling:
    """Bootstrap draws of conversations, shared by all scores over the same cases.

    A cluster bootstrap: each draw resamples as many conversations as there are, with replacement, with all their cases
    (Efron and Tibshirani 1993). Equal arguments give equal draws. Very many conversations get fewer draws, to fit into
    memory.
    """

    def __init__(self, groups: Sequence[int]) -> None:
        """Draws the weights; `groups` has the conversation of each case."""
        self._group: Ints = np.unique(np.asarray(groups), return_inverse=True)[1]
        group_count = int(self._group.max()) + 1
        random = np.random.default_rng(SEED)
        even = np.full(group_count, 1 / group_count)
        draws = min(DRAWS, max(MIN_DRAWS, _MAX_STORED_WEIGHTS // group_count))
        self._weights = np.empty((draws, group_count), np.int16)
        block = max(1, _RANK_BLOCK_WEIGHTS // group_count)
        for start in range(0, draws, block):
            size = min(block, draws - start)
            self._weights[start : start + size] = random.multinomial(group_count, even, size=size)

    def rank(
        self, values: Sequence[float], wrong: Sequence[bool], among: Bools | None = None
    ) -> Ranking:
        """Computes the ranking metrics of a score that should be high for wrong cases.

        Args:
            values: Score of each case, in the order of `groups`.
            wrong: Whether each case is wrong.
            among: Mask of the cases to use; None uses all.

        Raises:
            ValueError: A class is missing.
        """
        mask = np.ones(len(self._group), bool) if among is None else among
        value, label = np.asarray(values, float)[mask], np.asarray(wrong, bool)[mask]
        if not label.any() or label.all():
            raise ValueError("Both kinds are needed.")
        order = np.argsort(value, kind="stable")
        value, label, group = value[order], label[order], self._group[mask][order]
        starts = np.flatnonzero(np.append(True, value[1:] != value[:-1]))
        observed = _rank_figures(np.ones((1, len(value))), label, starts)[0]
        if min(len(np.unique(group[label])), len(np.unique(group[~label]))) < ranking.MIN_GROUPS:
            return Ranking(observed, None)
        block = max(1, _RANK_BLOCK_WEIGHTS // len(value))
        drawn = [
            _rank_figures(
                self._weights[start : start + block][:, group].astype(float), label, starts
            )
            for start in range(0, len(self._weights), block)
        ]
        return Ranking(observed, np.concatenate(drawn))


def _rank_figures(weight: Floats, label: Bools, starts: Ints) -> Floats:
    """Returns the figures of each draw in the order of `RANK_FIGURES`, shape (draws, 2); NaN where a class is missing.

    Args:
        weight: Weight of each case in each draw, by ascending score, shape (draws, cases).
        label: Whether each case is wrong.
        starts: Index of the first case of each run of equal scores.
    """
    wrong_by_run = np.add.reduceat(weight * label, starts, axis=1)
    right_by_run = np.add.reduceat(weight * ~label, starts, axis=1)
    right, wrong = right_by_run.sum(axis=1), wrong_by_run.sum(axis=1)
    figures_of_draws = np.column_stack(
        [
            ranking.weighted_area(wrong_by_run, right_by_run),
            ranking.average_precision(wrong_by_run, right_by_run),
        ]
    )
    figures_of_draws[(right == 0) | (wrong == 0)] = np.nan
    return figures_of_draws
