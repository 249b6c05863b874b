"""The merge desk as the project file keeps it: replayed from decisions, and changed by appending to them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from engine.errors import UsageError
from engine.goals.merges.decision_formatting import decision_row
from engine.goals.merges.merge_state import MergeState, replay
from engine.goals.merges.transfer import transfer_decisions
from engine.records.goals import DeskDecision, GoalDecision
from engine.store import clusterings, goal_decisions
from engine.store.project import Project
from engine.store.sql import snapshot, utc_now

T = TypeVar("T")
Plan = Callable[[MergeState], Iterable[DeskDecision]]
"""Gives decisions one after another; each is done to the desk before the next is asked for."""

KEPT = 2
"""Clusterings whose members are kept in memory."""


@dataclass(frozen=True, slots=True)
class _Version:
    """What a desk follows from: the newest decision and the labels of the clusters."""

    newest: int
    labels: tuple[str | None, int]


class DecisionLog:
    """The desks of a project's clusterings. May be used from any thread; a desk that it gives is not to be changed."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._guard = threading.Lock()
        self._clusters: dict[int, MergeState] = {}
        self._desks: dict[int, tuple[_Version, MergeState]] = {}

    def desk(self, clustering_id: int) -> MergeState:
        """What stands on a clustering.

        Raises:
            UsageError: There is no such clustering.
        """
        with self._project.reading() as conn, snapshot(conn):
            return self._read(conn, clustering_id)

    def history(self, clustering_id: int) -> list[GoalDecision]:
        """All decisions on a clustering, newest first."""
        with self._project.reading() as conn:
            found = goal_decisions.history(conn, clustering_id)
        return [decision_row(decision, stands) for decision, stands in reversed(found)]

    def standing(self, clustering_id: int) -> list[DeskDecision]:
        """The decisions on a clustering that stand, oldest first."""
        with self._project.reading() as conn:
            return _standing(conn, clustering_id)

    def decide(self, clustering_id: int, plan: Plan) -> list[GoalDecision]:
        """Appends the decisions of a plan as one act, in one transaction with what they were based on; an empty plan is
        no act.

        Raises:
            ProjectReadOnly: The project cannot be written.
            UsageError: One of them cannot be done to what stands; none was.
        """
        return self._changing(
            lambda conn: [decision_row(d) for d in self._act(conn, clustering_id, plan)],
        )

    def undo(self, clustering_id: int) -> GoalDecision | None:
        """Takes back the newest act that stands and gives its first decision; None when nothing is left."""
        return self._turn(clustering_id, goal_decisions.undo, False)

    def redo(self, clustering_id: int) -> GoalDecision | None:
        """Gives again what the newest undo took back; None when nothing was undone since the last act."""
        return self._turn(clustering_id, goal_decisions.redo, True)

    def add_clustering(self, **made: Any) -> int:
        """Stores a clustering (arguments of `engine.store.clusterings.add`), shows it and takes over what people
        decided on the one that was shown; all of it or nothing. Returns its id."""

        def work(conn: sqlite3.Connection) -> int:
            before = clusterings.shown(conn)
            key = clusterings.add(conn, **made)
            if before is not None:
                self._carry_over(conn, before, key)
            return key

        return self._changing(work)

    def return_to(self, clustering_id: int) -> None:
        """Shows a clustering that was made before, as if it was made now: takes over what people decided since on the
        one that was shown. To look at it as it was left, `engine.store.clusterings.show`."""

        def work(conn: sqlite3.Connection) -> None:
            before = clusterings.shown(conn)
            clusterings.show(conn, clustering_id)
            if before is not None and before != clustering_id:
                self._carry_over(conn, before, clustering_id)

        self._changing(work)

    def kept(self, clustering_id: int) -> list[tuple[GoalDecision, str]]:
        """Decisions on earlier clusterings that found no place on this one, with why."""
        with self._project.reading() as conn, snapshot(conn):
            found = []
            for _, decision, reason in waiting(conn, clustering_id):
                found.append((decision_row(decision), reason))
            return found

    def _turn(
        self,
        clustering_id: int,
        turn: Callable[[sqlite3.Connection, int], int | None],
        stands: bool,
    ) -> GoalDecision | None:
        def work(conn: sqlite3.Connection) -> GoalDecision | None:
            act = turn(conn, clustering_id)
            if act is None:
                return None
            found = [d for d, _ in goal_decisions.history(conn, clustering_id) if d.act == act]
            return decision_row(found[0], stands, len(found))

        return self._changing(work)

    def _changing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return self._project.write(work)
        except BaseException:
            # what is in memory may have been brought to what was then not stored
            with self._guard:
                self._desks.clear()
                self._clusters.clear()
            raise

    def _act(self, conn: sqlite3.Connection, clustering_id: int, plan: Plan) -> list[DeskDecision]:
        desk = self._read(conn, clustering_id).copy()
        act = following = goal_decisions.next_id(conn)
        done: list[DeskDecision] = []
        for wanted in plan(desk):
            decision = replace(
                desk.complete(wanted), id=following, act=act, given_at=wanted.given_at or utc_now()
            )
            desk.apply(decision)
            done.append(decision)
            following += 1
        goal_decisions.append(conn, clustering_id, done)
        self._keep(clustering_id, _version(conn, clustering_id), desk)
        return done

    def _carry_over(self, conn: sqlite3.Connection, before: int, key: int) -> None:
        """Takes over what stands or waits on one clustering to another, unless it comes from there or was taken over
        already."""
        here = {decision.id for decision, _ in goal_decisions.history(conn, key)}
        taken = {decision.carried for decision, _ in goal_decisions.history(conn, key)}
        left = {decision.id for _, decision, _ in waiting(conn, key)}
        sources = {before: _standing(conn, before)}
        for clustering_id, decision, _ in waiting(conn, before):
            sources.setdefault(clustering_id, []).append(decision)
        sources = {
            clustering_id: [
                d for d in decisions if d.id not in taken | here | left and d.carried not in here
            ]
            for clustering_id, decisions in sources.items()
        }
        lost: dict[int, str] = {}

        def plan(desk: MergeState) -> Iterable[DeskDecision]:
            # what was decided last comes first: what it settles is settled
            for clustering_id in sorted(sources, reverse=True):
                old = self._read(conn, clustering_id)
                lost.update((yield from transfer_decisions(old, sources[clustering_id], desk)))

        self._act(conn, key, plan)
        goal_decisions.keep(conn, key, lost)

    def _read(self, conn: sqlite3.Connection, clustering_id: int) -> MergeState:
        version = _version(conn, clustering_id)
        with self._guard:
            kept = self._desks.get(clustering_id)
        if kept is not None and kept[0] == version:
            return kept[1]
        desk = _decided(conn, clustering_id, self._base(conn, clustering_id))
        self._keep(clustering_id, version, desk)
        return desk

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

    def _keep(self, clustering_id: int, version: _Version, desk: MergeState) -> None:
        with self._guard:
            self._desks.pop(clustering_id, None)
            self._desks[clustering_id] = version, desk
            while len(self._desks) > KEPT:
                self._desks.pop(next(iter(self._desks)))


