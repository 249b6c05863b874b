"""Agreement of groups with gold goals (V-measure, adjusted Rand index), with intervals."""

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
"""Least values of V-measure, adjusted Rand index, homogeneity and completeness."""
OUTSIDE = -1
"""Label of conversations in no group; they count as one group together."""

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
        groups: Number of groups that hold one of the conversations, without `OUTSIDE`.
    """

    v: Interval
    ari: Interval
    homogeneity: Interval
    completeness: Interval
    groups: int


def agreement(gold: Sequence[str], labels: Labels, *, seed: int = 0) -> GoldAgreement:
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
    """Compares pairs of groupings of the same conversations by V-measure and adjusted Rand index, with Holm's
    correction.

    Intervals and p values come from the same random halves for both groupings, as in `agreement`. With fewer than
    `FEWEST` conversations there is no test.

    Args:
        ways: Group of each conversation, by name of the grouping.
        pairs: Names of the groupings to compare.
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
    """Returns how far the 95% interval reaches below and above each metric; the whole range below `FEWEST`."""
    if len(truth) < FEWEST:
        return np.full(len(LEAST), -2.0), np.full(len(LEAST), 2.0)
    halves = _halves(truth, labels, seed)
    low, high = np.quantile(halves - halves.mean(axis=0), (0.025, 0.975), axis=0)
    return low, high


def _halves(truth: Labels, labels: Labels, seed: int) -> _Figures:
    """Returns the metrics of random halves, shape (draws, 4); equal seeds give equal halves."""
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
