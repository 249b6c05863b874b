"""Where conversations settle once groups stand: with most of their nearest neighbours.

A centre says little of a group that merges made: a conversation at its edge may be nearer to the centre of another, and
one far from every centre may lie among members of one group alone. So after merging each row goes to the group that
holds most of its neighbours, by weight, again and again for a few rounds (label propagation; Zhu & Ghahramani 2002,
CMU-CALD-02-107, with a majority in the place of a distribution).
"""

from __future__ import annotations

import numpy as np

from engine.goals.clusters.neighbours import Near
from engine.goals.embedders.vectors import Mask, Numbers, blocks

NEIGHBOURS = 10
SHARE = 0.6
"""Of the neighbours' weight, cosines above 0, that a group needs to draw a row."""
ROUNDS = 3


def settled(near: Near, labels: Numbers, fixed: Mask) -> Numbers:
    """The group of each row after settling. A group that would lose all of its rows keeps those it had.

    Args:
        near: For each of n rows the nearest others, as row numbers.
        labels: Group of each row, shape (n,); negative for a row that is in none, which votes for nothing.
        fixed: Rows that stay where they are, shape (n,); they vote.
    """
    groups = np.unique(labels[labels >= 0])
    now = labels
    for _ in range(ROUNDS):
        following = _round(near, now)
        following[fixed] = labels[fixed]
        # What one group keeps may have been all that another had drawn.
        while len(lost := np.setdiff1d(groups, following)):
            kept = np.isin(labels, lost)
            following[kept] = labels[kept]
        if np.array_equal(following, now):
            break
        now = following
    return now


def _round(near: Near, labels: Numbers) -> Numbers:
    found = labels.copy()
    for part in blocks(len(labels), 4_096):
        rows = near.rows[part]
        votes = np.where(rows >= 0, labels[rows], -1)
        weights = np.where(votes >= 0, np.maximum(0.0, 1.0 - near.distances[part]), 0.0)
        same = votes[:, :, None] == votes[:, None, :]
        held = (same * weights[:, None, :]).sum(axis=2)
        best = held.argmax(axis=1)
        at = np.arange(len(best))
        drawn = (held[at, best] >= SHARE * weights.sum(axis=1)) & (weights[at, best] > 0)
        found[part] = np.where(drawn, votes[at, best], found[part])
    return found
