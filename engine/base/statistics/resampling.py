"""Ranking metrics with bootstrap intervals. All scores share the same draws, so that they can be compared pairwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.base.interval import Interval
from engine.base.statistics import weighted
from engine.base.statistics.ranking import LEAST_GROUPS
from engine.base.statistics.weighted import Floats

DRAWS = 2_000
SEED = 20_240_917
LEAST_DRAWS = 200
_KEPT_CELLS = 40_000_000
"""Most bootstrap weights that are stored, two bytes each."""
_CELLS = 1_000_000
"""Most bootstrap weights that are processed at once."""

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

NAMES = ("auroc", "average_precision", "kept_accuracy", "rejection_ratio")
"""Order of the figures in arrays.

- `auroc`: area under the ROC curve.
- `average_precision`: precision of finding the wrong cases from the highest score down.
- `kept_accuracy`: area under the accuracy-rejection curve (Nadeem, Zucker and Hanczar 2009): the accuracy of
  the k lowest scores, averaged over k from 1 to all.
- `rejection_ratio`: that area on a scale from random rejection (0) to perfect rejection (1) (Malinin
  and Gales 2021 with errors, Vashurin et al. 2025 with this area).
"""


_RATIO = NAMES.index("rejection_ratio")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranking metrics of one score, with their bootstrap draws.

    Attributes:
        seen: Observed metrics in the order of `NAMES`, shape (4,).
        drawn: Metrics of each draw, shape (draws, 4); NaN where a draw has one class only. None when a class is in
            fewer than `LEAST_GROUPS` conversations, where bootstrap intervals are far too narrow.
        least: Least possible value of each metric; the greatest is 1.
    """

    seen: Floats
    drawn: Floats | None
    least: Floats

    def figure(self, nth: int) -> Interval:
        """Returns a metric with its 95% percentile interval; the whole range when `drawn` is None."""
        seen = float(self.seen[nth])
        if self.drawn is None:
            return Interval(seen, float(self.least[nth]), 1.0)
        return _interval(seen, self.drawn[:, nth])

    def difference(self, other: Ranking, nth: int) -> Interval:
        """Returns a metric minus that of another score over the same cases, with its 95% interval."""
        off = float(self.seen[nth] - other.seen[nth])
        if self.drawn is None or other.drawn is None:
            most = 1.0 - float(self.least[nth])
            return Interval(off, -most, most)
        return _interval(off, self.drawn[:, nth] - other.drawn[:, nth])


def _interval(seen: float, drawn: Floats) -> Interval:
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(seen, min(seen, float(low)), max(seen, float(high)))


class Resampling:
    """Bootstrap draws of conversations, shared by all scores over the same cases.

    A cluster bootstrap: each draw resamples as many conversations as there are, with replacement, with all their cases
    (Efron and Tibshirani 1993). Equal arguments give equal draws. Very many conversations get fewer draws, to fit into
    memory.
    """

    def __init__(self, groups: Sequence[int], draws: int = DRAWS, seed: int = SEED) -> None:
        """Draws the weights.

        Args:
            groups: Conversation of each case.
        """
        self._group: Ints = np.unique(np.asarray(groups), return_inverse=True)[1]
        many = int(self._group.max()) + 1
        random = np.random.default_rng(seed)
        even = np.full(many, 1 / many)
        draws = min(draws, max(LEAST_DRAWS, _KEPT_CELLS // many))
        self._weights = np.empty((draws, many), np.int16)
        part = max(1, _CELLS // many)
        for at in range(0, draws, part):
            size = min(part, draws - at)
            self._weights[at : at + size] = random.multinomial(many, even, size=size)

    def rank(
        self, values: Sequence[float], wrong: Sequence[bool], among: Bools | None = None
    ) -> Ranking:
        """Computes the ranking metrics of a score that should be high for wrong cases.

        Args:
            values: Score of each case, in the order of `groups`.
            wrong: Whether each case is wrong.
            among: Mask of the cases to use; None uses all.

        Raises:
            ValueError: A class is missing.
        """
        kept = np.ones(len(self._group), bool) if among is None else among
        value, label = np.asarray(values, float)[kept], np.asarray(wrong, bool)[kept]
        if not label.any() or label.all():
            raise ValueError("Both kinds are needed.")
        order = np.argsort(value, kind="stable")
        value, label, group = value[order], label[order], self._group[kept][order]
        starts = np.flatnonzero(np.append(True, value[1:] != value[:-1]))
        seen = _figures(np.ones((1, len(value))), label, starts)[0]
        least = np.zeros(len(NAMES))
        # The worst order gives all wrong cases the lower of two scores, so that they are kept longest.
        kinds = np.array([[label.sum(), (~label).sum()]], dtype=float)
        least[_RATIO] = _figures(kinds, np.array([True, False]), np.arange(2))[0, _RATIO]
        if min(len(np.unique(group[label])), len(np.unique(group[~label]))) < LEAST_GROUPS:
            return Ranking(seen, None, least)
        part = max(1, _CELLS // len(value))
        drawn = [
            _figures(self._weights[at : at + part][:, group].astype(float), label, starts)
            for at in range(0, len(self._weights), part)
        ]
        return Ranking(seen, np.concatenate(drawn), least)


def _figures(weight: Floats, label: Bools, starts: Ints) -> Floats:
    highs = np.add.reduceat(weight * label, starts, axis=1)
    lows = np.add.reduceat(weight * ~label, starts, axis=1)
    right, wrong = lows.sum(axis=1), highs.sum(axis=1)
    kept = weighted.kept_accuracy(highs, lows)
    random = weighted.ratio(right, right + wrong)
    best = weighted.best_kept_accuracy(highs, lows)
    found = np.column_stack(
        [
            weighted.area(highs, lows),
            weighted.average_precision(highs, lows),
            kept,
            weighted.ratio(kept - random, best - random),
        ]
    )
    found[(right == 0) | (wrong == 0)] = np.nan
    return found
