"""Figures of a ranking in which each thing has a weight, for many draws of weights at a time.

All take the weights of the things that a claim holds for and of the others at each different value, in rising order of
the values, shape (draws, values); things of equal value count as in every order at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def area(highs: Floats, lows: Floats) -> Floats:
    """Area under the ROC curve, 0 where one kind is missing."""
    below = np.cumsum(lows, axis=1) - lows / 2
    return ratio((highs * below).sum(axis=1), highs.sum(axis=1) * lows.sum(axis=1))


def average_precision(highs: Floats, lows: Floats) -> Floats:
    """Mean precision over the positives, from the highest value down."""
    found = np.cumsum(highs[:, ::-1], axis=1)
    precision = ratio(found, found + np.cumsum(lows[:, ::-1], axis=1))
    return ratio((highs[:, ::-1] * precision).sum(axis=1), found[:, -1])


def kept_accuracy(wrong: Floats, right: Floats) -> Floats:
    """Mean share of right ones among the k of lowest value, over all k from 1 to all of them.

    Args:
        wrong, right: Whole numbers. Among w of equal value, of which c are right, the j that are kept hold c j / w
            right ones on average, so their part of the sum needs harmonic numbers only.
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
    """The same where the order is perfect: all right ones are kept first."""
    ordered = right.sum(axis=1, keepdims=True), wrong.sum(axis=1, keepdims=True)
    none = np.zeros_like(ordered[0])
    return kept_accuracy(np.hstack([none, ordered[1]]), np.hstack([ordered[0], none]))


def ratio(part: Floats, of: Floats) -> Floats:
    """The quotient, 0 where there is nothing to divide by."""
    return np.divide(part, of, out=np.zeros_like(part), where=of > 0)
