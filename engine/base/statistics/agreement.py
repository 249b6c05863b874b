"""Agreement of labelers on the same items, and of groups of conversations with gold goals, with 95% intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.statistics.intervals import Interval

# Labelers on the same items

_DRAWS = 2_000
"""Number of bootstrap draws behind an interval."""

_SEED = 20_240_917
"""Seed of the bootstrap draws, so that equal labels give equal intervals."""

Label = str | int
"""A word, or a grade."""


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Agreement of two labelers over the same items.

    Attributes:
        count: Number of items that both labeled.
        accuracy: Share of equal labels.
        frequent: Accuracy of always guessing the most frequent label of the reference labeler; JSON has this name.
        kappa: Cohen's kappa (1960); None when the expected agreement is 1.
    """

    count: int
    accuracy: Interval
    frequent: float
    kappa: Interval | None


def agreement_of_two(labels: Sequence[Label], reference: Sequence[Label]) -> LabelAgreement:
    """Computes the agreement of two labelers, with 95% intervals by resampling the items.

    Args:
        labels: Labels of the labeler that is evaluated, one for each item.
        reference: Labels of the reference labeler, for the same items in the same order.

    Raises:
        ValueError: There is no item, or the numbers of labels differ.
    """
    if not labels or len(labels) != len(reference):
        raise ValueError("Both labelers need a label for each thing.")
    count = len(labels)
    distinct_labels = sorted({*labels, *reference}, key=str)
    index = {label: position for position, label in enumerate(distinct_labels)}
    size = len(distinct_labels)
    label_pairs = zip(labels, reference, strict=True)
    # the cell of each item in the table of pairs of labels, row by row
    cells = np.array([index[label] * size + index[other] for label, other in label_pairs])
    observed = np.bincount(cells, minlength=size * size).astype(float)
    drawn = np.random.default_rng(_SEED).multinomial(count, observed / count, size=_DRAWS)
    # The table of the items themselves comes first, then one for each draw.
    tables = np.concatenate([observed[None], drawn]).reshape(-1, size, size)
    return LabelAgreement(
        count=count,
        accuracy=_with_percentiles(np.trace(tables, axis1=1, axis2=2) / count),
        frequent=float(observed.reshape(size, size).sum(axis=0).max() / count),
        kappa=_interval_or_none(_kappa(tables)),
    )


def krippendorff_alpha(counts: Ints) -> Interval | None:
    """Returns Krippendorff's alpha for nominal labels, with a 95% interval by resampling the items.

    alpha = 1 - observed / expected disagreement, over the items with two labels or more (K. Krippendorff, "Computing
    Krippendorff's Alpha-Reliability", 2011, section C): 1 is agreement, 0 what chance gives.

    Args:
        counts: How many labelers gave each label to each item, shape (items, labels).

    Returns:
        Alpha with its interval; None where no item has two labels, or all labels are the same.
    """
    counts = counts[counts.sum(axis=1) > 1]
    if not len(counts):
        return None
    # Items with equal rows are counted together, so that the size of the draws does not grow with the number of items.
    rows, row_counts = np.unique(counts, axis=0, return_counts=True)  # (rows, labels), (rows,)
    labels_of_row = rows.sum(axis=1)
    disagreement_of_row = (labels_of_row**2 - (rows**2).sum(axis=1)) / (labels_of_row - 1)
    drawn = np.random.default_rng(_SEED).multinomial(
        len(counts), row_counts / len(counts), size=_DRAWS
    )
    weights = np.concatenate([row_counts[None], drawn]).astype(float)  # (1 + draws, rows)
    label_totals = weights @ rows  # (1 + draws, labels)
    total = label_totals.sum(axis=1)
    observed = weights @ disagreement_of_row / total
    unequal_pairs = total**2 - (label_totals**2).sum(axis=1)
    expected = unequal_pairs / (total * (total - 1))
    return _interval_or_none(1 - _relative_disagreement(observed, expected))


def shared_labels(
    first: Mapping[int, Label], second: Mapping[int, Label]
) -> tuple[list[Label], list[Label]]:
    """Returns the labels of the items that both labelers labeled, as two lists in the order of the items' numbers."""
    shared_items = sorted(first.keys() & second.keys())
    return [first[item] for item in shared_items], [second[item] for item in shared_items]


def _kappa(tables: Floats) -> Floats:
    """Returns kappa: 1 - observed / expected disagreement, shape (draws,); NaN where none is expected.

    Args:
        tables: Counts of each pair of labels, shape (draws, labels, labels).
    """
    totals = tables.sum(axis=(1, 2))
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    observed = 1 - np.trace(tables, axis1=1, axis2=2) / totals
    expected = 1 - (rows * columns).sum(axis=1) / totals**2
    return 1 - _relative_disagreement(observed, expected)


