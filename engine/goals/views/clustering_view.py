"""Reads a clustering with its current groups: their members, centers and statistics.

*Latecomers* are conversations that were imported after the clustering and assigned to groups.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Floats
from engine.base.conversation import SUCCEEDED
from engine.completeness.records import StateCounts
from engine.goals.merges.merge_state import Group, MergeState
from engine.goals.records import Clustering, ClusteringSummary, GoalGroup, Ids
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.clusterings import Assignment, Cluster
from engine.goals.tables.groups import group_count
from engine.model.embedders.vectors import Vectors, unit_rows
from engine.project.sql import IdSet, snapshot
from engine.questions.tables import answers, example_probes

NO_IDS: Ids = np.empty(0, dtype=np.int64)
"""No conversations."""


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """The vectors of the conversations of a clustering and of those that came later: rows of length 1, in the order of
    `ids`, which ascend."""

    ids: Ids
    rows: Vectors

    def rows_of(self, ids: Ids) -> Vectors:
        """Returns the vectors of those of `ids` that have one, in this order, shape (ids with a vector, d); they must
        not be changed."""
        # a copy takes 1.5 GB for a million conversations
        if not len(self.ids) or np.array_equal(ids, self.ids):
            return self.rows
        indices = np.searchsorted(self.ids, ids)
        indices[indices == len(self.ids)] = 0
        rows: Vectors = self.rows[indices[self.ids[indices] == ids]]
        return rows


@dataclass(frozen=True, eq=False)
class ClusteringView:
    """A snapshot of a clustering with its decisions and assignments; it must not be changed.

    Attributes:
        stored: The clustering.
        state: The groups after the decisions.
        clusters: The original clusters, in the order of their numbers.
        assigned: Conversations that were assigned to groups after the clustering.
        stability: Mean Jaccard similarity of each cluster under resampling, by number; empty if it was not measured.
        _means: The means of groups that `mean` returned, by id; a cache, the only thing that changes.
    """

    stored: Clustering
    state: MergeState
    clusters: tuple[Cluster, ...]
    assigned: tuple[Assignment, ...]
    stability: Mapping[int, float]
    _means: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def read(
        cls, conn: sqlite3.Connection, stored: Clustering, state: MergeState
    ) -> ClusteringView:
        """Returns the view of a clustering whose decisions give `state`."""
        with snapshot(conn):
            return cls(
                stored,
                state,
                tuple(clusterings.clusters(conn, stored.id)),
                tuple(clusterings.assignments(conn, stored.id)),
                measurements.stability(conn, stored.id),
            )

    @cached_property
    def latecomers(self) -> Mapping[str | None, Ids]:
        """Conversations that were assigned to each current group after the clustering; None has those in no group."""
        ids_by_group: dict[str | None, list[int]] = {}
        for assignment in self.assigned:
            conversation_id = assignment.conversation_id
            group_id = self.state.latecomers.get(conversation_id, assignment.group)
            current_id = None if group_id is None else self.state.current_of(group_id)
            ids_by_group.setdefault(current_id, []).append(conversation_id)
        return {
            group_id: np.array(sorted(ids), dtype=np.int64)
            for group_id, ids in ids_by_group.items()
        }

    def members(self, group_id: str | None) -> Ids:
        """Returns the conversation ids of a current or former group, ascending; None gives those in no group."""
        members = self.state.members(group_id)
        if group_id is not None and group_id not in self.state.current:
            return members
        latecomers = self.latecomers.get(group_id, NO_IDS)
        return np.union1d(members, latecomers) if len(latecomers) else members

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Number of members of the current groups, the largest first."""
        sizes = {
            group_id: self.state.groups[group_id].size + len(self.latecomers.get(group_id, NO_IDS))
            for group_id in self.state.current
        }
        return dict(sorted(sizes.items(), key=lambda item: (-item[1], _order_of_id(item[0]))))

    @property
    def with_text(self) -> int:
        """Number of conversations that have a goal text."""
        return self.stored.conversations + len(self.assigned)

    @cached_property
    def map_of_groups(self) -> bytes:
        """The group of every conversation in the format of `engine.goals.tables.measurements`, which holds at most
        65,534 groups: the rank of the group in `sizes`, from 1; one more than the last rank for a conversation in no
        group; 0 for one that the clustering does not contain."""
        members = [self.members(group_id) for group_id in (*self.sizes, None)]
        ranks = np.zeros(
            1 + max((int(ids[-1]) for ids in members if len(ids)), default=0), dtype=">u2"
        )
        for rank, ids in enumerate(members, 1):
            ranks[ids] = rank
        return ranks.tobytes()

    def mean(self, group_id: str, space: Space) -> Floats | None:
        """Returns the mean vector of a group's members without latecomers, shape (d,).

        The mean of a part is its stored center if it is a cluster as it was made, otherwise that of its members in
        `space`. The result is None as soon as one part has no member with a vector.
        """
        if group_id in self._means:
            return self._means[group_id]
        sums: list[Floats] = []
        for part in self.state.parts(group_id):
            mean = self._mean_of(part, space)
            if mean is None:
                return None
            sums.append(part.size * mean)
        total: Floats = sum(sums[1:], start=sums[0])
        return self._means.setdefault(group_id, total / self.state.groups[group_id].size)

    def _mean_of(self, part: Group, space: Space) -> Floats | None:
        """Returns the mean vector of a group that was not merged, shape (d,); None if no member has one."""
        if self._as_clustered(part):
            return np.frombuffer(self._cluster_by_id[part.id].center, dtype="<f4").astype(
                np.float64
            )
        assert part.own_members is not None
        rows = space.rows_of(part.own_members)
        return np.asarray(rows.mean(axis=0, dtype=np.float64)) if len(rows) else None

    def centers(self, group_ids: Sequence[str], space: Space) -> Vectors:
        """Returns the mean vectors of groups scaled to length 1, shape (groups with a mean, d)."""
        means = [self.mean(group_id, space) for group_id in group_ids]
        return unit_rows(np.array([mean for mean in means if mean is not None], dtype=np.float32))

    def stability_of(self, group_id: str) -> float | None:
        """Returns the mean Jaccard similarity of a group under resampling; for a merged group the mean over its
        clusters, weighted by members. None if a split or a move changed its members, or if stability was not
        measured."""
        total = 0.0
        for part in self.state.parts(group_id):
            # the id of a cluster is `c` and its number
            value = self.stability.get(int(part.id[1:])) if self._as_clustered(part) else None
            if value is None:
                return None
            total += part.size * value
        return total / self.state.groups[group_id].size

    @cached_property
    def _cluster_by_id(self) -> Mapping[str, Cluster]:
        """The original clusters by the id of their group."""
        return {f"c{cluster.number}": cluster for cluster in self.clusters}

    def _as_clustered(self, group: Group) -> bool:
        """Returns whether a group is a cluster with its original members."""
        return (
            group.made_by is None
            and group.size == self._cluster_by_id[group.id].size
            and group.id not in self.state.changed_by_moves
        )


