"""Reads the goals of an open project: its clusterings, the current groups and their members."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from engine.base.arrays import Ints
from engine.base.errors import NotFound
from engine.completeness.records import StateCounts
from engine.completeness.tables import score_sets, scores
from engine.conversations.filters import NO_FILTER, Filter
from engine.conversations.tables.conversations import names
from engine.conversations.tables.earlier_states import count_replaced_texts
from engine.conversations.tables.selecting import matching
from engine.goals.labels.member_texts import distinct_starts, without_instructions
from engine.goals.records import (
    Author,
    ClusteringSummary,
    GoalGroup,
    GroupExamples,
    GroupPeriod,
    Ids,
    MemberOrder,
    MemberRow,
)
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.clusterings import source_of, stored_clustering
from engine.goals.tables.groups import COMPARED_DECIMALS
from engine.goals.views.clustering_view import (
    ClusteringView,
    Space,
    filtered_rows,
    group_row,
    group_rows,
    outcomes_of_groups,
    states_of_groups,
    summarize,
    with_outcomes,
)
from engine.goals.views.merge_queue import MergeQueueCache
from engine.model.embedders.vectors import Floats, blocks
from engine.project.project import Project
from engine.project.sql import snapshot
from engine.questions.tables import answers


class GoalService:
    """The groups of one clustering of a project: that of goals, or the one that is open.

    Every method may be called from any thread. Unless its docstring says otherwise, it raises `NotYet` before anything
    was clustered.
    """

    def __init__(
        self,
        project: Project,
        queue_cache: MergeQueueCache,
        changed: Callable[[], None],
        clustering_id: Callable[[sqlite3.Connection], int | None] = clusterings.goals_clustering_id,
    ) -> None:
        """Opens no file and reads nothing.

        Args:
            project: The project.
            queue_cache: Gives the view of each clustering.
            changed: Called when another clustering is opened.
            clustering_id: Reads the id of the clustering that this service is about; None before there is one.
        """
        self._project, self._cache, self._changed = project, queue_cache, changed
        self._clustering_id = clustering_id
        self._states: tuple[tuple[object, ...], Mapping[int, StateCounts]] | None = None
        self._outcomes: tuple[tuple[object, ...], Mapping[int, tuple[int, int]]] | None = None
        self._imported: tuple[tuple[object, ...], Mapping[int, bool]] | None = None

    # Clusterings and groups

    def clusterings(self) -> list[ClusteringSummary]:
        """Returns all clusterings, oldest first. Quick."""
        with self._project.reading() as conn, snapshot(conn):
            return [summarize(conn, clustering) for clustering in clusterings.every(conn)]

    def shown(self) -> ClusteringSummary | None:
        """Returns the clustering of this service; None before any was made. Quick."""
        with self._project.reading() as conn, snapshot(conn):
            key = self._clustering_id(conn)
            return None if key is None else summarize(conn, stored_clustering(conn, key))

    def show(self, clustering_id: int) -> None:
        """Opens another clustering; one of goals becomes that of the project.

        Raises:
            NotFound: There is no such clustering.
        """
        clustering = self._project.read(clusterings.find, clustering_id)
        if clustering is None:
            raise NotFound(f"There is no clustering {clustering_id}.")
        self._project.write(lambda conn: clusterings.open_clustering(conn, clustering_id))
        self._changed()

    def view(self) -> ClusteringView:
        """Returns the clustering of this service with the current groups."""
        with self._project.reading() as conn:
            stored = stored_clustering(conn, self._clustering_id(conn))
        return self._cache.view(stored.id)

    def groups(self, filter: Filter = NO_FILTER) -> list[GoalGroup]:
        """Returns the current groups, largest first; none before a clustering was made.

        Args:
            filter: Counts only conversations that match, and leaves out groups without any.

        Raises:
            WorkbenchError: The filter cannot be answered.
        """
        if self.shown() is None:
            return []
        view = self.view()
        if filter:
            with self._project.reading() as conn, snapshot(conn):
                return filtered_rows(conn, view, matching(conn, filter))
        return self._groups_of(view)

    def _groups_of(self, view: ClusteringView) -> list[GoalGroup]:
        """Returns the current groups of a view, largest first."""
        with self._project.reading() as conn, snapshot(conn):
            outcomes = self._outcomes_of_groups(conn, view)
        return with_outcomes(self.groups_without_outcomes(view), outcomes)

    def groups_without_outcomes(self, view: ClusteringView) -> list[GoalGroup]:
        """Returns the current groups of a view, largest first, without the numbers of conversations that failed, which
        take long to count."""
        return group_rows(view, self._states_of_groups(view))

    def group(self, group_id: str) -> GoalGroup | None:
        """Returns a current or former group; None if there never was one of this id."""
        view = self.view()
        if group_id in view.sizes:
            return next(row for row in self._groups_of(view) if row.id == group_id)
        return group_row(view, group_id) if group_id in view.state.groups else None

    def merges(self) -> Counter[Author]:
        """Returns the number of merges in force by who decided; none before a clustering."""
        if self.shown() is None:
            return Counter()
        decisions = [group.made_by for group in self.view().state.groups.values()]
        return Counter(
            decision.decided_by
            for decision in decisions
            if decision is not None and decision.kind == "merge"
        )

    def _states_of_groups(self, view: ClusteringView) -> Mapping[int, StateCounts]:
        """Returns the states of the current groups by rank, the last ones if nothing changed since they were read."""
        with self._project.reading() as conn, snapshot(conn):
            config = score_sets.hash_in_force(conn)
            version = view, score_sets.rule(conn), config, measurements.scored(conn, config)
            cached = self._states
            if cached is None or cached[0] != version:
                self._states = cached = version, states_of_groups(conn, view)
        return cached[1]

    def _outcomes_of_groups(
        self, conn: sqlite3.Connection, view: ClusteringView
    ) -> Mapping[int, tuple[int, int]]:
        """Returns `outcomes_of_groups`, the last ones if nothing changed since they were counted.

        An answer does not make it read the imported outcomes again, which takes much longer than the answers.
        """
        imports_version = view, count_replaced_texts(conn)
        imported = self._imported
        if imported is None or imported[0] != imports_version:
            self._imported = imported = imports_version, answers.imported_outcomes(conn)
        version = *imports_version, answers.newest_id(conn)
        outcomes = self._outcomes
        if outcomes is None or outcomes[0] != version:
            groups = np.frombuffer(view.map_of_groups, dtype=">u2")
            self._outcomes = outcomes = version, outcomes_of_groups(conn, groups, imported[1])
        return outcomes[1]

    # Conversations

    def members(
        self, group_id: str | None, order: MemberOrder = "central", limit: int | None = None
    ) -> list[MemberRow]:
        """Returns the members of a current or former group, or for None the conversations in no group.

        Args:
            order: `central` has those nearest to the center first; `doubtful` those that are nearly as near to another
                group.
            limit: Most rows; None returns all.

        Raises:
            NotFound: There never was such a group.
        """
        view = self.view()
        if group_id is not None and group_id not in view.state.groups:
            raise NotFound(f"There is no group {group_id}.")
        ids = view.members(group_id)
        keys = list(view.sizes)
        if group_id is not None and group_id not in view.sizes:
            # a former group is compared with the current groups other than the one that it became
            current_id = view.state.current_of(group_id)
            keys = [group_id, *(key for key in keys if key != current_id)]
        distances = _distances(view, self._cache.space(view.stored), ids, keys, group_id)
        measure = distances.own if order == "central" else -distances.doubt
        chosen = np.lexsort((ids, measure.round(COMPARED_DECIMALS)))[:limit]
        return self._rows(view, keys, ids[chosen], distances.select(chosen))

    def examples(self, group_id: str, count: int) -> GroupExamples:
        """Returns the `count` most central and the `count` most doubtful members of a current or former group.

        Raises:
            NotFound: There never was such a group.
        """
        return GroupExamples(
            tuple(self.members(group_id, "central", count)),
            tuple(self.members(group_id, "doubtful", count)),
        )

    def periods(self) -> list[GroupPeriod]:
        """Returns sizes and shares of the groups by month, oldest first."""
        view = self.view()
        counts = self._project.read(measurements.months, view.map_of_groups)
        totals: dict[str, int] = {}
        for period, rank, size, _ in counts:
            if rank:  # 0 are conversations that the clustering does not know
                totals[period] = totals.get(period, 0) + size
        keys = list(view.sizes)
        return [
            GroupPeriod(period, keys[rank - 1], size, size / totals[period], states)
            for period, rank, size, states in counts
            if 0 < rank <= len(keys)
        ]

    def _rows(
        self, view: ClusteringView, keys: Sequence[str], ids: Ids, distances: _Distances
    ) -> list[MemberRow]:
        """Returns the rows of conversations in the order of `ids`, compared with the groups `keys`."""
        conversation_ids = ids.tolist()
        with self._project.reading() as conn, snapshot(conn):
            entries = source_of(view.stored).shown.read(conn, conversation_ids)
            external_ids = names(conn, conversation_ids)
            states = scores.states(conn, conversation_ids)
        labels = [view.state.groups[key].label for key in keys]
        texts = without_instructions([entry.text for entry in entries])
        return [
            MemberRow(
                conversation_id=conversation_id,
                external_id=external_ids[conversation_id],
                text=text,
                start=start,
                distance=float(own),
                doubt=float(doubt),
                other=labels[other] if other >= 0 else "",
                state=states[conversation_id],
            )
            for conversation_id, text, start, own, doubt, other in zip(
                conversation_ids, texts, distinct_starts(texts), *distances, strict=True
            )
        ]


class _Distances(NamedTuple):
    """Distances of conversations to groups; three arrays of shape (conversations,).

    Attributes:
        own: Cosine distance to the center of the own group, or of the nearest group where there is no own one.
        doubt: That distance divided by the distance to the nearest other group.
        other: Index of that other group, or of the nearest group where there is no own one; -1 if there is none.
    """

    own: Floats
    doubt: Floats
    other: Ints

    def select(self, indices: Ints) -> _Distances:
        """Returns the distances of some of the conversations, given by their indices."""
        return _Distances(self.own[indices], self.doubt[indices], self.other[indices])


def _distances(
    view: ClusteringView, space: Space, ids: Ids, keys: Sequence[str], own_key: str | None
) -> _Distances:
    """Returns the distances of conversations to the groups `keys`, of which `own_key` is theirs; None if none is."""
    centers = view.centers(keys, space)
    own, doubt = np.ones(len(ids), np.float32), np.ones(len(ids), np.float32)
    other = np.full(len(ids), -1)
    for block in blocks(len(ids)):
        distances = np.maximum(0, 1 - space.rows_of(ids[block]) @ centers.T)
        rows = np.arange(len(distances))
        nearest = distances.argmin(axis=1)
        own_index = nearest if own_key is None else np.full(len(rows), keys.index(own_key))
        own[block] = distances[rows, own_index]
        if len(keys) > 1:
            distances[rows, own_index] = np.inf
        if len(keys) > 1 or own_key is None:
            other[block] = nearest if own_key is None else distances.argmin(axis=1)
            doubt[block] = own[block] / np.maximum(1e-6, distances.min(axis=1))
    return _Distances(own, doubt, other)
