"""How well groups agree with gold goals, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure

from engine.validate.interval import Interval

DRAWS = 400
FEWEST = 8
"""Conversations from which an interval is told."""
LEAST = (0.0, -1.0, 0.0, 0.0)
"""Of V-measure, Rand index, homogeneity and completeness."""
OUTSIDE = -1
"""The label of what is in no group; all of them together count as one group."""

Labels = npt.NDArray[np.int64]
_Figures = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of groups with gold goals.

    Attributes:
        homogeneity: 1 where each group holds conversations of one goal only (Rosenberg and Hirschberg 2007).
        completeness: 1 where the conversations of each goal are in one group.
        v: Their harmonic mean; the mutual information normalised by the arithmetic mean of entropies.
        ari: Rand index, adjusted for chance (Hubert and Arabie 1985).
        groups: That hold one of the conversations, those in none not counted.
    """

    v: Interval
    ari: Interval
    homogeneity: Interval
    completeness: Interval
    groups: int


def agreement(gold: Sequence[str], labels: Labels, *, seed: int = 0) -> Agreement:
    """Holds groups against gold goals.

    The 95% intervals come from random halves of the conversations: figures of a half drawn without replacement vary
    about as much around their mean as those of all do around the truth, and no conversation stands twice in one, which
    would pass for agreement (Politis and Romano 1994).

    Args:
        gold: Goal of each conversation.
        labels: Group of each, `OUTSIDE` for none; as many.
        seed: Of the halves.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(gold))}
    truth = np.array([names[name] for name in gold], dtype=np.int64)
    whole = _figures(truth, labels)
    down, up = _around(truth, labels, seed)
    v, ari, homogeneity, completeness = (
        Interval(float(one), max(least, float(one + low)), min(1.0, float(one + high)))
        for one, low, high, least in zip(whole, down, up, LEAST, strict=True)
    )
    groups = len(np.unique(labels[labels != OUTSIDE]))
    return Agreement(v, ari, homogeneity, completeness, groups)


def _around(truth: Labels, labels: Labels, seed: int) -> tuple[_Figures, _Figures]:
    """How far the figures of halves lie below and above their means; everything is possible of a handful."""
    if len(truth) < FEWEST:
        return np.full(len(LEAST), -2.0), np.full(len(LEAST), 2.0)
    rng = np.random.default_rng(seed)
    halves = np.array(
        [
            _figures(truth[kept], labels[kept])
            for kept in (rng.permutation(len(truth))[: len(truth) // 2] for _ in range(DRAWS))
        ]
    )
    low, high = np.quantile(halves - halves.mean(axis=0), (0.025, 0.975), axis=0)
    return low, high


def _figures(truth: Labels, labels: Labels) -> _Figures:
    homogeneity, completeness, v = homogeneity_completeness_v_measure(truth, labels)
    return np.array([v, adjusted_rand_score(truth, labels), homogeneity, completeness])
