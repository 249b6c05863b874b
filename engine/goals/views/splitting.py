"""Groups that seem to hold several goals: their two halves, by k-means, lie about as far apart as groups do."""

from __future__ import annotations

import numpy as np

from engine.goals.clusters.clustering import split
from engine.goals.records import SplitProposal
from engine.goals.views.clustering_view import ClusteringView, Space
from engine.model.embedders.vectors import Indices, Vectors, mean_direction

MIN_MEMBERS = 8
"""Members below which a group is not looked at."""
MAX_MEMBERS = 2_000
"""Most members of a group that are looked at; of more, a random sample."""
MIN_APART = 0.75
"""Distance of the parts, as a share of the usual one (`usual_gap`), from which a group is proposed for splitting;
docs/goals.md has how often that was right."""
SPLIT_SEED = 0
"""Seed of k-means and of the sample."""


def gap_between_parts(vectors: Vectors, members: Indices, seed: int = SPLIT_SEED) -> float:
    """Returns the cosine distance between the centers of the two parts into which k-means splits a group; 0 where all
    members are equal.

    Args:
        vectors: Shape (n, d), rows of length 1.
        members: Rows of the group.
        seed: Seed of k-means and of the sample.
    """
    rows = np.sort(np.asarray(members, dtype=np.int64))
    if len(rows) > MAX_MEMBERS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MAX_MEMBERS, replace=False))
    parts = split(vectors, rows, 2, seed)
    if len(parts) < 2:
        return 0.0
    first, second = (mean_direction(vectors, part) for part in parts)
    return float(1 - first @ second)


def usual_gap(centers: Vectors) -> float:
    """Returns the median distance from a group to the nearest other one; 1 where there is one group only.

    Args:
        centers: Mean vectors of the groups, shape (groups, d), rows of length 1.
    """
    if len(centers) < 2:
        return 1.0
    gaps = []
    for row, center in enumerate(centers):
        cosines = centers @ center
        cosines[row] = -np.inf  # a group is not its own neighbor
        gaps.append(1 - float(cosines.max()))
    return float(np.median(gaps))


def split_candidates(view: ClusteringView, space: Space) -> list[SplitProposal]:
    """Returns the groups that seem to hold several goals, the one whose parts lie farthest apart first; without words.
    Pinned groups and parts of a split that a person made are left out: they were
    looked at.

    Args:
        space: The vectors of the clustering; conversations without one do not count.
    """
    state = view.state
    usual = usual_gap(view.centers([*state.current], space))
    candidates = []
    for key in state.current:
        group = state.groups[key]
        members = np.intersect1d(view.members(key), space.ids, assume_unique=True)
        # where most centers have an equal one, `usual` is 0, and nothing is a share of it
        if group.settled_by_person or len(members) < MIN_MEMBERS or not usual:
            continue
        rows = space.rows_of(members)
        all_rows = np.arange(len(rows))
        apart = gap_between_parts(rows, all_rows) / usual
        if apart >= MIN_APART:
            halves = split(rows, all_rows, 2, SPLIT_SEED)
            parts = tuple(tuple(members[half].tolist()) for half in halves)
            if len(parts) > 1:
                size = len(view.members(key))
                proposal = SplitProposal(
                    group_id=key,
                    label=group.label,
                    size=size,
                    apart=apart,
                    words=(),
                    parts=parts,
                )
                candidates.append(proposal)
    return sorted(candidates, key=lambda candidate: -candidate.apart)
