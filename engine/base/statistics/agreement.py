"""Agreement of labelers, and of groups with gold goals, with intervals; correlation of two variables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.statistics.intervals import Z95, Interval

_LABEL_DRAWS = 2_000
"""Number of bootstrap draws behind an interval of the agreement of labels."""

_LABEL_SEED = 20_240_917
"""Seed of these draws, so that equal labels give equal intervals."""

Label = str | int
"""A word, or a grade."""

HALF_DRAWS = 400
"""Number of random halves behind an interval of the agreement of groups."""

MIN_CONVERSATIONS = 8
"""Fewest conversations from which an interval is estimated."""

_MINIMA = (0.0, -1.0, 0.0, 0.0)
"""Least values of V-measure, adjusted Rand index, homogeneity and completeness."""

OUTSIDE = -1
"""Label of conversations in no group; they count as one group together."""

MIN_PAIRS = 4
"""Fewest pairs from which an interval is estimated."""


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Agreement of two labellers over the same items.

    Attributes:
        count: Number of items that both labeled.
        accuracy: Share of equal labels.
        frequent: Accuracy of the constant guess: the other labeller's most frequent label.
        kappa: Cohen's kappa (1960); None when the expected agreement is 1.
    """

    count: int
    accuracy: Interval
    frequent: float
    kappa: Interval | None


def agree(one: Sequence[Label], other: Sequence[Label]) -> LabelAgreement:
    """Computes the agreement of two labellers, with 95% intervals by resampling the items.

    Args:
        one: Labels of the labeller that is evaluated.
        other: Labels of the reference labeller, in the same order.

    Raises:
        ValueError: There is nothing to compare.
    """
    if not one or len(one) != len(other):
        raise ValueError("Both labelers need a label for each thing.")
    names = sorted({*one, *other}, key=str)
    index = {name: position for position, name in enumerate(names)}
    size = len(names)
    cells = np.array([index[a] * size + index[b] for a, b in zip(one, other, strict=True)])
    observed = np.bincount(cells, minlength=size * size).astype(float)
    drawn = np.random.default_rng(_LABEL_SEED).multinomial(
        len(one), observed / len(one), size=_LABEL_DRAWS
    )
    tables = np.concatenate([observed[None], drawn]).reshape(-1, size, size)
    return LabelAgreement(
        len(one),
        _with_percentiles(np.trace(tables, axis1=1, axis2=2) / len(one)),
        float(observed.reshape(size, size).sum(axis=0).max() / len(one)),
        _interval_or_none(_kappa(tables)),
    )


def alpha(counts: Ints) -> Interval | None:
    """Krippendorff's alpha for nominal labels, with a 95% interval by resampling the items.

    alpha = 1 - observed / expected disagreement, over the items with two labels or more (K. Krippendorff, "Computing
    Krippendorff's Alpha-Reliability", 2011, section C): 1 is agreement, 0 what chance gives.

    Args:
        counts: How many labellers gave each label to each item, shape (items, labels).

    Returns:
        None where nothing has two labels, or all labels are the same.
    """
    counts = counts[counts.sum(axis=1) > 1]
    if not len(counts):
        return None
    # items alike are one, so that the size of the draws does not grow with the number of items
    alike, times = np.unique(counts, axis=0, return_counts=True)
    labels = alike.sum(axis=1)
    unequal = (labels**2 - (alike**2).sum(axis=1)) / (labels - 1)
    drawn = np.random.default_rng(_LABEL_SEED).multinomial(
        len(counts), times / len(counts), size=_LABEL_DRAWS
    )
    weight = np.concatenate([times[None], drawn]).astype(float)
    by_label = weight @ alike
    every = by_label.sum(axis=1)
    observed = weight @ unequal / every
    pairs = every**2 - (by_label**2).sum(axis=1)
    chance = pairs / (every * (every - 1))
    beyond: Floats = np.divide(
        observed, chance, out=np.full_like(observed, np.nan), where=pairs > 0
    )
    return _interval_or_none(1 - beyond)


def shared(
    ones: Mapping[int, Label], others: Mapping[int, Label]
) -> tuple[list[Label], list[Label]]:
    """Returns the labels of the items that both labeled, as two parallel lists."""
    both = sorted(ones.keys() & others.keys())
    return [ones[key] for key in both], [others[key] for key in both]


def _kappa(tables: Floats) -> Floats:
    """Returns kappa: 1 - observed / expected disagreement; NaN where none is expected.

    Args:
        tables: Counts of each pair of labels, shape (draws, labels, labels).
    """
    totals = tables.sum(axis=(1, 2))
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    observed = 1 - np.trace(tables, axis1=1, axis2=2) / totals
    chance = 1 - (rows * columns).sum(axis=1) / totals**2
    beyond: Floats = np.divide(
        observed, chance, out=np.full_like(observed, np.nan), where=chance > 0
    )
    return 1 - beyond


def _interval_or_none(values: Floats) -> Interval | None:
    """Returns `_with_percentiles`; None where the first value is unknown."""
    return _with_percentiles(values) if np.isfinite(values[0]) else None


