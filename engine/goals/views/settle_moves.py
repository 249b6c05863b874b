"""Computes the settling moves of a clustering as decisions; see `engine.goals.clusters.neighbours`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from engine.goals.clusters.neighbours import SETTLE_NEIGHBOURS, settle
from engine.goals.merges.merge_state import Ids
from engine.goals.records import Author, GoalDecision
from engine.goals.views.clustering_view import ClusteringView
from engine.goals.views.merge_queue_cache import MergeQueueCache
from engine.model.embedders.vectors import Mask


def settle_moves(
    view: ClusteringView,
    queue_cache: MergeQueueCache,
    decided: Sequence[GoalDecision],
    author: Author,
    note: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[GoalDecision]:
    """One move decision for each group that gains conversations, largest group first.

    Conversations that a person moved are not moved, nor are members of pinned groups and of groups that a person made
    by a split.

    Args:
        decided: The active decisions on the clustering.
        author: Author of the decisions.
        note: Called with (`indexed` or `looked at`, conversations done, conversations in all); may raise to stop.
    """
    keys = list(view.sizes)
    ids, labels = view.state.numbers(keys)
    with_vector = np.isin(ids, queue_cache.space(view.stored).ids, assume_unique=True)
    ids, labels = ids[with_vector], labels[with_vector]
    if len(ids) < 2 or not keys:
        return []
    neighbours = queue_cache.neighbours(view.stored, ids, partial(note, "indexed"))
    wanted = min(SETTLE_NEIGHBOURS, len(ids) - 1)
    near = neighbours.of_rows(np.arange(len(ids)), wanted, note=partial(note, "looked at"))
    found = settle(near, labels, _fixed(view, ids, decided))
    moves = []
    for place, key in enumerate(keys):
        drawn = ids[(found == place) & (labels != place)]
        if len(drawn):
            moves.append(
                GoalDecision("move", (key,), parts=(array("q", drawn.tolist()),), author=author)
            )
    return moves


def _fixed(view: ClusteringView, ids: Ids, decided: Sequence[GoalDecision]) -> Mask:
    placed = [np.asarray(d.parts[0]) for d in decided if d.kind == "move" and d.author == "human"]
    for key in view.state.current:
        group = view.state.groups[key]
        by = group.made_by
        if group.pinned or (by is not None and by.kind == "split" and by.author == "human"):
            placed.append(view.state.members(key))
    if not placed:
        return np.zeros(len(ids), dtype=np.bool_)
    return np.isin(ids, np.concatenate(placed))
