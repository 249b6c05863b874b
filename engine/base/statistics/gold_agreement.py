"""Agreement of groups of conversations with gold goals, with 95% intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.statistics.intervals import Interval

HALF_DRAWS = 400
"""Number of random halves behind an interval."""

MIN_CONVERSATIONS = 8
"""Fewest conversations from which an interval is estimated."""

OUTSIDE = -1
"""Group of conversations that are in no group; they count as one group together."""

_MINIMA = (0.0, -1.0, 0.0, 0.0)
"""Least values of V-measure, adjusted Rand index, homogeneity and completeness, the metrics in this order."""

_WHOLE_RANGE = 2.0
"""A distance further than any metric reaches from any of its values; the ends of intervals are clipped."""

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


def gold_agreement(gold: Sequence[str], groups: Groups, *, seed: int = 0) -> GoldAgreement:
    """Measures the agreement of groups with gold goals.

    The 95% intervals come from subsampling: the metrics of random halves vary about as much around their mean as the
    metrics of all conversations do around the true values (Politis and Romano 1994). The bootstrap would draw a
    conversation twice, and its two copies would count as agreement.

    Args:
        gold: Gold goal of each conversation.
        groups: Group of each conversation, `OUTSIDE` for none; same length.
        seed: Seed of the halves.
    """
    number_of_goal = {goal: number for number, goal in enumerate(dict.fromkeys(gold))}
    goals = np.array([number_of_goal[goal] for goal in gold], dtype=np.int64)
    low_offsets, high_offsets = _interval_offsets(goals, groups, seed)
    v, ari, homogeneity, completeness = (
        Interval(float(value), max(minimum, float(value + low)), min(1.0, float(value + high)))
        for value, low, high, minimum in zip(
            _metrics(goals, groups), low_offsets, high_offsets, _MINIMA, strict=True
        )
    )
    group_count = len(np.unique(groups[groups != OUTSIDE]))
    return GoldAgreement(v, ari, homogeneity, completeness, group_count)


def _interval_offsets(goals: Groups, groups: Groups, seed: int) -> tuple[Floats, Floats]:
    """Returns what to add to each metric for the low and the high end of its 95% interval, each of shape (4,).

    The interval of fewer than `MIN_CONVERSATIONS` conversations is the whole range of the metric.
    """
    if len(goals) < MIN_CONVERSATIONS:
        return np.full(len(_MINIMA), -_WHOLE_RANGE), np.full(len(_MINIMA), _WHOLE_RANGE)
    halves = _metrics_of_halves(goals, groups, seed)
    low, high = np.quantile(halves - halves.mean(axis=0), (0.025, 0.975), axis=0)
    return low, high


def _metrics_of_halves(goals: Groups, groups: Groups, seed: int) -> Floats:
    """Returns the metrics of random halves of the conversations, shape (draws, 4); equal seeds give equal halves."""
    rng = np.random.default_rng(seed)
    metrics = []
    for _ in range(HALF_DRAWS):
        half = rng.permutation(len(goals))[: len(goals) // 2]
        metrics.append(_metrics(goals[half], groups[half]))
    return np.array(metrics)


def _metrics(goals: Groups, groups: Groups) -> Floats:
    """Returns V-measure, adjusted Rand index, homogeneity and completeness, shape (4,)."""
    # imported here: it takes a second, and screens import this module
    from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure

    homogeneity, completeness, v = homogeneity_completeness_v_measure(goals, groups)
    return np.array([v, adjusted_rand_score(goals, groups), homogeneity, completeness])
