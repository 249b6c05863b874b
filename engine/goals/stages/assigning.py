"""The stage that assigns conversations imported after a clustering to its current groups, or marks them as novel."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from engine.base.number_format import counted
from engine.completeness.tables.requests import RequestGoal
from engine.goals.clusters.clustering import Membership, assign, membership_of
from engine.goals.tables import clusterings
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import Assigned, StoredClustering
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.goal_inputs import read_vectors, stored_clustering
from engine.jobs.contract import Progress
from engine.jobs.cpu_stage import CpuStage
from engine.jobs.threaded_work import OnProgress
from engine.project import runs
from engine.project.project import Project

BATCH = 4_096


Item = TypeVar("Item")
Entry = TypeVar("Entry", Assigned, RequestGoal)


class ToGroupsStage(CpuStage):
    """Base class of the stages that assign something to the current groups of a clustering, batch by batch."""

    def __init__(
        self, project: Project, decision_log: DecisionLog, clustering_id: int | None = None
    ) -> None:
        """`clustering_id` is None for the clustering that is shown."""
        super().__init__(project)
        self._decision_log, self._clustering_id = decision_log, clustering_id
        self.assigned = self.novel = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The clustering and the newest decision on it, which determine the groups."""
        with self._project.reading() as conn:
            newest = goal_decisions.newest(conn, self._stored.id)
        return {"clustering": self._stored.config_hash, "after": newest}

    @cached_property
    def _stored(self) -> StoredClustering:
        with self._project.reading() as conn:
            return stored_clustering(conn, self._clustering_id)

    def _in_batches(
        self,
        run_id: int,
        items: Sequence[Item],
        size: int,
        assign_batch: Callable[
            [Sequence[Item], Sequence[str], Membership, OnProgress], Sequence[Entry]
        ],
        store: Callable[[sqlite3.Connection, int, int, Sequence[Entry]], None],
    ) -> Iterator[Progress]:
        """Learns what the groups are like, then assigns the items; each batch in one transaction with the counter of
        the run.

        Args:
            size: Items of a batch.
            assign_batch: Called with a batch, the ids of the groups and what their members are like.
            store: Called with the id of the clustering, that of the run and the entries of a batch.

        Raises:
            Cancelled: `interrupt` was called.
        """
        done, total = 0, len(items)
        if not total:
            return

        def commit(conn: sqlite3.Connection, entries: Sequence[Entry], done: int) -> None:
            store(conn, self._stored.id, run_id, entries)
            runs.count(conn, run_id, done, total)

        learned: list[tuple[list[str], Membership]] = []
        for _, note in self._live(self._membership, learned.append):
            yield Progress(0, total, note)
        groups, membership = learned[0]
        for start in range(0, total, size):
            self._check()
            batch = items[start : start + size]
            found: list[Sequence[Entry]] = []
            work = partial(assign_batch, batch, groups, membership)
            for _ in self._live(work, found.append):
                yield Progress(done, total)
            (entries,) = found
            done += len(batch)
            self._project.write(partial(commit, entries=entries, done=done))
            novel = sum(1 for entry in entries if entry.group is None)
            self.novel += novel
            self.assigned += len(entries) - novel
            yield Progress(done, total)

    def _membership(self, report: OnProgress) -> tuple[list[str], Membership]:
        """The ids of the current groups of the clustering, and what their members are like."""
        report(0, "learning from the groups")
        state = self._decision_log.state(self._stored.id)
        groups = list(state.current)
        ids, labels = state.numbers(groups)
        with self._project.reading() as conn:
            _, rows = read_vectors(conn, self._stored.vector_config, ids)
        return groups, membership_of(rows, labels, len(groups))


class AssignStage(ToGroupsStage):
    """Assigns the conversations that have a vector and are neither in the clustering nor assigned, in id order."""

    name = "assign"

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Assigning conversations to groups"

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the conversations, then assigns them in batches.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._check()
        stored = self._stored
        with self._project.reading() as conn:
            missing = clusterings.ids_without_assignment(conn, stored.id, stored.vector_config)
            before = clusterings.assignments(conn, stored.id)
        # conversations in a group whose merge or split was undone are assigned anew
        state = self._decision_log.state(stored.id)
        lost = [
            one.conversation_id for one in before if one.group and not state.current_of(one.group)
        ]
        items = array("q", sorted([*missing, *lost]))
        yield from self._in_batches(run_id, items, BATCH, self._assign, clusterings.assign)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        return (
            f"Assigned {counted(self.assigned, 'conversation')}; {self.novel:,} are like no group."
        )

    def _assign(
        self,
        batch: Sequence[int],
        groups: Sequence[str],
        membership: Membership,
        _report: OnProgress,
    ) -> list[Assigned]:
        with self._project.reading() as conn:
            ids, rows = read_vectors(conn, self._stored.vector_config, batch)
        found = assign(rows, membership)
        return [
            Assigned(
                conversation_id=conversation_id,
                group=groups[label] if (label := int(found.labels[at])) >= 0 else None,
                score=float(found.scores[at]),
                others=tuple((groups[number], score) for number, score in found.others[at]),
                distance=float(np.clip(found.distances[at], 0, 2)),
                after=self.params["after"],
            )
            for at, conversation_id in enumerate(ids.tolist())
        ]