def _with_percentiles(values: Floats) -> Interval:
    """Returns the first value with the 95% percentile interval of the other, finite ones."""
    usable = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(usable, [0.025, 0.975]) if len(usable) else (values[0], values[0])
    return Interval(float(values[0]), float(low), float(high))


Groups = Ints
"""The group of each conversation."""


@dataclass(frozen=True, slots=True)
class GoldAgreement:
    """Agreement of groups with gold goals.

    Attributes:
        homogeneity: 1 where each group holds conversations of one goal only (Rosenberg and Hirschberg 2007).
        completeness: 1 where the conversations of each goal are in one group.
        v: Their harmonic mean; the mutual information normalized by the arithmetic mean of entropies.
        ari: Rand index, adjusted for chance (Hubert and Arabie 1985).
        groups: Number of groups that hold one of the conversations, without `OUTSIDE`.
    """

    v: Interval
    ari: Interval
    homogeneity: Interval
    completeness: Interval
    groups: int


def agreement(gold: Sequence[str], labels: Groups, *, seed: int = 0) -> GoldAgreement:
    """Measures the agreement of groups with gold goals.

    The 95% intervals come from subsampling: the metrics of random halves vary about as much around their mean as the
    metrics of all conversations do around the true values (Politis and Romano 1994). The bootstrap would draw a
    conversation twice, and its two copies would count as agreement.

    Args:
        gold: Gold goal of each conversation.
        labels: Group of each conversation, `OUTSIDE` for none; same length.
        seed: Seed of the halves.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(gold))}
    truth = np.array([names[name] for name in gold], dtype=np.int64)
    figures = agreement_figures(truth, labels)
    down, up = _around(truth, labels, seed)
    v, ari, homogeneity, completeness = (
        Interval(float(value), max(minimum, float(value + low)), min(1.0, float(value + high)))
        for value, low, high, minimum in zip(figures, down, up, _MINIMA, strict=True)
    )
    groups = len(np.unique(labels[labels != OUTSIDE]))
    return GoldAgreement(v, ari, homogeneity, completeness, groups)


def _around(truth: Groups, labels: Groups, seed: int) -> tuple[Floats, Floats]:
    """Returns how far the 95% interval reaches below and above each metric; of few conversations the whole range."""
    if len(truth) < MIN_CONVERSATIONS:
        return np.full(len(_MINIMA), -2.0), np.full(len(_MINIMA), 2.0)
    halves = _halves(truth, labels, seed)
    low, high = np.quantile(halves - halves.mean(axis=0), (0.025, 0.975), axis=0)
    return low, high


def _halves(truth: Groups, labels: Groups, seed: int) -> Floats:
    """Returns the metrics of random halves, shape (draws, 4); equal seeds give equal halves."""
    rng = np.random.default_rng(seed)
    return np.array(
        [
            agreement_figures(truth[half], labels[half])
            for half in (rng.permutation(len(truth))[: len(truth) // 2] for _ in range(HALF_DRAWS))
        ]
    )


def agreement_figures(truth: Groups, labels: Groups) -> Floats:
    """Returns V-measure, adjusted Rand index, homogeneity and completeness."""
    # imported here: it takes a second, and screens import this module
    from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure

    homogeneity, completeness, v = homogeneity_completeness_v_measure(truth, labels)
    return np.array([v, adjusted_rand_score(truth, labels), homogeneity, completeness])


@dataclass(frozen=True, slots=True)
class Correlation:
    """Correlation of two variables over `n` pairs.

    Attributes:
        spearman: Rank correlation, with the 95% interval of Bonett & Wright (2000, Psychometrika 65).
        pearson: Linear correlation.
    """

    n: int
    spearman: Interval
    pearson: float


def correlate(first: Sequence[float], second: Sequence[float]) -> Correlation | None:
    """Returns the correlations of finite numbers; None with few pairs (`MIN_PAIRS`) or when one variable is constant.

    Raises:
        ValueError: The lengths differ.
    """
    x, y = np.asarray(first, float), np.asarray(second, float)
    if len(x) != len(y):
        raise ValueError("Pairs are needed.")
    n = len(x)
    if n < MIN_PAIRS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    from scipy.stats import (
        rankdata,  # imported here: it takes half a second, and screens import this module
    )

    rho = _pearson(rankdata(x), rankdata(y))
    return Correlation(n, _with_interval(rho, n), _pearson(x, y))


def _pearson(x: Floats, y: Floats) -> float:
    """Returns the linear correlation, kept within [-1, 1] where rounding leaves it."""
    a, b = x - x.mean(), y - y.mean()
    correlation = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, correlation))


def _with_interval(rho: float, n: int) -> Interval:
    """Returns a rank correlation over `n` pairs with its 95% interval."""
    if abs(rho) > 1 - 1e-12:  # the Fisher transform is infinite, so there is no interval
        return Interval(rho, rho, rho)
    half = Z95 * math.sqrt((1 + rho * rho / 2) / (n - 3))
    middle = math.atanh(rho)
    return Interval(rho, math.tanh(middle - half), math.tanh(middle + half))
