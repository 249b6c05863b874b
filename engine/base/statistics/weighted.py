"""Ranking metrics of weighted cases, for many draws of weights at once; each returns shape (draws,).

The arguments are the total weights of the positive and of the negative cases at each distinct value, in ascending order
of the values, shape (draws, values). Ties count as the average over all their orders.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def area(highs: Floats, lows: Floats) -> Floats:
    """Returns the area under the ROC curve; 0 where a class is missing."""
    below = np.cumsum(lows, axis=1) - lows / 2
    return ratio((highs * below).sum(axis=1), highs.sum(axis=1) * lows.sum(axis=1))


def average_precision(highs: Floats, lows: Floats) -> Floats:
    """Returns the mean precision at each positive, from the highest value down."""
    found = np.cumsum(highs[:, ::-1], axis=1)
    precision = ratio(found, found + np.cumsum(lows[:, ::-1], axis=1))
    return ratio((highs[:, ::-1] * precision).sum(axis=1), found[:, -1])


def kept_accuracy(wrong: Floats, right: Floats) -> Floats:
    """Returns the accuracy of the k cases with the lowest values, averaged over k from 1 to all.

    Args:
        wrong, right: Integer weights. Of a tie of w cases, c of them right, j kept ones hold c j / w right ones on
            average, so that harmonic numbers give the sum.
    """
    many = (wrong + right).astype(np.int64)
    kept = np.cumsum(many, axis=1)
    before = kept - many
    total = kept[:, -1]
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, int(total.max(initial=0)) + 1))])
    share = ratio(right, many.astype(float))
    rights = np.cumsum(right, axis=1) - right
    parts = right + (rights - share * before) * (harmonic[kept] - harmonic[before])
    return ratio(parts.sum(axis=1), total.astype(float))


def best_kept_accuracy(wrong: Floats, right: Floats) -> Floats:
    """Returns `kept_accuracy` for the perfect order, which keeps all right cases longest."""
    ordered = right.sum(axis=1, keepdims=True), wrong.sum(axis=1, keepdims=True)
    none = np.zeros_like(ordered[0])
    return kept_accuracy(np.hstack([none, ordered[1]]), np.hstack([ordered[0], none]))


def ratio(part: Floats, of: Floats) -> Floats:
    """Returns the quotient; 0 where the divisor is 0."""
    return np.divide(part, of, out=np.zeros_like(part), where=of > 0)