def _version(conn: sqlite3.Connection, clustering_id: int) -> _Version:
    return _Version(
        goal_decisions.newest(conn, clustering_id), clusterings.labelled(conn, clustering_id)
    )


def _standing(conn: sqlite3.Connection, clustering_id: int) -> list[DeskDecision]:
    return [d for d, stands in goal_decisions.history(conn, clustering_id) if stands]


def waiting(conn: sqlite3.Connection, clustering_id: int) -> list[tuple[int, DeskDecision, str]]:
    """(the clustering that it was given on, decision, reason) of what found no place on a clustering and waits for a
    later one."""
    found = []
    for decision_id, given_on, reason in goal_decisions.kept(conn, clustering_id):
        decisions = (d for d, _ in goal_decisions.history(conn, given_on) if d.id == decision_id)
        found += [(given_on, decision, reason) for decision in decisions]
    return found


def read_desk(conn: sqlite3.Connection, clustering_id: int) -> MergeState:
    """What stands on a clustering, read anew; `DecisionLog.desk` for whoever asks often.

    Raises:
        UsageError: There is no such clustering.
    """
    return _decided(conn, clustering_id, _undecided(conn, clustering_id))


def _undecided(conn: sqlite3.Connection, clustering_id: int) -> MergeState:
    """The clusters, without labels."""
    if clusterings.clustering(conn, clustering_id) is None:
        raise UsageError(f"There is no clustering {clustering_id}.", "Run `workbench run cluster`.")
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
    """The clusters with their labels and with what was decided on them."""
    named = {
        f"c{cluster.number}": (
            cluster.called,
            cluster.description,
        )
        for cluster in clusterings.clusters(conn, clustering_id)
    }
    return replay(base.named(named), _standing(conn, clustering_id))
