"""The groups of a clustering that seem to hold several goals, with the parts into which k-means splits them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.goals.clusters.clustering import split
from engine.goals.clusters.several_goals import (
    LEAST_APART,
    LEAST_MEMBERS,
    gap_between_parts,
    usual_gap,
)
from engine.goals.merges.merge_state import MergeState, pair_of
from engine.goals.records import GoalDecision, Pair
from engine.goals.views.clustering_view import ClusteringView, Space

SEED = 0


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """A group that may hold several goals.

    Attributes:
        apart: Distance between the centres of its two parts, as a share of the usual distance between groups.
        parts: Conversation ids of each part, the larger one first.
    """

    group_id: str
    apart: float
    parts: tuple[tuple[int, ...], ...]


def split_candidates(view: ClusteringView, space: Space) -> list[SplitCandidate]:
    """Returns the candidates, the one whose parts lie farthest apart first. Pinned groups and parts of a split that a
    person made are left out: they were looked at."""
    state = view.state
    usual = usual_gap(view.centres([*state.current], space))
    found = []
    for key in state.current:
        group = state.groups[key]
        members = np.intersect1d(view.members(key), space.ids, assume_unique=True)
        by = group.made_by
        looked_at = group.pinned or (by is not None and by.kind == "split" and by.author == "human")
        if looked_at or len(members) < LEAST_MEMBERS or not usual:
            continue
        rows = space.of(members)
        apart = gap_between_parts(rows, np.arange(len(rows)), SEED) / usual
        if apart >= LEAST_APART:
            halves = split(rows, np.arange(len(rows)), 2, SEED)
            parts = tuple(tuple(members[half].tolist()) for half in halves)
            if len(parts) > 1:
                found.append(SplitCandidate(key, apart, parts))
    return sorted(found, key=lambda one: -one.apart)


def as_if_split(
    state: MergeState, candidates: Sequence[SplitCandidate]
) -> tuple[MergeState, list[Pair]]:
    """Returns a state in which the candidates are split, which is stored nowhere, and the pair of parts of each."""
    supposed = state.copy()
    pairs = []
    for number, one in enumerate(candidates, 1):
        parts = tuple(array("q", part) for part in one.parts)
        decision = GoalDecision("split", (one.group_id,), parts=parts)
        decision = replace(supposed.complete(decision), id=-number)
        supposed.apply(decision)
        first, second = decision.made[:2]
        pairs.append(pair_of(first, second))
    return supposed, pairs
