"""The truncation test: whole conversations against the same ones cut off, so that no labels are needed.

A boundary is a place where a conversation could end; a cut conversation ends at one before its last.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.base.arrays import Floats, Ints
from engine.base.statistics.intervals import Z95, Interval
from engine.base.statistics.ranking import MIN_GROUPS, area_interval, auroc
from engine.completeness.records import EndingTest

MIN_WHOLE_SCORE = 0.5
"""Score from which the test calls a conversation whole."""


def cut_at(seed: int, conversation: str, boundaries: int) -> int | None:
    """Returns the boundary after which a conversation is cut, drawn by a seed.

    All boundaries but the last are equally likely. A turn has at most one boundary (in a log of one turn a step does),
    so this draws a turn. The result depends on the arguments alone, so all scorings of a conversation cut it alike.

    Args:
        conversation: Its id in the source.
        boundaries: Number of boundaries of the conversation.

    Returns:
        The index of the boundary; None with fewer than two.
    """
    if boundaries < 2:
        return None
    digest = hashlib.sha256(f"truncation/1:{seed}:{conversation}".encode(errors="replace")).digest()
    return int.from_bytes(digest, "big") % (boundaries - 1)


def truncate(curves: Mapping[str, Sequence[float]], seed: int) -> tuple[list[float], list[float]]:
    """Returns the scores of whole conversations, and in the same order those of the same ones cut once.

    Conversations with fewer than two boundaries, which cannot be cut, are left out.

    Args:
        curves: For each conversation, by its id in the source, the normalized score at every boundary, in order.
        seed: Seed of the cuts.
    """
    whole_scores, cut_scores = [], []
    for conversation, curve in curves.items():
        place = cut_at(seed, conversation, len(curve))
        if place is not None:
            whole_scores.append(curve[-1])
            cut_scores.append(curve[place])
    return whole_scores, cut_scores


@dataclass(frozen=True, slots=True)
class Cuts:
    """The pairs of the truncation test, as indices of boundaries; one pair for each conversation that can be cut."""

    whole: Ints
    cut: Ints


def draw_cuts(names: Sequence[str], counts: Sequence[int], seed: int = 0) -> Cuts:
    """Returns a cut of each conversation after one boundary before its last, as the validation table makes it.

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
    """Returns P(a whole conversation has a higher value than a longer one cut at the same boundary), ties counting
    half.

    The interval counts conversations, not pairs: its variance is the infinitesimal jackknife of the share over
    conversations (Efron 1982, "The Jackknife, the Bootstrap and Other Resampling Plans", chapter 6).

    Args:
        curves: For each conversation the value at each of its boundaries; NaN where there is none.

    Returns:
        The share over all pairs, None without any, and the number of pairs.
    """
    wins, pairs = _count_wins(curves)
    total = pairs.sum() / 2
    if not total:
        return None, 0
    share = float(wins.sum() / 2 / total)
    highs = int((pairs > 0).sum())
    variance = float(np.square(wins - share * pairs).sum()) / total**2
    few = highs < MIN_GROUPS
    return area_interval(share, None if few else variance, highs, highs), int(total)


def matched_difference(curves: Sequence[Floats], others: Sequence[Floats]) -> Interval | None:
    """Returns the share of `matched` of one scoring minus that of another, over the same pairs.

    The interval is paired: the infinitesimal jackknife of the difference over conversations, as in `matched`, so that
    what makes a conversation easy for both takes itself out. With fewer than `MIN_GROUPS` conversations it is all of
    -1 to 1.

    Args:
        curves, others: As `matched` takes them, with the same shapes and numbers at the same places.

    Returns:
        None without any pair.
    """
    (wins, pairs), (other_wins, _) = _count_wins(curves), _count_wins(others)
    total = pairs.sum() / 2
    if not total:
        return None
    ahead = wins - other_wins
    difference = float(ahead.sum() / 2 / total)
    if int((pairs > 0).sum()) < MIN_GROUPS:
        return Interval(difference, -1.0, 1.0)
    half = Z95 * math.sqrt(float(np.square(ahead - difference * pairs).sum())) / float(total)
    return Interval(difference, max(-1.0, difference - half), min(1.0, difference + half))