def _relative_disagreement(observed: Floats, expected: Floats) -> Floats:
    """Returns observed / expected disagreement, shape (draws,) as both; NaN where no disagreement is expected."""
    return np.divide(observed, expected, out=np.full_like(observed, np.nan), where=expected > 0)


def _interval_or_none(values: Floats) -> Interval | None:
    """Returns the first value with the interval of the others; None where the first value is NaN."""
    return _with_percentiles(values) if np.isfinite(values[0]) else None


def _with_percentiles(values: Floats) -> Interval:
    """Returns the first value with the 95% percentile interval of the other, finite ones.

    Args:
        values: The figure of all items, then that of each draw, shape (1 + draws,).
    """
    finite = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (values[0], values[0])
    return Interval(float(values[0]), float(low), float(high))


# Groups of conversations and gold goals


_HALVES_SEED = 0
"""Seed of the random halves, so that equal groups give equal intervals."""

_HALF_DRAWS = 400
"""Number of random halves behind an interval."""

MIN_CONVERSATIONS = 8
"""Fewest conversations from which an interval is estimated."""

OUTSIDE = -1
"""Group of conversations that are in no group; they count as one group together."""

_MINIMA = (0.0, -1.0, 0.0, 0.0)
"""Least values of V-measure, adjusted Rand index, homogeneity and completeness, the metrics in this order."""

_WHOLE_RANGE = 2.0
"""The width of the widest range of a metric, from -1 to 1: so far from any value the end of an interval is clipped to
the end of the range."""

Groups = Ints
"""The group of each conversation, shape (conversations,)."""


@dataclass(frozen=True, slots=True)
class GoldAgreement:
    """Agreement of groups with gold goals.

    Attributes:
        v: Harmonic mean of homogeneity and completeness; the mutual information normalized by the arithmetic mean of
            entropies.
        ari: Rand index, adjusted for chance (Hubert and Arabie 1985).
        homogeneity: 1 where each group holds conversations of one goal only (Rosenberg and Hirschberg 2007).
        completeness: 1 where the conversations of each goal are in one group.
        groups: Number of groups that hold one of the conversations, without `OUTSIDE`.
    """

    v: Interval
    ari: Interval
    homogeneity: Interval
    completeness: Interval
    groups: int


def gold_agreement(gold: Sequence[str], groups: Groups) -> GoldAgreement:
    """Measures the agreement of groups with gold goals.

    The 95% intervals come from subsampling: the metrics of random halves vary about as much around their mean as the
    metrics of all conversations do around the true values (Politis and Romano 1994). The bootstrap would draw a
    conversation twice, and its two copies would count as agreement.

    Args:
        gold: Gold goal of each conversation.
        groups: Group of each conversation, `OUTSIDE` for none; same length.
    """
    number_of_goal = {goal: number for number, goal in enumerate(dict.fromkeys(gold))}
    goals = np.array([number_of_goal[goal] for goal in gold], dtype=np.int64)
    low_offsets, high_offsets = _interval_offsets(goals, groups)
    v, ari, homogeneity, completeness = (
        Interval(float(value), max(minimum, float(value + low)), min(1.0, float(value + high)))
        for value, low, high, minimum in zip(
            _metrics(goals, groups), low_offsets, high_offsets, _MINIMA, strict=True
        )
    )
    group_count = len(np.unique(groups[groups != OUTSIDE]))
    return GoldAgreement(v, ari, homogeneity, completeness, group_count)


def _interval_offsets(goals: Groups, groups: Groups) -> tuple[Floats, Floats]:
    """Returns what to add to each metric for the low and the high end of its 95% interval, each of shape (4,).

    The interval of fewer than `MIN_CONVERSATIONS` conversations is the whole range of the metric.
    """
    if len(goals) < MIN_CONVERSATIONS:
        return np.full(len(_MINIMA), -_WHOLE_RANGE), np.full(len(_MINIMA), _WHOLE_RANGE)
    halves = _metrics_of_halves(goals, groups)
    low, high = np.quantile(halves - halves.mean(axis=0), (0.025, 0.975), axis=0)
    return low, high


def _metrics_of_halves(goals: Groups, groups: Groups) -> Floats:
    """Returns the metrics of random halves of the conversations, shape (draws, 4)."""
    rng = np.random.default_rng(_HALVES_SEED)
    metrics = []
    for _ in range(_HALF_DRAWS):
        half = rng.permutation(len(goals))[: len(goals) // 2]
        metrics.append(_metrics(goals[half], groups[half]))
    return np.array(metrics)


def _metrics(goals: Groups, groups: Groups) -> Floats:
    """Returns V-measure, adjusted Rand index, homogeneity and completeness, shape (4,)."""
    # imported here: it takes a second, and screens import this module
    from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure

    homogeneity, completeness, v = homogeneity_completeness_v_measure(goals, groups)
    return np.array([v, adjusted_rand_score(goals, groups), homogeneity, completeness])
