"""Writes the tables of current groups that filters and views of SQL read (`engine.goals.tables.groups`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np

from engine.goals.merges.merge_state import MergeState
from engine.goals.tables import groups as goal_groups
from engine.goals.tables.groups import GroupEntry


def store_groups(
    conn: sqlite3.Connection, clustering_id: int, state: MergeState, clusters: MergeState | None
) -> None:
    """Stores the groups of a clustering after its decisions.

    Args:
        clusters: The state before any decision, if a decision has moved conversations; None if no move has changed.
    """
    groups = [
        GroupEntry(key, state.current_of(key), group.label if group.named_by else None)
        for key, group in state.groups.items()
    ]
    moves = None if clusters is None else _moves(state, clusters)
    goal_groups.put(conn, clustering_id, groups, moves)


def _moves(state: MergeState, clusters: MergeState) -> Iterator[tuple[int, str | None]]:
    """(conversation, group) of those whose group is not the one that their cluster became."""
    numbers, current = list(clusters.current), list(state.current)
    place = {key: at for at, key in enumerate(current)}
    became = [state.current_of(key) for key in numbers]
    expected = np.array([-1 if key is None else place[key] for key in became] + [-1], np.int32)
    ids, cluster = clusters.numbers(numbers)
    _, now = state.numbers(current)
    for at in np.flatnonzero(now != expected[cluster]).tolist():
        yield int(ids[at]), current[now[at]] if now[at] >= 0 else None
    yield from state.latecomers.items()
