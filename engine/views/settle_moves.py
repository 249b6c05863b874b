"""Settling the conversations of a clustering by their neighbours: decisions to move, all of them one act."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from engine.goals.clusters.settling import NEIGHBOURS, settled
from engine.goals.embedders.vectors import Mask
from engine.goals.merges.merge_state import Ids
from engine.records.goals import Author, DeskDecision
from engine.views.clustering_view import GoalView
from engine.views.merge_queue_cache import MergeQueueCache


def settling(
    view: GoalView,
    standing: MergeQueueCache,
    decided: Sequence[DeskDecision],
    author: Author,
    note: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[DeskDecision]:
    """Moves, one for each group that draws conversations, largest group first.

    Who was moved by a person stays, as do members of pinned groups and of those that a person made by a split.

    Args:
        decided: What stands on the clustering.
        note: Told what is done with conversations, with how many of them, and of how many; may raise to stop.
    """
    keys = list(view.sizes)
    ids, labels = view.desk.numbers(keys)
    with_vector = np.isin(ids, standing.space(view.stored).ids, assume_unique=True)
    ids, labels = ids[with_vector], labels[with_vector]
    if len(ids) < 2 or not keys:
        return []
    neighbours = standing.neighbours(view.stored, ids, partial(note, "indexed"))
    wanted = min(NEIGHBOURS, len(ids) - 1)
    near = neighbours.of_rows(np.arange(len(ids)), wanted, note=partial(note, "looked at"))
    found = settled(near, labels, _fixed(view, ids, decided))
    moves = []
    for place, key in enumerate(keys):
        drawn = ids[(found == place) & (labels != place)]
        if len(drawn):
            moves.append(
                DeskDecision("move", (key,), parts=(array("q", drawn.tolist()),), author=author)
            )
    return moves


def _fixed(view: GoalView, ids: Ids, decided: Sequence[DeskDecision]) -> Mask:
    placed = [np.asarray(d.parts[0]) for d in decided if d.kind == "move" and d.author == "human"]
    for key in view.desk.current:
        group = view.desk.groups[key]
        by = group.made_by
        if group.pinned or (by is not None and by.kind == "split" and by.author == "human"):
            placed.append(view.desk.members(key))
    if not placed:
        return np.zeros(len(ids), dtype=np.bool_)
    return np.isin(ids, np.concatenate(placed))
