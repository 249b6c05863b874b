"""Agreement of groups with gold goals (V-measure, adjusted Rand index), with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from engine.base.interval import Interval
from engine.base.statistics.records import (
    Contrast,
)
from engine.base.statistics.significance import corrected, resampled

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
    whole = agreement_figures(truth, labels)
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
    whole = {name: agreement_figures(truth, labels) for name, labels in ways.items()}
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
            agreement_figures(truth[kept], labels[kept])
            for kept in (rng.permutation(len(truth))[: len(truth) // 2] for _ in range(DRAWS))
        ]
    )


def agreement_figures(truth: Labels, labels: Labels) -> _Figures:
    """Returns V-measure, adjusted Rand index, homogeneity and completeness, bit for bit as scikit-learn's functions,
    which take 1 ms a draw for checks of their arguments."""
    rows, columns = (np.unique(one, return_inverse=True)[1] for one in (truth, labels))
    shape = (rows.max() + 1, columns.max() + 1)
    table = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    information = _mutual_information(table)
    first, second = (_entropy(table.sum(axis=axis)) for axis in (1, 0))
    homogeneity = information / first if first else 1.0
    completeness = information / second if second else 1.0
    both = homogeneity + completeness
    v = 2.0 * homogeneity * completeness / both if both else 0.0
    return np.array([v, adjusted_rand(table), homogeneity, completeness])


def _mutual_information(table: npt.NDArray[np.int64]) -> float:
    """Returns the mutual information of the two partitions of a contingency table, in nats."""
    if 1 in table.shape:
        return 0.0
    rows, columns = np.nonzero(table)
    counts, total = table[rows, columns], log(table.sum())
    expected = np.log(table.sum(axis=1)[rows] * table.sum(axis=0)[columns])
    share = counts / table.sum()
    terms = share * (np.log(counts) - total) + share * (-expected + total + total)
    terms[np.abs(terms) < np.finfo(np.float64).eps] = 0.0
    return max(0.0, float(terms.sum()))


def _entropy(counts: npt.NDArray[np.int64]) -> float:
    """Returns the entropy of a partition with groups of these sizes, in nats."""
    if len(counts) == 1:
        return 0.0
    return float(-np.sum(counts / counts.sum() * (np.log(counts) - log(counts.sum()))))


def adjusted_rand(table: npt.NDArray[np.int64]) -> float:
    """Returns the adjusted Rand index of a contingency table, by numbers of pairs in integers without bound."""
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    total, squares = int(table.sum()), int((table**2).sum())
    by_rows, by_columns = int((rows**2).sum()) - squares, int((columns**2).sum()) - squares
    if not by_rows and not by_columns:
        return 1.0
    same, apart = squares - total, total**2 - by_rows - by_columns - squares
    return (
        2.0
        * (same * apart - by_rows * by_columns)
        / ((same + by_rows) * (by_rows + apart) + (same + by_columns) * (by_columns + apart))
    )
