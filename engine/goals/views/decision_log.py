"""Appends acts, which are decisions that belong together, to the project file, and replays all active decisions on the
clusters, which gives the current groups."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from engine.base.errors import NotFound, UsageError
from engine.base.number_format import counted
from engine.goals.merges.merge_state import MergeState, replay
from engine.goals.merges.transfer import transfer_decisions
from engine.goals.records import GoalDecision
from engine.goals.tables import clusterings
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables import groups as goal_groups
from engine.goals.tables.groups import GroupEntry
from engine.project.project import Project
from engine.project.sql import snapshot, utc_now

T = TypeVar("T")
"""What a write returns."""

Plan = Callable[[MergeState], Iterable[GoalDecision]]
"""Yields decisions one after another; each is applied to the state before the next is asked for."""

MOVING_KINDS = ("split", "move")
"""Kinds of decisions after which a conversation may not be in the group that its cluster became."""


_Version = tuple[int, int, tuple[str | None, int, int]]
"""What the state of a clustering follows from: the id of the clustering, that of its newest row in the log, and the
labels of its clusters as `clusterings.labels_version` tells them apart. It is the key of the cached state."""


class DecisionLog:
    """The decisions on a project's clusterings. Safe to use from any thread. Callers must not change returned
    states."""

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
        self._project = project
        # each cached state stands behind what it was made from; it is valid while that is the same
        self._clusters: tuple[int, MergeState] | None = None
        self._state: tuple[_Version, MergeState] | None = None

    def state(self, clustering_id: int) -> MergeState:
        """Returns the groups of a clustering after its active decisions.

        Raises:
            UsageError: There is no such clustering.
        """
        with self._project.reading() as conn, snapshot(conn):
            return self._read_state(conn, clustering_id)

    def history(self, clustering_id: int) -> list[GoalDecision]:
        """Returns all decisions on a clustering, newest first, including those that were undone."""
        return self._project.read(goal_decisions.history, clustering_id)[::-1]

    def active(self, clustering_id: int) -> list[GoalDecision]:
        """Returns the decisions on a clustering that are in force, oldest first."""
        return self._project.read(_active, clustering_id)

    def decide(self, clustering_id: int, plan: Plan) -> list[GoalDecision]:
        """Appends the decisions of a plan as one act, in the transaction that reads the state they are applied to. A
        plan without decisions stores nothing.

        Raises:
            ProjectReadOnly: The project cannot be written.
            UsageError: One of them cannot be applied; none was stored.
        """
        return self._write(lambda conn: self._append_act(conn, clustering_id, plan))

    def undo(self, clustering_id: int, act: int | None = None) -> GoalDecision | None:
        """Undoes an act and returns its first decision; None if there is none to undo. Without `act` it is the newest
        active one of a person: what a run decided by a rule or a model is undone by its number only. Later decisions on
        groups that the act made are out of force as long as it is.

        Raises:
            UsageError: A later decision that is in force cannot stand without the act.
        """

        def work(conn: sqlite3.Connection) -> GoalDecision | None:
            """Appends the undo, and stores the groups that follow."""
            undone = next(
                (
                    d.act
                    for d in reversed(_active(conn, clustering_id))
                    if (d.author == "human" if act is None else d.act == act)
                ),
                None,
            )
            if undone is None:
                return None
            goal_decisions.undo(conn, clustering_id, undone)
            history = goal_decisions.history(conn, clustering_id)
            try:
                state = self._read_state(conn, clustering_id)
            except UsageError as error:
                raise UsageError(
                    "A later decision cannot stand without this one.",
                    "Undo the later one first, in the history.",
                ) from error
            # A decision after it may be on a group that it made, and goes with it.
            since = [d for d in history if d.act >= undone]
            self._store_groups(conn, clustering_id, state, since)
            decisions = [d for d in history if d.act == undone]
            return replace(decisions[0], count=len(decisions))

        return self._write(work)

    def by_program(self, clustering_id: int) -> list[GoalDecision]:
        """Returns the decisions in force of rules and models by themselves, without themes, which every run decides."""
        return [
            d for d in self.active(clustering_id) if d.decided_by != "human" and d.kind != "theme"
        ]

    def take_back(self, clustering_id: int) -> int:
        """Undoes what rules and models decided by themselves, and returns the number of decisions, themes not counted;
        where there are only themes they stay.

        Raises:
            UsageError: A person decided on a group that one of them made; nothing was undone.
        """

        def work(conn: sqlite3.Connection) -> int:
            """Appends the undos, and stores the groups that follow."""
            active = _active(conn, clustering_id)
            undone = {d.id: d for d in active if d.decided_by != "human"}
            count = sum(d.kind != "theme" for d in undone.values())
            if not count:
                return 0
            made_groups = {key for d in undone.values() for key in d.made_groups}
            building = [
                d for d in active if d.id not in undone and not made_groups.isdisjoint(d.sides)
            ]
            if building:
                raise UsageError(
                    f"{counted(len(building), 'decision')} of yours build on groups that the rule or a model made.",
                    "Take them back (`workbench goals undo`), or cluster anew with another --seed.",
                )
            for act in dict.fromkeys(d.act for d in undone.values()):
                goal_decisions.undo(conn, clustering_id, act)
            self._store_groups(
                conn, clustering_id, self._read_state(conn, clustering_id), undone.values()
            )
            return count

        return self._write(work)

    def add_clustering(self, **made: Any) -> int:
        """Stores a clustering (arguments of `engine.goals.tables.clusterings.add`), shows it and transfers the
        decisions of people from the one before it of goals, or of the same reasons, in one transaction.
        Returns its id."""

        def work(conn: sqlite3.Connection) -> int:
            """Stores and shows the clustering."""
            current = clusterings.open_id(conn), clusterings.goals_clustering_id(conn)
            clustering_id = clusterings.add(conn, **made)
            before = clusterings.predecessor(conn, clustering_id, current)
            if before is not None:
                self._transfer(conn, before, clustering_id)
            else:
                self._store_groups(conn, clustering_id, self._read_state(conn, clustering_id), ())
            return clustering_id

        return self._write(work)

    def return_to(self, clustering_id: int) -> None:
        """Shows an earlier clustering and transfers the newer decisions of people as `add_clustering` does.

        `engine.goals.tables.clusterings.open_clustering` shows it without a transfer."""

        def work(conn: sqlite3.Connection) -> None:
            """Shows the earlier clustering."""
            current = clusterings.open_id(conn), clusterings.goals_clustering_id(conn)
            before = clusterings.predecessor(conn, clustering_id, current)
            clusterings.open_clustering(conn, clustering_id)
            if before not in (None, clustering_id):
                self._transfer(conn, before, clustering_id)

        self._write(work)

    def unplaced(self, clustering_id: int) -> list[tuple[GoalDecision, str]]:
        """Returns (decision, reason) of each decision on an earlier clustering that could not be transferred to this
        one."""
        with self._project.reading() as conn, snapshot(conn):
            unplaced = unplaced_decisions(conn, clustering_id)
        return [(decision, reason) for _, decision, reason in unplaced]

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what the work in a write transaction returns; if it fails, the cached states are dropped."""
        try:
            return self._project.write(work)
        except BaseException:
            # the states in memory may contain decisions that were not stored
            self._state = self._clusters = None
            raise

    def _append_act(
        self, conn: sqlite3.Connection, clustering_id: int, plan: Plan
    ) -> list[GoalDecision]:
        """Returns the stored decisions of a plan, each completed and applied before the next is planned."""
        state = self._read_state(conn, clustering_id).copy()
        act = next_id = goal_decisions.next_id(conn)
        decisions: list[GoalDecision] = []
        for planned in plan(state):
            decision = replace(
                state.complete(planned), id=next_id, act=act, given_at=planned.given_at or utc_now()
            )
            if decision.reviewed is None:
                state.apply(decision)
            decisions.append(decision)
            next_id += 1
        state.end_act()
        goal_decisions.append(conn, clustering_id, decisions)
        if any(decision.reviewed is not None for decision in decisions):
            # A review changes decisions before it, so all are replayed.
            state = _apply_decisions(conn, clustering_id, self._read_clusters(conn, clustering_id))
        self._state = _version(conn, clustering_id), state
        self._store_groups(conn, clustering_id, state, decisions)
        return decisions

    def _store_groups(
        self,
        conn: sqlite3.Connection,
        clustering_id: int,
        state: MergeState,
        decisions: Iterable[GoalDecision],
    ) -> None:
        """Stores the groups after these decisions, the last ones, for filters and views of SQL."""
        groups = [
            GroupEntry(
                key, state.current_of(key), group.label if group.named_by else None, group.theme
            )
            for key, group in state.groups.items()
        ]
        moves = None  # unchanged
        if any(d.kind in MOVING_KINDS or d.reviewed is not None for d in decisions):
            moves = _moves(state, self._read_clusters(conn, clustering_id))
        goal_groups.replace_groups(conn, clustering_id, groups, moves)

    def _transfer(self, conn: sqlite3.Connection, before: int, key: int) -> None:
        """Transfers the active and the unplaced decisions of one clustering to another, except those that come from
        there or were transferred already."""
        history = goal_decisions.history(conn, key)
        own_ids = {decision.id for decision in history}
        transferred_ids = {decision.source_id for decision in history}
        unplaced_ids = {decision.id for _, decision, _ in unplaced_decisions(conn, key)}
        sources = {before: _active(conn, before)}
        for clustering_id, decision, _ in unplaced_decisions(conn, before):
            sources.setdefault(clustering_id, []).append(decision)
        sources = {
            clustering_id: [
                d
                for d in decisions
                if d.id not in transferred_ids | own_ids | unplaced_ids
                and d.source_id not in own_ids
            ]
            for clustering_id, decisions in sources.items()
        }
        unplaced: dict[int, str] = {}

        def plan(state: MergeState) -> Iterable[GoalDecision]:
            """Yields the transferred decisions, and notes those that have no place."""
            # the newest clustering first, because its decisions take precedence
            for clustering_id in sorted(sources, reverse=True):
                old = self._read_state(conn, clustering_id)
                unplaced.update((yield from transfer_decisions(old, sources[clustering_id], state)))

        self._append_act(conn, key, plan)
        goal_decisions.add_unplaced(conn, key, unplaced)

    def _read_state(self, conn: sqlite3.Connection, clustering_id: int) -> MergeState:
        """Returns the groups of a clustering after its active decisions, from the cache if nothing has changed."""
        version, cached = _version(conn, clustering_id), self._state
        if cached is not None and cached[0] == version:
            return cached[1]
        state = _apply_decisions(conn, clustering_id, self._read_clusters(conn, clustering_id))
        self._state = version, state
        return state

    def _read_clusters(self, conn: sqlite3.Connection, clustering_id: int) -> MergeState:
        """Returns the clusters of a clustering as groups before any decision, from the cache if they are there."""
        cached = self._clusters
        if cached is None or cached[0] != clustering_id:
            self._clusters = cached = clustering_id, _clusters_as_groups(conn, clustering_id)
        return cached[1]


