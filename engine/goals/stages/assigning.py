"""The stage that assigns conversations that were imported after a clustering to its current groups. A conversation that
is farther from every group than nearly all of their members is *novel*: it is stored without a group."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.clustering import Membership, assign, learn_membership
from engine.goals.records import Clustering
from engine.goals.tables import clusterings
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import Assignment, goals_clustering_id, stored_clustering
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.project import runs
from engine.project.project import Project

CONVERSATIONS_PER_BATCH = 4_096
"""Conversations that are assigned in one transaction."""


class AssignStage(CpuStage):
    """Assigns the conversations that have a vector and are neither in the clustering nor assigned, in id order.

    Attributes:
        assigned, novel: Number of conversations that got a group, and that are like no group.
    """

    name = "assign"
    title = "Assigning conversations to groups"

    def __init__(
        self, project: Project, decision_log: DecisionLog, clustering_id: int | None = None
    ) -> None:
        """Reads nothing yet.

        Args:
            clustering_id: Id of the clustering to whose groups it assigns; None takes that of goals.
        """
        super().__init__(project)
        self._decision_log, self._clustering_id = decision_log, clustering_id
        self.assigned = self.novel = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The clustering and the newest decision on it, which determine the groups."""
        with self._project.reading() as conn:
            newest = goal_decisions.newest_row(conn, self._stored.id)
        return {"clustering": self._stored.config_hash, "after": newest}

    @cached_property
    def _stored(self) -> Clustering:
        """The clustering whose groups are assigned to."""
        with self._project.reading() as conn:
            return stored_clustering(conn, self._clustering_id or goals_clustering_id(conn))

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the conversations and learns what the groups are like, then assigns in batches; yields how many are
        done. Each batch is one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        stored = self._stored
        with self._project.reading() as conn:
            missing = clusterings.ids_without_assignment(conn, stored.id, stored.vector_config)
            assignments = clusterings.assignments(conn, stored.id)
        # conversations in a group whose merge or split was undone are assigned anew
        state = self._decision_log.state(stored.id)
        without_group = [
            assignment.conversation_id
            for assignment in assignments
            if assignment.group and not state.current_of(assignment.group)
        ]
        ids = array("q", sorted([*missing, *without_group]))
        done, total = 0, len(ids)
        if not total:
            return

        def commit(conn: sqlite3.Connection, batch: Sequence[Assignment]) -> None:
            """Stores a batch and the counter of the run."""
            clusterings.assign(conn, stored.id, run_id, batch)
            runs.count(conn, run_id, done, total)

        def progress(_count: int, note: str) -> Progress:
            """Returns the progress after the batches so far."""
            return Progress(done, total, note)

        groups, membership = yield from self._run_on_thread(self._membership, progress)
        for start in range(0, total, CONVERSATIONS_PER_BATCH):
            self._raise_if_cancelled()
            batch = ids[start : start + CONVERSATIONS_PER_BATCH]
            assign_batch = partial(self._assign, batch, groups, membership)
            assigned = yield from self._run_on_thread(assign_batch, progress)
            done += len(batch)
            self._project.write(partial(commit, batch=assigned))
            novel = sum(1 for assignment in assigned if assignment.group is None)
            self.novel += novel
            self.assigned += len(assigned) - novel
            yield Progress(done, total)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return (
            f"Assigned {counted(self.assigned, 'conversation')}; {self.novel:,} are like no group."
        )

    def _assign(
        self,
        batch: Sequence[int],
        groups: Sequence[str],
        membership: Membership,
        _report: OnProgress,
    ) -> list[Assignment]:
        """Returns the assignment of each conversation of a batch."""
        with self._project.reading() as conn:
            ids, rows = read_vectors(conn, self._stored.vector_config, batch)
        labels, distances = assign(rows, membership)
        return [
            Assignment(
                conversation_id=conversation_id,
                group=groups[label] if label >= 0 else None,
                distance=float(np.clip(distance, 0, 2)),
                newest_decision=self.params["after"],
            )
            for conversation_id, label, distance in zip(
                ids.tolist(), labels.tolist(), distances, strict=True
            )
        ]

    def _membership(self, report: OnProgress) -> tuple[list[str], Membership]:
        """Returns the ids of the current groups of the clustering, and what their members are like."""
        report(0, "learning from the groups")
        state = self._decision_log.state(self._stored.id)
        groups = list(state.current)
        ids, labels = state.group_indices(groups)
        with self._project.reading() as conn:
            _, rows = read_vectors(conn, self._stored.vector_config, ids)
        return groups, learn_membership(rows, labels, len(groups))
