"""The log of decisions on groups: appends acts to the project file and replays them to the current groups."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from engine.base.errors import NotFound
from engine.goals.merges.merge_state import MergeState, replay
from engine.goals.merges.transfer import find_places, transfer_decisions
from engine.goals.records import GoalDecision
from engine.goals.tables import clusterings, second_goals
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables import groups as goal_groups
from engine.goals.tables.groups import GroupEntry
from engine.project.project import Project
from engine.project.sql import snapshot, utc_now

T = TypeVar("T")
Plan = Callable[[MergeState], Iterable[GoalDecision]]
"""Yields decisions one after another; each is applied to the state before the next is asked for."""

KEPT = 2
"""Clusterings whose members are kept in memory."""

MOVING = ("split", "move")
"""Kinds of decisions after which a conversation may not be in the group that its cluster became."""


@dataclass(frozen=True, slots=True)
class _Version:
    """Cache key of a state: the newest decision, and the labels of the clusters as `clusterings.labelled` returns
    them."""

    newest: int
    labels: tuple[str | None, int]


class DecisionLog:
    """The decisions on a project's clusterings. Safe to use from any thread. Callers must not change returned
    states."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._guard = threading.Lock()
        self._clusters: dict[int, MergeState] = {}
        self._states: dict[int, tuple[_Version, MergeState]] = {}

    def state(self, clustering_id: int) -> MergeState:
        """The groups of a clustering after its active decisions.

        Raises:
            UsageError: There is no such clustering.
        """
        with self._project.reading() as conn, snapshot(conn):
            return self._read(conn, clustering_id)

    def history(self, clustering_id: int) -> list[GoalDecision]:
        """All decisions on a clustering, newest first, including those that were undone."""
        with self._project.reading() as conn:
            return goal_decisions.history(conn, clustering_id)[::-1]

    def active(self, clustering_id: int) -> list[GoalDecision]:
        """The decisions on a clustering that were not undone, oldest first."""
        with self._project.reading() as conn:
            return _active(conn, clustering_id)

    def decide(self, clustering_id: int, plan: Plan) -> list[GoalDecision]:
        """Appends the decisions of a plan as one act, in the transaction that reads the state they are applied to. A
        plan without decisions stores nothing.

        Raises:
            ProjectReadOnly: The project cannot be written.
            UsageError: One of them cannot be applied; none was stored.
        """
        return self._write(lambda conn: self._act(conn, clustering_id, plan))

    def undo(self, clustering_id: int) -> GoalDecision | None:
        """Undoes the newest active act and returns its first decision; None if there is none."""
        return self._undo_or_redo(clustering_id, goal_decisions.undo, False)

    def redo(self, clustering_id: int) -> GoalDecision | None:
        """Redoes the act that was undone last and returns its first decision; None if nothing was undone since the last
        act."""
        return self._undo_or_redo(clustering_id, goal_decisions.redo, True)

    def add_clustering(self, **made: Any) -> int:
        """Stores a clustering (arguments of `engine.goals.tables.clusterings.add`), shows it and transfers the
        decisions of people from the one shown before, in one transaction. Returns its id."""

        def work(conn: sqlite3.Connection) -> int:
            before = clusterings.shown(conn)
            key = clusterings.add(conn, **made)
            if before is not None:
                self._take_over(conn, before, key)
            else:
                self._index(conn, key, self._read(conn, key), ())
            return key

        return self._write(work)

    def return_to(self, clustering_id: int) -> None:
        """Shows an earlier clustering and transfers the newer decisions of people from the one shown before.

        `engine.goals.tables.clusterings.show` shows it without a transfer."""

        def work(conn: sqlite3.Connection) -> None:
            before = clusterings.shown(conn)
            clusterings.show(conn, clustering_id)
            if before is not None and before != clustering_id:
                self._take_over(conn, before, clustering_id)

        self._write(work)

    def unplaced(self, clustering_id: int) -> list[tuple[GoalDecision, str]]:
        """(decision, reason) of each decision on an earlier clustering that could not be transferred to this one."""
        with self._project.reading() as conn, snapshot(conn):
            return [(d, reason) for _, d, reason in unplaced_decisions(conn, clustering_id)]

    def _undo_or_redo(
        self,
        clustering_id: int,
        turn: Callable[[sqlite3.Connection, int], int | None],
        active: bool,
    ) -> GoalDecision | None:
        def work(conn: sqlite3.Connection) -> GoalDecision | None:
            act = turn(conn, clustering_id)
            if act is None:
                return None
            found = [d for d in goal_decisions.history(conn, clustering_id) if d.act == act]
            self._index(conn, clustering_id, self._read(conn, clustering_id), found)
            return replace(found[0], active=active, count=len(found))

        return self._write(work)

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return self._project.write(work)
        except BaseException:
            # the states in memory may contain decisions that were not stored
            with self._guard:
                self._states.clear()
                self._clusters.clear()
            raise

    def _act(self, conn: sqlite3.Connection, clustering_id: int, plan: Plan) -> list[GoalDecision]:
        state = self._read(conn, clustering_id).copy()
        act = following = goal_decisions.next_id(conn)
        done: list[GoalDecision] = []
        for wanted in plan(state):
            decision = replace(
                state.complete(wanted), id=following, act=act, given_at=wanted.given_at or utc_now()
            )
            state.apply(decision)
            done.append(decision)
            following += 1
        goal_decisions.append(conn, clustering_id, done)
        self._keep(clustering_id, _version(conn, clustering_id), state)
        self._index(conn, clustering_id, state, done)
        return done

    def _index(
        self,
        conn: sqlite3.Connection,
        clustering_id: int,
        state: MergeState,
        decisions: Iterable[GoalDecision],
    ) -> None:
        """Stores the groups after these decisions for filters and views of SQL."""
        moved = any(decision.kind in MOVING for decision in decisions)
        clusters = self._base(conn, clustering_id) if moved else None
        store_groups(conn, clustering_id, state, clusters)

    def _take_over(self, conn: sqlite3.Connection, before: int, key: int) -> None:
        """Transfers the active and the unplaced decisions of one clustering to another, except those that come from
        there or were transferred already, and what was said of second goals."""
        history = goal_decisions.history(conn, key)
        here = {decision.id for decision in history}
        taken = {decision.source_id for decision in history}
        left = {decision.id for _, decision, _ in unplaced_decisions(conn, key)}
        sources = {before: _active(conn, before)}
        for clustering_id, decision, _ in unplaced_decisions(conn, before):
            sources.setdefault(clustering_id, []).append(decision)
        sources = {
            clustering_id: [
                d for d in decisions if d.id not in taken | here | left and d.source_id not in here
            ]
            for clustering_id, decisions in sources.items()
        }
        unplaced: dict[int, str] = {}

        def plan(state: MergeState) -> Iterable[GoalDecision]:
            # the newest clustering first, because its decisions take precedence
            for clustering_id in sorted(sources, reverse=True):
                old = self._read(conn, clustering_id)
                unplaced.update((yield from transfer_decisions(old, sources[clustering_id], state)))

        self._act(conn, key, plan)
        goal_decisions.add_unplaced(conn, key, unplaced)
        judged = {group for _, group in second_goals.judged(conn, before)}
        found = find_places(self._read(conn, before), self._read(conn, key), judged)
        second_goals.carry_over(conn, before, key, found)

    def _read(self, conn: sqlite3.Connection, clustering_id: int) -> MergeState:
        version = _version(conn, clustering_id)
        with self._guard:
            kept = self._states.get(clustering_id)
        if kept is not None and kept[0] == version:
            return kept[1]
        state = _decided(conn, clustering_id, self._base(conn, clustering_id))
        self._keep(clustering_id, version, state)
        return state

    def _base(self, conn: sqlite3.Connection, clustering_id: int) -> MergeState:
        with self._guard:
            known = self._clusters.get(clustering_id)
        if known is not None:
            return known
        base = _undecided(conn, clustering_id)
        with self._guard:
            self._clusters[clustering_id] = base
            while len(self._clusters) > KEPT:
                self._clusters.pop(next(iter(self._clusters)))
        return base

    def _keep(self, clustering_id: int, version: _Version, state: MergeState) -> None:
        with self._guard:
            self._states.pop(clustering_id, None)
            self._states[clustering_id] = version, state
            while len(self._states) > KEPT:
                self._states.pop(next(iter(self._states)))