def _version(conn: sqlite3.Connection, clustering_id: int) -> _Version:
    """Returns the cache key of the state of a clustering as it is stored now."""
    newest_row = goal_decisions.newest_row(conn, clustering_id)
    return clustering_id, newest_row, clusterings.labels_version(conn, clustering_id)


def _active(conn: sqlite3.Connection, clustering_id: int) -> list[GoalDecision]:
    """Returns the decisions on a clustering that are in force (neither undone nor replaced in a review), oldest
    first."""
    return [d for d in goal_decisions.history(conn, clustering_id) if d.active]


def unplaced_decisions(
    conn: sqlite3.Connection, clustering_id: int
) -> list[tuple[int, GoalDecision, str]]:
    """Returns (clustering of the decision, decision, reason) of each decision that could not be transferred to a
    clustering; they are tried again on a later one."""
    unplaced = []
    for decision_id, given_on, reason in goal_decisions.unplaced(conn, clustering_id):
        decisions = (d for d in goal_decisions.history(conn, given_on) if d.id == decision_id)
        unplaced += [(given_on, decision, reason) for decision in decisions]
    return unplaced


def read_merge_state(conn: sqlite3.Connection, clustering_id: int) -> MergeState:
    """Returns the groups of a clustering after its active decisions, without a cache; `DecisionLog.state` has one.

    Raises:
        UsageError: There is no such clustering.
    """
    return _apply_decisions(conn, clustering_id, _clusters_as_groups(conn, clustering_id))


