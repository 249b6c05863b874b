"""How well scores tell whole conversations from the same ones cut off: at random, and at the same place.

The truncation test compares a whole conversation with itself cut at random, so the whole one is always longer, and on
logs of one kind its length alone may tell. The matched test compares a whole conversation with longer ones cut at the
same boundary, counted from the first, so that neither position nor number of turns tells anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.validate.truncation import cut_at

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


def matched(values: Floats, counts: Sequence[int]) -> tuple[float | None, int]:
    """P(a whole conversation has a higher value than a longer one cut at the same boundary), ties counting half.

    Args:
        values: One for each boundary of all conversations, shape (boundaries,).
        counts: Number of boundaries of each conversation.

    Returns:
        The share over all pairs, None without any, and the number of pairs.
    """
    number = np.concatenate([np.arange(count) for count in counts]) if counts else np.empty(0)
    length = np.repeat(np.asarray(counts, dtype=np.int64), counts)
    ends = number == length - 1
    wins, pairs = 0.0, 0
    for place in np.unique(number):
        at = number == place
        whole, cut = values[at & ends], np.sort(values[at & ~ends])
        if len(whole) and len(cut):
            below = np.searchsorted(cut, whole, side="left")
            up_to = np.searchsorted(cut, whole, side="right")
            wins += float((below + up_to).sum()) / 2
            pairs += len(whole) * len(cut)
    return (wins / pairs if pairs else None), pairs
