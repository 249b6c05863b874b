"""Settling: after merging, moves each conversation to the group that has most of its nearest neighbours.

The centre describes a merged group badly: a conversation at its edge may be nearer to the centre of another group, and
one far from every centre may lie among members of a single group. So each row takes the weighted majority label of its
neighbours, for a few rounds (label propagation; Zhu & Ghahramani 2002, CMU-CALD-02-107, with a majority instead of a
distribution).
"""

from __future__ import annotations

import numpy as np

from engine.goals.clusters.neighbours import NearestRows
from engine.model.embedders.vectors import Mask, Numbers, blocks

NEIGHBOURS = 10
SHARE = 0.6
"""Share of the neighbours' weight (their cosines, if positive) from which a row moves to a group."""
ROUNDS = 3


def settle(near: NearestRows, labels: Numbers, fixed: Mask) -> Numbers:
    """The group of each row after settling, shape (n,). A group that would lose all of its rows keeps them.

    Args:
        near: The nearest other rows of each of n rows.
        labels: Group of each row, shape (n,); negative for a row in none, which has no vote.
        fixed: Rows that do not move, shape (n,); they vote.
    """
    groups = np.unique(labels[labels >= 0])
    now = labels
    for _ in range(ROUNDS):
        following = _round(near, now)
        following[fixed] = labels[fixed]
        # The rows that one group keeps may have been all the rows of another.
        while len(lost := np.setdiff1d(groups, following)):
            kept = np.isin(labels, lost)
            following[kept] = labels[kept]
        if np.array_equal(following, now):
            break
        now = following
    return now


def _round(near: NearestRows, labels: Numbers) -> Numbers:
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
