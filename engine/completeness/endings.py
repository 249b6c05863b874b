"""How well scores tell whole conversations from the same ones cut off: at random, and at the same step.

The truncation test compares a whole conversation with itself cut at random, so the whole one is always longer, and on
logs of one kind its length alone may tell. The matched test compares a whole conversation with longer ones cut at the
same boundary, counted from the first, so that the number of steps tells nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.base.interval import Z95, Interval
from engine.base.statistics.ranking import LEAST_GROUPS, area_interval
from engine.completeness.truncation import cut_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cuts:
    """The pairs of the truncation test, as indices of boundaries; one pair for each conversation that can be cut."""

    whole: Ints
    cut: Ints


def draw_cuts(names: Sequence[str], counts: Sequence[int], seed: int = 0) -> Cuts:
    """Cuts each conversation after one boundary before its last, as the validation table does.

    Args:
        names: External id of each conversation.
        counts: Number of boundaries of each conversation; all boundaries stand in one sequence in this order.
        seed: Seed of the cuts.

    Returns:
        The pairs; conversations with one boundary have none.
    """
    whole, cut = [], []
    first = 0
    for name, count in zip(names, counts, strict=True):
        place = cut_at(seed, name, count)
        if place is not None:
            whole.append(first + count - 1)
            cut.append(first + place)
        first += count
    return Cuts(np.array(whole, dtype=np.int64), np.array(cut, dtype=np.int64))


def matched(curves: Sequence[Floats]) -> tuple[Interval | None, int]:
    """P(a whole conversation has a higher value than a longer one cut at the same boundary), ties counting half.

    The interval counts conversations, not pairs: its variance is the infinitesimal jackknife of the share over
    conversations (Efron 1982, "The Jackknife, the Bootstrap and Other Resampling Plans", chapter 6).

    Args:
        curves: For each conversation the value at each of its boundaries; NaN where there is none.

    Returns:
        The share over all pairs, None without any, and the number of pairs.
    """
    wins, pairs = _wins(curves)
    total = pairs.sum() / 2
    if not total:
        return None, 0
    share = float(wins.sum() / 2 / total)
    highs = int((pairs > 0).sum())
    variance = float(np.square(wins - share * pairs).sum()) / total**2
    few = highs < LEAST_GROUPS
    return area_interval(share, None if few else variance, highs, highs), int(total)


def matched_difference(curves: Sequence[Floats], others: Sequence[Floats]) -> Interval | None:
    """The share of `matched` of one scoring minus that of another, over the same pairs.

    The interval is paired: the infinitesimal jackknife of the difference over conversations, as in `matched`, so that
    what makes a conversation easy for both takes itself out. With fewer than `LEAST_GROUPS` conversations it is all of
    -1 to 1.

    Args:
        curves, others: As `matched` takes them, with the same shapes and numbers at the same places.

    Returns:
        None without any pair.
    """
    (wins, pairs), (other_wins, _) = _wins(curves), _wins(others)
    total = pairs.sum() / 2
    if not total:
        return None
    ahead = wins - other_wins
    difference = float(ahead.sum() / 2 / total)
    if int((pairs > 0).sum()) < LEAST_GROUPS:
        return Interval(difference, -1.0, 1.0)
    half = Z95 * math.sqrt(float(np.square(ahead - difference * pairs).sum())) / float(total)
    return Interval(difference, max(-1.0, difference - half), min(1.0, difference + half))


def _wins(curves: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Of each conversation, shape (conversations,): the pairs of the matched test that come out right, ties counting
    half, and all pairs that it is part of."""
    owner = np.repeat(np.arange(len(curves)), [len(one) for one in curves])
    number = np.concatenate([np.arange(len(one)) for one in curves]) if curves else np.empty(0)
    values = np.concatenate(curves) if curves else np.empty(0)
    ends = number == np.repeat([len(one) - 1 for one in curves], [len(one) for one in curves])
    wins, pairs = np.zeros(len(curves)), np.zeros(len(curves))
    for place in np.unique(number):
        at = (number == place) & ~np.isnan(values)
        whole, cut = np.flatnonzero(at & ends), np.flatnonzero(at & ~ends)
        if not len(whole) or not len(cut):
            continue
        np.add.at(wins, owner[whole], _beaten(values[whole], values[cut]))
        np.add.at(pairs, owner[whole], len(cut))
        np.add.at(wins, owner[cut], len(whole) - _beaten(values[cut], values[whole]))
        np.add.at(pairs, owner[cut], len(whole))
    return wins, pairs


def _beaten(of: Floats, among: Floats) -> Floats:
    """How many of `among` each value exceeds, ties counting half; shape as `of`."""
    ranked = np.sort(among)
    below, up_to = (np.searchsorted(ranked, of, side) for side in ("left", "right"))
    return np.asarray((below + up_to) / 2)
