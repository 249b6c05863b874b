"""Measures how strongly features go with the first of two sides of conversations, within strata such as goals.

Mantel and Haenszel (1959, J. Natl. Cancer Inst. 22) give one odds ratio over all strata, Robins, Breslow and Greenland
(1986, Biometrics 42) the variance of its logarithm. Half a conversation in each cell of a stratum of its own keeps both
finite (after Haldane 1956, Ann. Hum. Genet. 20). The deviance of even odds (Dunning 1993, Comput. Linguist. 19) says
whether a ratio is chance, corrected for the number of tests by Benjamini and Hochberg (1995, J. R. Stat. Soc. B 57).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Bools, Floats, Ints
from engine.base.statistics.ranking import p_two_sided

_MAX_CELLS = 1 << 20
"""Most cells of a table of features by strata that are computed at once, which bounds the memory."""

_ADDED = 0.5
"""Number of conversations in each cell of the additional stratum."""

_CONTINUITY = 0.5
"""Number of conversations by which a count moves toward its mean, as correction for continuity."""

TERM_WEIGHT = 10.0
"""Weight of the test of a term, where the mean over all tests is 1, so that the few terms are not lost among thousands
of words; measured in docs/lab/why.md."""

MAX_WEIGHT_OF_TERMS = 0.5
"""Largest share of the weight of all tests that terms have together, unless they are more than half of the tests."""


class Incidence(NamedTuple):
    """Which conversations have which features.

    Attributes:
        feature, row: Index of a feature and of a conversation that has it, each pair once, the features rising; both of
            shape (pairs,).
    """

    feature: Ints
    row: Ints

    def rows_of(self, feature: int) -> Ints:
        """Returns the indices of the conversations that have a feature, shape (conversations with it,)."""
        low, high = np.searchsorted(self.feature, [feature, feature + 1])
        return self.row[low:high]


def join_incidences(incidences: Iterable[Incidence]) -> Incidence:
    """Returns several incidences, at least one, as one; features of a later one must have higher numbers."""
    feature, row = zip(*incidences, strict=True)
    return Incidence(np.concatenate(feature), np.concatenate(row))


class Odds(NamedTuple):
    """The association of features with the first of two sides; every array has shape (features,).

    Attributes:
        log_ratio: Natural logarithm of the odds ratio; positive where the feature goes with the first side.
        error: Standard error of `log_ratio`.
        first_share, second_share: Share of each side that has the feature, over strata with both sides; the share of
            the second side is weighted by the strata of the first side (direct standardization).
        z: A standard normal statistic of even odds, with the sign of `log_ratio`.
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
        stratum: Number of the stratum of each conversation, from 0, of the same shape.
    """
    strata = int(stratum.max(initial=0)) + 1
    first_size = np.bincount(stratum[is_first], minlength=strata)
    size = np.bincount(stratum, minlength=strata)
    # a stratum with one side says nothing of the odds
    mixed = (first_size > 0) & (first_size < size)
    mixed_count = int(mixed.sum())
    mixed_stratum = (np.cumsum(mixed) - 1)[stratum[incidence.row]]
    on_first = is_first[incidence.row]
    figures = [np.empty((5, 0))]  # so that no features give empty arrays
    step = max(1, _MAX_CELLS // max(1, mixed_count))
    for begin in range(0, features, step):
        end = min(begin + step, features)
        low, high = np.searchsorted(incidence.feature, [begin, end])
        pairs = low + np.flatnonzero(mixed[stratum[incidence.row[low:high]]])
        cell = (incidence.feature[pairs] - begin) * mixed_count + mixed_stratum[pairs]
        shape = (end - begin, mixed_count)
        first_with = _count_cells(cell[on_first[pairs]], shape)
        figures.append(
            _odds_figures(first_with, _count_cells(cell, shape), first_size[mixed], size[mixed])
        )
    first = np.bincount(incidence.feature[on_first], minlength=features)
    second = np.bincount(incidence.feature, minlength=features) - first
    log_ratio, error, first_share, second_share, z = np.concatenate(figures, axis=1)
    return Odds(log_ratio, error, first_share, second_share, z, first, second)


def _count_cells(cells: Ints, shape: tuple[int, int]) -> Ints:
    """Returns how often each cell of a table of this shape is named, by its index in the flattened table."""
    rows, columns = shape
    return np.bincount(cells, minlength=rows * columns).reshape(shape)


def _odds_figures(first_with: Ints, with_feature: Ints, first_size: Ints, size: Ints) -> Floats:
    """Returns the logarithms of Mantel-Haenszel odds ratios, their standard errors, the shares of both sides, and the
    statistics of even odds; shape (5, features).

    The names of Robins, Breslow and Greenland are P for `agree`, Q for `differ`, R for `for_first`, S for `for_second`,
    each by stratum. The variance is sum(PR) / 2R^2 + sum(PS + QR) / 2RS + sum(QS) / 2S^2, where R and S alone are sums.

    Args:
        first_with: Conversations of the first side with the feature, shape (features, strata).
        with_feature: Conversations with the feature, of the same shape.
        first_size, size: Conversations of the first side and of both, shape (strata,).
    """
    second_with = with_feature - first_with
    second_without = size - first_size - second_with
    for_first = first_with * second_without / size
    for_second = second_with * (first_size - first_with) / size
    agree = (first_with + second_without) / size
    differ = 1 - agree
    # R and S of the additional stratum: the product of two opposite cells, divided by the size of the stratum
    extra = _ADDED * _ADDED / (4 * _ADDED)
    first_sum = for_first.sum(axis=1) + extra
    second_sum = for_second.sum(axis=1) + extra
    # in the additional stratum P and Q are a half each
    variance = (
        ((agree * for_first).sum(axis=1) + 0.5 * extra) / (2 * first_sum**2)
        + ((agree * for_second + differ * for_first).sum(axis=1) + extra)
        / (2 * first_sum * second_sum)
        + ((differ * for_second).sum(axis=1) + 0.5 * extra) / (2 * second_sum**2)
    )
    weights = first_size / max(1, first_size.sum())
    first_share = (first_with / first_size) @ weights
    second_share = (second_with / (size - first_size)) @ weights
    log_ratio, error = np.log(first_sum / second_sum), np.sqrt(variance)
    z = _signed_deviance(first_with, with_feature, first_size, size)
    return np.stack([log_ratio, error, first_share, second_share, z])


def _signed_deviance(first_with: Ints, with_feature: Ints, first_size: Ints, size: Ints) -> Floats:
    """Returns the signed root of the deviance of even odds, shape (features,); arguments as in `_odds_figures`.

    The deviance is that of the four cells over all strata from what they are under even odds (Dunning 1993), after half
    a conversation as correction for continuity. It is scaled so that near even odds it is the squared distance of a
    cell from its mean, divided by the variance of a sum of hypergeometric numbers: within strata counts vary less than
    in one table. Unlike `log_ratio` divided by its error it is right where a cell is empty. Sides that are swapped give
    the same number with the other sign.
    """
    means = with_feature @ (first_size / size)
    spread = first_size * (size - first_size) / (size**2 * (size - 1))
    variance = (with_feature * (size - with_feature)) @ spread
    observed, totals = first_with.sum(axis=1), with_feature.sum(axis=1)
    firsts, seconds = first_size.sum(), (size - first_size).sum()
    varies = variance > 0

    def cells_of_first(first: Floats) -> Floats:
        """Returns the four cells of each table, shape (4, features), from the first one."""
        second = totals - first
        return np.stack([first, second, firsts - first, seconds - second]).astype(float)

    # the count moves half a conversation toward its mean, but not past it
    away = observed - means
    nearer = means + np.sign(away) * np.maximum(0, np.abs(away) - _CONTINUITY)
    # ones prevent divisions by 0 in tables without a variance, whose statistic is 0
    counts, expected = np.where(varies, [cells_of_first(nearer), cells_of_first(means)], 1.0)
    deviance = 2 * (counts * np.log(np.where(counts > 0, counts / expected, 1.0))).sum(axis=0)
    scale = np.where(varies, variance, 1.0) * (1 / expected).sum(axis=0)
    return np.where(varies, np.sign(away) * np.sqrt(deviance.clip(min=0) / scale), 0.0)


def weigh_tests(is_term: Bools) -> Floats:
    """Returns the weight of each test for `adjust_p_values`, shape (tests,); a term never weighs less than a word.

    Args:
        is_term: Whether the feature that is tested is a term of the filter language and not a word, of the same shape.
    """
    tests, terms = len(is_term), int(is_term.sum())
    if terms in (0, tests):
        return np.ones(tests)
    weight = max(1.0, min(TERM_WEIGHT, MAX_WEIGHT_OF_TERMS * tests / terms))
    return np.where(is_term, weight, (tests - weight * terms) / (tests - terms))


def adjust_p_values(p: Floats, weights: Floats | float = 1.0) -> Floats:
    """Returns p values corrected for their number by Benjamini and Hochberg, shape (tests,).

    Args:
        weights: Weights of the tests, 1 in the mean; a test of weight 2 counts as if its p value were half as large
            (Genovese, Roeder and Wasserman 2006, Biometrika 93).
    """
    p = p / weights
    order = np.argsort(p)
    ratios = p[order] * len(p) / np.arange(1, len(p) + 1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum.accumulate(ratios[::-1])[::-1].clip(max=1)
    return corrected


def group_near_equal(
    incidence: Incidence, order: Ints, conversations: int, overlap: float
) -> list[Ints]:
    """Returns groups of features that nearly the same conversations have.

    A feature joins the first group whose head, its first feature, has a Jaccard similarity of at least `overlap` with
    it.

    Args:
        incidence: Which conversations have which features.
        order: The features to group, shape (features,); an earlier one becomes the head of a group.
        conversations: Number of conversations.
        overlap: Least Jaccard similarity, in [0, 1].
    """
    position = np.full(int(incidence.feature.max(initial=-1)) + 1, -1)  # in `order`, by feature
    position[order] = np.arange(len(order))
    chosen = position[incidence.feature] >= 0
    has = np.zeros((len(order), conversations), bool)
    has[position[incidence.feature[chosen]], incidence.row[chosen]] = True
    sizes = has.sum(axis=1)
    ungrouped = np.arange(len(order))
    groups = []
    while len(ungrouped):
        head = ungrouped[0]
        shared = has[ungrouped][:, has[head]].sum(axis=1)
        is_near = shared >= overlap * (sizes[ungrouped] + sizes[head] - shared)
        groups.append(order[ungrouped[is_near]])
        ungrouped = ungrouped[~is_near]
    return groups