def states_of_groups(conn: sqlite3.Connection, view: ClusteringView) -> Mapping[int, StateCounts]:
    """Returns the states of the current groups, by rank from 1 as in `ClusteringView.map_of_groups`, read in one pass
    over the scores."""
    sizes = dict(enumerate(view.sizes.values(), 1))
    return measurements.states(conn, view.map_of_groups, sizes)


def summarize(conn: sqlite3.Connection, clustering: Clustering) -> ClusteringSummary:
    """Returns a clustering with the numbers of its groups, outliers and novel conversations as they are now."""
    return ClusteringSummary(
        clustering,
        groups=group_count(conn, clustering.id),
        outliers=clusterings.outlier_count(conn, clustering.id),
        novel=clusterings.assigned_version(conn, clustering.id)[1],
    )


def group_rows(view: ClusteringView, states: Mapping[int, StateCounts]) -> list[GoalGroup]:
    """Returns the current groups, largest first, with their states by rank."""
    return [
        group_row(view, group_id, rank, states[rank]) for rank, group_id in enumerate(view.sizes, 1)
    ]


def filtered_rows(conn: sqlite3.Connection, view: ClusteringView, among: IdSet) -> list[GoalGroup]:
    """Returns the current groups with sizes, shares and states of only the conversations of a set, largest first;
    groups without any are left out."""
    rank_of_conversation = np.frombuffer(view.map_of_groups, dtype=">u2")
    is_in_set = np.frombuffer(among.flags, dtype=np.uint8)  # 0 or 1
    # a conversation outside the set gets rank 0, as if the clustering did not contain it
    rank_in_set = np.zeros_like(rank_of_conversation)
    count = min(len(rank_of_conversation), len(is_in_set))
    rank_in_set[:count] = rank_of_conversation[:count] * is_in_set[:count]
    sizes = dict(enumerate(np.bincount(rank_in_set, minlength=len(view.sizes) + 2).tolist()))
    total = sum(sizes.values()) - sizes[0]
    states = measurements.states(conn, rank_in_set.tobytes(), sizes)
    rows = [
        replace(
            group_row(view, group_id, rank, states[rank]),
            size=sizes[rank],
            share=sizes[rank] / total,
        )
        for rank, group_id in enumerate(view.sizes, 1)
        if sizes[rank]
    ]
    outcomes = outcomes_of_groups(conn, rank_in_set, answers.imported_outcomes(conn))
    rows = with_outcomes(rows, outcomes)
    return sorted(rows, key=lambda row: (-row.size, row.number))


