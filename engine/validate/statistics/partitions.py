"""How well groups agree with gold goals, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure

from engine.records.interval import Interval
from engine.records.validation import Contrast
from engine.validate.statistics.significance import corrected, resampled

DRAWS = 400
FEWEST = 8
"""Fewest conversations from which an interval is estimated."""
LEAST = (0.0, -1.0, 0.0, 0.0)
"""Of V-measure, Rand index, homogeneity and completeness."""
OUTSIDE = -1
"""The label of what is in no group; all of them together count as one group."""

Labels = npt.NDArray[np.int64]
_Figures = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GoldAgreement:
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


def agreement(gold: Sequence[str], labels: Labels, *, seed: int = 0) -> GoldAgreement:
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
    return GoldAgreement(v, ari, homogeneity, completeness, groups)


def agreement_contrasts(
    gold: Sequence[str], ways: Mapping[str, Labels], pairs: Sequence[tuple[str, str]], seed: int = 0
) -> tuple[Contrast, ...]:
    """Pairs of groupings of the same conversations against each other, by V-measure and Rand index, all corrected
    together.

    Intervals and p come from the same random halves for both groupings, as in `agreement`; below `FEWEST` conversations
    nothing is tested.

    Args:
        ways: Group of each conversation by name of the grouping.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(gold))}
    truth = np.array([names[name] for name in gold], dtype=np.int64)
    whole = {name: _figures(truth, labels) for name, labels in ways.items()}
    few = len(truth) < FEWEST
    halves = {} if few else {name: _halves(truth, labels, seed) for name, labels in ways.items()}
    found = []
    for one, other in pairs:
        for nth, figure in enumerate(("V", "ARI")):
            first, second = float(whole[one][nth]), float(whole[other][nth])
            off, p = first - second, None
            low, high = -2.0, 2.0
            if not few:
                drawn = halves[one][:, nth] - halves[other][:, nth]
                low, high = np.quantile(drawn - drawn.mean(), (0.025, 0.975))
                p = resampled(off, drawn)
            ends = Interval(off, float(off + low), float(off + high))
            found.append(Contrast(figure, one, other, len(truth), first, second, ends, p))
    return corrected(found)


def _around(truth: Labels, labels: Labels, seed: int) -> tuple[_Figures, _Figures]:
    """How far the figures of halves lie below and above their means; everything is possible of a handful."""
    if len(truth) < FEWEST:
        return np.full(len(LEAST), -2.0), np.full(len(LEAST), 2.0)
    halves = _halves(truth, labels, seed)
    low, high = np.quantile(halves - halves.mean(axis=0), (0.025, 0.975), axis=0)
    return low, high


def _halves(truth: Labels, labels: Labels, seed: int) -> _Figures:
    """The figures of random halves, the same halves for equal seeds."""
    rng = np.random.default_rng(seed)
    return np.array(
        [
            _figures(truth[kept], labels[kept])
            for kept in (rng.permutation(len(truth))[: len(truth) // 2] for _ in range(DRAWS))
        ]
    )


def _figures(truth: Labels, labels: Labels) -> _Figures:
    homogeneity, completeness, v = homogeneity_completeness_v_measure(truth, labels)
    return np.array([v, adjusted_rand_score(truth, labels), homogeneity, completeness])