def _count_wins(curves: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Returns two counts for each conversation, both of shape (conversations,).

    The first is of the pairs of the matched test that come out right, ties counting half; the second is of all pairs
    that the conversation is part of.
    """
    lengths = [len(curve) for curve in curves]
    owner = np.repeat(np.arange(len(curves)), lengths)
    number = np.concatenate([np.arange(length) for length in lengths]) if curves else np.empty(0)
    values = np.concatenate(curves) if curves else np.empty(0)
    ends = number == np.repeat([length - 1 for length in lengths], lengths)
    wins, pairs = np.zeros(len(curves)), np.zeros(len(curves))
    for place in np.unique(number):
        at_place = (number == place) & ~np.isnan(values)
        whole, cut = np.flatnonzero(at_place & ends), np.flatnonzero(at_place & ~ends)
        if not len(whole) or not len(cut):
            continue
        np.add.at(wins, owner[whole], _count_beaten(values[whole], values[cut]))
        np.add.at(pairs, owner[whole], len(cut))
        np.add.at(wins, owner[cut], len(whole) - _count_beaten(values[cut], values[whole]))
        np.add.at(pairs, owner[cut], len(whole))
    return wins, pairs


def _count_beaten(values: Floats, others: Floats) -> Floats:
    """Returns how many of the others each value exceeds, ties counting half; shape as `values`."""
    ranked = np.sort(others)
    below, up_to = (np.searchsorted(ranked, values, side) for side in ("left", "right"))
    return np.asarray((below + up_to) / 2)


def ending_test(
    numbers: list[list[int]], cuts: Cuts, p: Floats, position: Floats, keywords: Floats
) -> EndingTest:
    """Returns the test of the scores of a set, beside those by position alone and by the keyword rule.

    Args:
        numbers: Of each usable conversation the numbers of the boundaries that were read, from 0.
        cuts: The pairs of a whole conversation and the same one cut, as indices of boundaries.
        p, position, keywords: Scores of all boundaries that were read, shape (boundaries,).
    """
    both = np.concatenate([cuts.whole, cuts.cut])
    label = [True] * len(cuts.whole) + [False] * len(cuts.cut)
    pair = [*range(len(cuts.whole))] * 2
    hits = int((p[cuts.whole] >= MIN_WHOLE_SCORE).sum())
    false_alarms = int((p[cuts.cut] >= MIN_WHOLE_SCORE).sum())
    curves, by_position, by_keywords = (
        _curves_of(numbers, values) for values in (p, position, keywords)
    )
    share, pairs = matched(curves)
    (of_position, _), (of_keywords, _) = matched(by_position), matched(by_keywords)
    return EndingTest(
        conversations=len(cuts.whole),
        auroc=auroc(p[both].tolist(), label, pair),
        f1=2 * hits / (len(cuts.whole) + hits + false_alarms),
        keywords=auroc(keywords[both].tolist(), label, pair).value,
        position=auroc(position[both].tolist(), label, pair).value,
        matched=share,
        matched_pairs=pairs,
        matched_keywords=None if of_keywords is None else of_keywords.value,
        matched_position=None if of_position is None else of_position.value,
        over_keywords=matched_difference(curves, by_keywords),
        over_position=matched_difference(curves, by_position),
    )


def _curves_of(numbers: list[list[int]], p: Floats) -> list[Floats]:
    """Returns the values at all boundaries of each conversation; NaN at those that were not read."""
    curves, first = [], 0
    for read_numbers in numbers:
        curve = np.full(read_numbers[-1] + 1, np.nan)
        curve[read_numbers] = p[first : first + len(read_numbers)]
        curves.append(curve)
        first += len(read_numbers)
    return curves