def outcomes_of_groups(
    conn: sqlite3.Connection, rank_of_conversation: NDArray[Any], imported: Mapping[int, bool]
) -> Mapping[int, tuple[int, int]]:
    """Returns how many conversations of each group failed, and of how many that is known, by the rank of the group.

    Args:
        rank_of_conversation: Rank of the group of each conversation by its id, 0 for none; shape (largest id + 1,).
        imported: Whether conversations succeeded by the outcome that came with them; a verdict takes precedence.
    """
    succeeded_by_id = {**imported, **example_probes.examples(conn, SUCCEEDED)}
    known: Counter[int] = Counter()
    failed: Counter[int] = Counter()
    for conversation_id, succeeded in succeeded_by_id.items():
        if conversation_id < len(rank_of_conversation):
            rank = int(rank_of_conversation[conversation_id])
            known[rank] += 1
            failed[rank] += not succeeded
    return {rank: (failed[rank], count) for rank, count in known.items()}


def with_outcomes(
    rows: Sequence[GoalGroup], outcomes: Mapping[int, tuple[int, int]]
) -> list[GoalGroup]:
    """Returns rows with their `outcomes`, as `outcomes_of_groups` counts them."""
    counts = [outcomes.get(row.number, (0, 0)) for row in rows]
    return [
        replace(row, failed=failed, with_outcome=known)
        for row, (failed, known) in zip(rows, counts, strict=True)
    ]


def group_row(
    view: ClusteringView, group_id: str, rank: int = 0, states: StateCounts | None = None
) -> GoalGroup:
    """Returns the row of a group; `rank` and `states` are for current groups only."""
    group = view.state.groups[group_id]
    size = view.sizes.get(group_id, group.size)
    return GoalGroup(
        id=group_id,
        number=rank,
        label=group.label,
        description=group.description,
        size=size,
        share=size / view.with_text,
        states=states or StateCounts(unscored=size),
        stability=view.stability_of(group_id),
        pinned=group.pinned,
        made_of=group.made_of,
        made_by=None if group.made_by is None else group.made_by.id,
        support=None if group.support is None else group.support.share,
        members_read=0 if group.support is None else group.support.read,
        theme=group.theme,
    )


def _order_of_id(group_id: str) -> tuple[str, float]:
    """Returns a sort key of a group id, a letter and a number as in `c12`: clusters first, each kind by number."""
    return group_id[0], float(group_id[1:])