def _version(conn: sqlite3.Connection, clustering_id: int) -> _Version:
    return _Version(
        goal_decisions.newest(conn, clustering_id), clusterings.labelled(conn, clustering_id)
    )


def _active(conn: sqlite3.Connection, clustering_id: int) -> list[GoalDecision]:
    return [d for d in goal_decisions.history(conn, clustering_id) if d.active]


def unplaced_decisions(
    conn: sqlite3.Connection, clustering_id: int
) -> list[tuple[int, GoalDecision, str]]:
    """(clustering of the decision, decision, reason) of each decision that could not be transferred to a clustering;
    they are tried again on a later one."""
    found = []
    for decision_id, given_on, reason in goal_decisions.unplaced(conn, clustering_id):
        decisions = (d for d in goal_decisions.history(conn, given_on) if d.id == decision_id)
        found += [(given_on, decision, reason) for decision in decisions]
    return found


def read_merge_state(conn: sqlite3.Connection, clustering_id: int) -> MergeState:
    """The groups of a clustering after its active decisions, without a cache; `DecisionLog.state` has one.

    Raises:
        UsageError: There is no such clustering.
    """
    return _decided(conn, clustering_id, _undecided(conn, clustering_id))


def _undecided(conn: sqlite3.Connection, clustering_id: int) -> MergeState:
    """The clusters of a clustering as groups without labels and decisions."""
    if clusterings.clustering(conn, clustering_id) is None:
        raise NotFound(f"There is no clustering {clustering_id}.", "Run `workbench run cluster`.")
    every, numbers = (
        np.asarray(found, np.int64) for found in clusterings.membership(conn, clustering_id)
    )
    order = np.argsort(numbers, kind="stable")
    every, numbers = every[order], numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    parts = np.split(every, starts[1:])
    members = {int(numbers[at]): part for at, part in zip(starts, parts, strict=True)}
    return MergeState.of_clusters(
        {number: ids for number, ids in members.items() if number != clusterings.NONE},
        members.get(clusterings.NONE, ()),
    )


def _decided(conn: sqlite3.Connection, clustering_id: int, base: MergeState) -> MergeState:
    """`base` with the labels of the clusters, after the active decisions."""
    named = {
        f"c{cluster.number}": (cluster.name, cluster.description)
        for cluster in clusterings.clusters(conn, clustering_id)
    }
    return replay(base.named(named), _active(conn, clustering_id))


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
