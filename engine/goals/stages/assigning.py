"""The stages that assign to the current groups of a clustering what came after it: conversations, and the single
requests of conversations with several. What is like no group is marked as novel."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.completeness.tables import requests
from engine.completeness.tables.requests import RequestGoal, requests_of
from engine.conversations.selection import ALL, Selection
from engine.conversations.tables import shared_text
from engine.goals.clusters.clustering import Membership, assign, membership_of
from engine.goals.records import Clustering
from engine.goals.stages.embedding import QUICK_BATCH, SLOW_BATCH, Vectorizer
from engine.goals.tables import clusterings, texts, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import Assignment, shown_id, stored_clustering
from engine.goals.tables.vectors import read_vectors
from engine.goals.views.decision_log import DecisionLog
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.embedders.embedder import Embedder, embedder_from_state
from engine.model.embedders.vectors import same_space
from engine.project import runs
from engine.project.project import Project
from engine.project.sql import id_pages

CONVERSATIONS_PER_BATCH = 4_096
"""Conversations that are assigned in one transaction."""

Item = TypeVar("Item")
"""What is assigned: the id of a conversation, or a request."""
Entry = TypeVar("Entry", Assignment, RequestGoal)
"""The assignment of an item, as it is stored."""

_CONVERSATIONS_PER_PAGE = 200
"""Conversations whose requests are read at once."""


class ToGroupsStage(CpuStage):
    """Base class of the stages that assign something to the current groups of a clustering, batch by batch."""

    def __init__(
        self, project: Project, decision_log: DecisionLog, clustering_id: int | None = None
    ) -> None:
        """`clustering_id` is None for the clustering of goals."""
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
            return stored_clustering(conn, self._clustering_id or shown_id(conn))

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
            """Stores a batch and the counter of the run."""
            store(conn, self._stored.id, run_id, entries)
            runs.count(conn, run_id, done, total)

        learned_groups: list[tuple[list[str], Membership]] = []
        for _, note in self._run_on_thread(self._membership, learned_groups.append):
            yield Progress(0, total, note)
        ((groups, membership),) = learned_groups
        for start in range(0, total, size):
            self._check()
            batch = items[start : start + size]
            batch_entries: list[Sequence[Entry]] = []
            work = partial(assign_batch, batch, groups, membership)
            for _ in self._run_on_thread(work, batch_entries.append):
                yield Progress(done, total)
            (entries,) = batch_entries
            done += len(batch)
            self._project.write(partial(commit, entries=entries, done=done))
            novel = sum(1 for entry in entries if entry.group is None)
            self.novel += novel
            self.assigned += len(entries) - novel
            yield Progress(done, total)

    def _membership(self, report: OnProgress) -> tuple[list[str], Membership]:
        """Returns the ids of the current groups of the clustering, and what their members are like."""
        report(0, "learning from the groups")
        state = self._decision_log.state(self._stored.id)
        groups = list(state.current)
        ids, labels = state.group_indices(groups)
        with self._project.reading() as conn:
            _, rows = read_vectors(conn, self._stored.vector_config, ids)
        return groups, membership_of(rows, labels, len(groups))


class AssignStage(ToGroupsStage):
    """Assigns the conversations that have a vector and are neither in the clustering nor assigned, in id order."""

    name = "assign"
    title = "Assigning conversations to groups"

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the conversations, then assigns them in batches; yields how many are done.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._check()
        stored = self._stored
        with self._project.reading() as conn:
            missing = clusterings.ids_without_assignment(conn, stored.id, stored.vector_config)
            assignments = clusterings.assignments(conn, stored.id)
        # conversations in a group whose merge or split was undone are assigned anew
        state = self._decision_log.state(stored.id)
        lost = [
            assignment.conversation_id
            for assignment in assignments
            if assignment.group and not state.current_of(assignment.group)
        ]
        items = array("q", sorted([*missing, *lost]))
        yield from self._in_batches(
            run_id, items, CONVERSATIONS_PER_BATCH, self._assign, clusterings.assign
        )

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
                after=self.params["after"],
            )
            for conversation_id, label, distance in zip(
                ids.tolist(), labels.tolist(), distances, strict=True
            )
        ]


RequestKey = tuple[int, int, int]
"""A request: the id of its conversation, and the indices of its first and last message."""


class AssignRequestsStage(ToGroupsStage):
    """Assigns the requests that are not assigned, with the kind of goal text and the embedder of the clustering."""

    name = "assign-requests"
    title = "Assigning requests to goals"
    unit = "requests"

    def __init__(
        self,
        project: Project,
        vectorizer: Vectorizer,
        decision_log: DecisionLog,
        selection: Selection = ALL,
    ) -> None:
        """Reads nothing yet.

        Args:
            vectorizer: With the embedder of the clustering.
            selection: The conversations whose requests are assigned.
        """
        super().__init__(project, decision_log)
        self._vectorizer, self._selection = vectorizer, selection
        self.lane = vectorizer.lane

    def interrupt(self) -> None:
        """Abandons the batch that is being embedded."""
        super().interrupt()
        self._vectorizer.cancel()

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the requests, then assigns them in batches; yields how many are done.

        Raises:
            NotYet: Nothing was clustered yet.
            UsageError: Summaries were clustered, or the embedder is not that of the clustering.
            Cancelled: `interrupt` was called.
        """
        self._check()
        if self._stored.text == "summary":
            raise UsageError(
                "This clustering is of summaries, and single requests have none.",
                "`workbench run cluster PROJECT --text all` clusters what was said.",
            )
        missing = self._missing()
        if not missing:
            return
        embedder = self._embedder()
        size = QUICK_BATCH if embedder.kind == "tfidf" else SLOW_BATCH
        yield from self._in_batches(
            run_id, missing, size, partial(self._assign, embedder), requests.put_goals
        )

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        request_count = counted(self.assigned, "request")
        return f"Assigned {request_count} to goals; {self.novel:,} like no goal."

    def _missing(self) -> list[RequestKey]:
        """Returns the requests that are not assigned, of conversations with several."""
        missing: list[RequestKey] = []
        with self._project.reading() as conn:
            for page in id_pages(conn, self._selection.ids(conn), _CONVERSATIONS_PER_PAGE):
                with_several = list(requests.starts(conn, page))
                assigned = requests.goals(conn, self._stored.id, with_several)
                for conversation_id, parts in requests_of(conn, with_several):
                    places = ((conversation_id, part.first, part.last) for part in parts)
                    missing += [key for key in places if key not in assigned]
        return missing

    def _embedder(self) -> Embedder:
        """Returns the embedder that made the vectors of the clustering; raises UsageError if this run has another
        one."""
        with self._project.reading() as conn:
            config = vectors.config(conn, self._stored.vector_config)
        assert config is not None
        embedder = self._vectorizer.embedder
        if config.state is not None:
            embedder = embedder_from_state(config.embedder, config.state)
        same_space(config.fingerprint, embedder.fingerprint)
        return embedder

    def _assign(
        self,
        embedder: Embedder,
        keys: Sequence[RequestKey],
        groups: Sequence[str],
        membership: Membership,
        _report: OnProgress,
    ) -> list[RequestGoal]:
        """Returns the assignment of each request of a batch."""
        with self._project.reading() as conn:
            left_out = shared_text.of_vectors(conn, self._stored.vector_config)
            goal_texts = [texts.of_part(conn, *key, self._stored.text, left_out) for key in keys]
        labels, _ = assign(embedder.embed(goal_texts), membership)
        return [
            RequestGoal(*key, groups[label] if label >= 0 else None)
            for key, label in zip(keys, labels, strict=True)
        ]
