"""Agreement of labellers: of two by accuracy and Cohen's kappa (with quadratic weights for grades), of any number by
Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.base.interval import Interval

DRAWS = 2_000
SEED = 20_240_917

Label = str | int
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Agreement of two labellers over the same items.

    Attributes:
        count: Number of items that both labelled.
        accuracy: Share of equal labels.
        frequent: Accuracy of the constant guess: the other labeller's most frequent label.
        kappa: Cohen's kappa (1960); None when the expected agreement is 1.
        weighted: Kappa with quadratic weights (Cohen 1968); None for labels that are words, or when undefined.
    """

    count: int
    accuracy: Interval
    frequent: float
    kappa: Interval | None
    weighted: Interval | None


def agree(
    one: Sequence[Label], other: Sequence[Label], grades: Sequence[int] = ()
) -> LabelAgreement:
    """Computes the agreement of two labellers, with 95% intervals by resampling the items.

    Args:
        one: Labels of the labeller that is evaluated.
        other: Labels of the reference labeller, in the same order.
        grades: All possible grades, ascending; empty when labels are words.

    Raises:
        ValueError: There is nothing to compare.
    """
    if not one or len(one) != len(other):
        raise ValueError("Both labelers need a label for each thing.")
    names: list[Label] = [*grades] or sorted({*one, *other}, key=str)
    at = {name: place for place, name in enumerate(names)}
    size = len(names)
    cells = np.array([at[a] * size + at[b] for a, b in zip(one, other, strict=True)])
    seen = np.bincount(cells, minlength=size * size).astype(float)
    drawn = np.random.default_rng(SEED).multinomial(len(one), seen / len(one), size=DRAWS)
    tables = np.concatenate([seen[None], drawn]).reshape(-1, size, size)
    same = 1 - np.eye(size)
    steps = np.subtract.outer(np.arange(size), np.arange(size)).astype(float) ** 2
    return LabelAgreement(
        len(one),
        _interval(np.trace(tables, axis1=1, axis2=2) / len(one)),
        float(seen.reshape(size, size).sum(axis=0).max() / len(one)),
        _known(_kappa(tables, same)),
        _known(_kappa(tables, steps)) if grades else None,
    )


def alpha(counts: npt.NDArray[np.int64]) -> Interval | None:
    """Krippendorff's alpha for nominal labels, with a 95% interval by resampling the items.

    alpha = 1 - observed / expected disagreement, over the items with two labels or more (K. Krippendorff, "Computing
    Krippendorff's Alpha-Reliability", 2011, section C): 1 is agreement, 0 what chance gives.

    Args:
        counts: How many labellers gave each label to each item, shape (items, labels).

    Returns:
        None where nothing has two labels, or all labels are the same.
    """
    counts = counts[counts.sum(axis=1) > 1]
    if not len(counts):
        return None
    # items alike are one, so that the size of the draws does not grow with the number of items
    alike, times = np.unique(counts, axis=0, return_counts=True)
    labels = alike.sum(axis=1)
    unequal = (labels**2 - (alike**2).sum(axis=1)) / (labels - 1)
    drawn = np.random.default_rng(SEED).multinomial(len(counts), times / len(counts), size=DRAWS)
    weight = np.concatenate([times[None], drawn]).astype(float)
    by_label = weight @ alike
    every = by_label.sum(axis=1)
    observed = weight @ unequal / every
    pairs = every**2 - (by_label**2).sum(axis=1)
    chance = pairs / (every * (every - 1))
    beyond: Floats = np.divide(
        observed, chance, out=np.full_like(observed, np.nan), where=pairs > 0
    )
    return _known(1 - beyond)


def shared(
    ones: Mapping[int, Label], others: Mapping[int, Label]
) -> tuple[list[Label], list[Label]]:
    """Returns the labels of the items that both labelled, as two parallel lists."""
    both = sorted(ones.keys() & others.keys())
    return [ones[key] for key in both], [others[key] for key in both]


def _kappa(tables: Floats, cost: Floats) -> Floats:
    """Returns kappa: 1 - observed cost / expected cost; NaN where the expected cost is 0."""
    every = tables.sum(axis=(1, 2))
    rows, columns = tables.sum(axis=2), tables.sum(axis=1)
    seen = (tables * cost).sum(axis=(1, 2)) / every
    chance = np.einsum("ni,ij,nj->n", rows, cost, columns) / every**2
    beyond: Floats = np.divide(seen, chance, out=np.full_like(seen, np.nan), where=chance > 0)
    return 1 - beyond


def _known(values: Floats) -> Interval | None:
    return _interval(values) if np.isfinite(values[0]) else None


def _interval(values: Floats) -> Interval:
    """Returns the first value with the 95% percentile interval of the other, finite ones."""
    usable = values[1:][np.isfinite(values[1:])]
    low, high = np.quantile(usable, [0.025, 0.975]) if len(usable) else (values[0], values[0])
    return Interval(float(values[0]), float(low), float(high))
