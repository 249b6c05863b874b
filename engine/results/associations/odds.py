"""Which features go with one of two sides: odds ratios within strata, corrected for the number of tests.

Mantel and Haenszel (1959, J. Natl. Cancer Inst. 22) give one odds ratio over all strata, Robins, Breslow and Greenland
(1986, Biometrics 42) the variance of its logarithm. Half a conversation in each cell of a stratum of its own keeps both
finite (after Haldane 1956, Ann. Hum. Genet. 20). The deviance of even odds (Dunning 1993, Comput. Linguist. 19) says
whether a ratio is chance, corrected for the number of tests by Benjamini and Hochberg (1995, J. R. Stat. Soc. B 57).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics.ranking import p_two_sided
from engine.results.associations.words import Incidence

_CELLS = 1 << 20
"""Most cells of a table of features by strata that are computed at once."""

_HALF = 0.5
"""Conversations in each cell of the additional stratum."""


class Odds(NamedTuple):
    """The association of features with the first of two sides; every array has shape (features,).

    Attributes:
        log_ratio: Natural logarithm of the odds ratio; positive where the feature goes with the first side.
        error: Its standard error.
        first_share, second_share: Share of each side that has the feature, over strata with both sides; that of the
            second side is weighted by the strata of the first (direct standardization).
        z: A standard normal statistic of even odds, of the sign of `log_ratio`.
        first, second: Number of conversations with the feature on each side.
    """

    log_ratio: Floats
    error: Floats
    first_share: Floats
    second_share: Floats
    z: Floats
    first: Ints
    second: Ints

    @property
    def p(self) -> Floats:
        """The two-sided p value of even odds for each feature, shape (features,)."""
        return np.array([p_two_sided(value) for value in self.z.tolist()])


def odds_ratios(incidence: Incidence, features: int, is_first: Bools, stratum: Ints) -> Odds:
    """Returns the odds ratios of features within strata.

    Args:
        incidence: Which conversations have which features.
        features: Number of features.
        is_first: Whether each conversation is on the first side, shape (conversations,).
        stratum: Number of its stratum, from 0, of the same shape.
    """
    strata = int(stratum.max(initial=0)) + 1
    first_size = np.bincount(stratum[is_first], minlength=strata)
    size = np.bincount(stratum, minlength=strata)
    mixed = (first_size > 0) & (first_size < size)  # the others say nothing of the odds
    columns = int(mixed.sum())
    column = (np.cumsum(mixed) - 1)[stratum[incidence.row]]
    on_first = is_first[incidence.row]
    figures = [np.empty((5, 0))]
    step = max(1, _CELLS // max(1, columns))
    for begin in range(0, features, step):
        end = min(begin + step, features)
        low, high = np.searchsorted(incidence.feature, [begin, end])
        pairs = low + np.flatnonzero(mixed[stratum[incidence.row[low:high]]])
        cell = (incidence.feature[pairs] - begin) * columns + column[pairs]
        both, have = (
            np.bincount(cells, minlength=(end - begin) * columns).reshape(end - begin, columns)
            for cells in (cell[on_first[pairs]], cell)
        )
        figures.append(_figures(both, have, first_size[mixed], size[mixed]))
    first = np.bincount(incidence.feature[on_first], minlength=features)
    second = np.bincount(incidence.feature, minlength=features) - first
    log_ratio, error, first_share, second_share, z = np.concatenate(figures, axis=1)
    return Odds(log_ratio, error, first_share, second_share, z, first, second)


def _figures(both: Ints, have: Ints, first_size: Ints, size: Ints) -> Floats:
    """Returns the logarithms of Mantel-Haenszel odds ratios, their standard errors, the shares of both sides, and the
    statistics of even odds; shape (5, features).

    The names of Robins, Breslow and Greenland are P for `agree`, Q for `differ`, R for `for_first`, S for `for_second`,
    each by stratum. The variance is sum(PR) / 2R^2 + sum(PS + QR) / 2RS + sum(QS) / 2S^2, where R and S alone are sums.

    Args:
        both: Conversations of the first side with the feature, shape (features, strata).
        have: Conversations with the feature, of the same shape.
        first_size, size: Conversations of the first side and of both, shape (strata,).
    """
    for_first = both * (size - first_size - have + both) / size
    for_second = (have - both) * (first_size - both) / size
    agree = (both + (size - first_size - have + both)) / size
    differ = 1 - agree
    # R and S of the additional stratum: the product of two opposite cells, divided by the size of the stratum.
    extra = _HALF * _HALF / (4 * _HALF)
    first_sum = for_first.sum(axis=1) + extra
    second_sum = for_second.sum(axis=1) + extra
    # In the additional stratum P and Q are a half each.
    variance = (
        ((agree * for_first).sum(axis=1) + _HALF * extra) / (2 * first_sum**2)
        + ((agree * for_second + differ * for_first).sum(axis=1) + extra)
        / (2 * first_sum * second_sum)
        + ((differ * for_second).sum(axis=1) + _HALF * extra) / (2 * second_sum**2)
    )
    weights = first_size / max(1, first_size.sum())
    first_share = (both / first_size) @ weights
    second_share = ((have - both) / (size - first_size)) @ weights
    log_ratio, error = np.log(first_sum / second_sum), np.sqrt(variance)
    return np.stack([log_ratio, error, first_share, second_share, _z(both, have, first_size, size)])


def _z(both: Ints, have: Ints, first_size: Ints, size: Ints) -> Floats:
    """Returns the signed root of the deviance of even odds, shape (features,); arguments as in `_figures`.

    Under even odds the number in each cell is a sum of hypergeometric numbers. The deviance is that of the binomial
    distribution with the same mean and variance, for the cell with the least mean, with half a conversation as
    correction for continuity. Unlike the logarithm in standard errors it holds where a cell is nearly empty.
    """
    means = have @ (first_size / size)
    spread = first_size * (size - first_size) / (size**2 * (size - 1))
    variance = (have * (size - have)) @ spread
    observed, totals = both.sum(axis=1), have.sum(axis=1)
    firsts, seconds = first_size.sum(), (size - first_size).sum()

    def cells(first: Floats | Ints) -> Floats:
        """Returns the four cells of each table, shape (4, features), from the first one."""
        second = totals - first
        return np.stack([first, second, firsts - first, seconds - second]).astype(float)

    expected = cells(means)
    least = expected.argmin(axis=0), np.arange(len(have))
    mean, count = expected[least], cells(observed)[least]
    usable = variance > 0
    # Any numbers keep the tables without a variance free of divisions by 0; their statistic is 0.
    mean, variance = np.where(usable, mean, 1.0), np.where(usable, variance, 0.5)
    # A binomial distribution of n trials has the variance mean * (1 - mean / n), so n follows from mean and variance.
    trials = mean / (1 - variance / mean)
    # The count moves half a conversation toward its mean, but not past it.
    nearer = mean + np.sign(count - mean) * np.maximum(0, np.abs(count - mean) - _HALF)
    nearer = nearer.clip(0, trials)
    deviance = _x_log(nearer, nearer / mean) + _x_log(
        trials - nearer, (trials - nearer) / (trials - mean)
    )
    return np.where(usable, np.sign(observed - means) * np.sqrt(2 * deviance.clip(min=0)), 0.0)


def _x_log(x: Floats, ratio: Floats) -> Floats:
    """Returns x ln(ratio), 0 where x is 0."""
    return x * np.log(np.where(x > 0, ratio, 1.0))


def adjusted_p(p: Floats) -> Floats:
    """Returns p values corrected by Benjamini and Hochberg for all of them, shape (tests,)."""
    order = np.argsort(p)
    ratios = p[order] * len(p) / np.arange(1, len(p) + 1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum.accumulate(ratios[::-1])[::-1].clip(max=1)
    return corrected


def near_equal(incidence: Incidence, order: Ints, conversations: int, overlap: float) -> list[Ints]:
    """Returns groups of features that nearly the same conversations have, each by its first feature.

    A feature joins the first group whose first feature has a Jaccard similarity of at least `overlap` with it.

    Args:
        incidence: Which conversations have which features.
        order: The features to group, shape (features,); the earlier one stands for a group.
    """
    place = np.full(int(incidence.feature.max(initial=-1)) + 1, -1)
    place[order] = np.arange(len(order))
    chosen = place[incidence.feature] >= 0
    has = np.zeros((len(order), conversations), bool)
    has[place[incidence.feature[chosen]], incidence.row[chosen]] = True
    sizes = has.sum(axis=1)
    left = np.arange(len(order))
    groups = []
    while len(left):
        head = left[0]
        shared = has[left][:, has[head]].sum(axis=1)
        near = shared >= overlap * (sizes[left] + sizes[head] - shared)
        groups.append(order[left[near]])
        left = left[~near]
    return groups
