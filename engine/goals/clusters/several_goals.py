"""Which groups seem to hold several goals: those whose two halves lie about as far apart as groups do."""

from __future__ import annotations

import numpy as np

from engine.goals.clusters.clustering import split
from engine.model.embedders.vectors import Indices, Vectors, mean_direction

LEAST_MEMBERS = 8
"""Fewest members of a group that is looked at."""

MOST_MEMBERS = 2_000
"""Of a larger group so many members, drawn at random, are looked at."""

LEAST_APART = 0.75
"""From here on a group is proposed for splitting; docs/goals.md has how often that was right."""


def gap_between_parts(vectors: Vectors, members: Indices, seed: int = 0) -> float:
    """Returns the cosine distance between the centres of the two parts into which k-means splits a group; 0 where all
    members are equal.

    Args:
        vectors: Shape (n, d), rows of length 1.
        members: Rows of the group.
    """
    rows = np.sort(np.asarray(members, dtype=np.int64))
    if len(rows) > MOST_MEMBERS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_MEMBERS, replace=False))
    parts = split(vectors, rows, 2, seed)
    if len(parts) < 2:
        return 0.0
    first, second = (mean_direction(vectors, part) for part in parts)
    return float(1 - first @ second)


def usual_gap(centres: Vectors) -> float:
    """Returns the median distance from a group to the nearest other one; 1 where there is one group only.

    Args:
        centres: Mean vectors of the groups, shape (groups, d), rows of length 1.
    """
    if len(centres) < 2:
        return 1.0
    nearest = []
    for number, centre in enumerate(centres):
        near = centres @ centre
        near[number] = -np.inf
        nearest.append(1 - float(near.max()))
    return float(np.median(nearest))