def _clusters_as_groups(conn: sqlite3.Connection, clustering_id: int) -> MergeState:
    """Returns the clusters of a clustering as groups without labels and decisions.

    Raises:
        NotFound: There is no such clustering.
    """
    if clusterings.find(conn, clustering_id) is None:
        raise NotFound(
            f"There is no clustering {clustering_id}.",
            "`workbench goals clusterings PROJECT` lists them.",
        )
    conversation_ids, numbers = (
        np.asarray(column, np.int64) for column in clusterings.membership(conn, clustering_id)
    )
    order = np.argsort(numbers, kind="stable")
    conversation_ids, numbers = conversation_ids[order], numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    parts = np.split(conversation_ids, starts[1:])
    members = {int(numbers[start]): part for start, part in zip(starts, parts, strict=True)}
    return MergeState.of_clusters(
        {number: ids for number, ids in members.items() if number != clusterings.OUTLIER},
        members.get(clusterings.OUTLIER, ()),
    )


def _apply_decisions(conn: sqlite3.Connection, clustering_id: int, base: MergeState) -> MergeState:
    """Returns `base` with the labels of the clusters, after the active decisions."""
    names = {
        f"c{cluster.number}": (cluster.name, cluster.description, cluster.support)
        for cluster in clusterings.clusters(conn, clustering_id)
    }
    return replay(base.named(names), _active(conn, clustering_id))


def _moves(state: MergeState, clusters: MergeState) -> Iterator[tuple[int, str | None]]:
    """Yields (conversation, group) of those whose group is not the one that their cluster became."""
    numbers, current = list(clusters.current), list(state.current)
    index_of_group = {key: row for row, key in enumerate(current)}
    successors = [state.current_of(key) for key in numbers]
    expected = np.array(
        [-1 if key is None else index_of_group[key] for key in successors] + [-1], np.int32
    )
    ids, cluster_indices = clusters.group_indices(numbers)
    _, group_indices = state.group_indices(current)
    for row in np.flatnonzero(group_indices != expected[cluster_indices]).tolist():
        yield int(ids[row]), current[group_indices[row]] if group_indices[row] >= 0 else None
    yield from state.latecomers.items()
