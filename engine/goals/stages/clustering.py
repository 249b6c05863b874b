"""The stage that makes a clustering, the one that assigns later conversations to its groups, and what the other stages
on a clustering share.

- `ClusterStage` clusters vectors, and takes over the decisions of people from the clustering before it.
- `OnClustering` gives a stage the clustering that it works on, `OneActStage` is the base of those that decide about its
  groups in one act, which one undo takes back, and `GroupForecast` says for estimates what is known of the groups of a
  clustering that is still to be made.
- `AssignStage` assigns conversations that were imported later. One that is farther from every group than nearly all of
  their members is *novel*: it is stored without a group.
"""

from __future__ import annotations

import math
import sqlite3
from abc import abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.number_format import counted
from engine.goals.clusters.clustering import (
    MIN_MEMBERS,
    OUTLIER_DEVIATIONS,
    Clusters,
    Membership,
    assign,
    cluster,
    learn_membership,
)
from engine.goals.clusters.kmeans import propose_k
from engine.goals.labels.distinctive_words import distinctive_words
from engine.goals.labels.phrase_labels import phrase_labels
from engine.goals.records import Clustering, ClusterName, Ids
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings, vectors
from engine.goals.tables import decisions as goal_decisions
from engine.goals.tables.clusterings import PHRASES, Assignment, Cluster, stored_clustering
from engine.goals.tables.texts import LazyTexts, TextSource
from engine.goals.tables.vectors import digest_of, read_vectors
from engine.goals.views.decision_log import DecisionLog, Plan
from engine.goals.views.merge_queue import MergeQueueCache
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.embedders.vectors import Vectors, blocks
from engine.project import runs
from engine.project.project import Project

WORDS_PER_CLUSTER = 8
"""Most distinctive words that are stored with a cluster."""

CONVERSATIONS_PER_BATCH = 4_096
"""Conversations that are assigned in one transaction."""


@dataclass(frozen=True, slots=True)
class _NewClustering:
    """A clustering that is not stored yet.

    Attributes:
        ids: Ids of its conversations, in the order of the rows of `clusters`.
        k: Number of clusters asked for or proposed.
        clusters: The partition.
        cluster_rows, names: The rows of the clusters to store, and their names by number.
    """

    ids: Ids
    k: int
    clusters: Clusters
    cluster_rows: list[Cluster]
    names: dict[int, ClusterName]


class ClusterStage(CpuStage):
    """Clusters vectors, stores the result in one transaction and makes it the clustering that is shown."""

    name = "cluster"
    title = "Clustering goals"

    def __init__(
        self,
        project: Project,
        decision_log: DecisionLog,
        embed: EmbedStage,
        *,
        k: int | None = None,
        seed: int = 0,
        paper: bool = False,
        undecided: bool = False,
        unlabeled: bool = False,
    ) -> None:
        """Reads nothing yet.

        Args:
            embed: The stage before, whose vectors are clustered.
            k: Number of clusters, an overestimate; None proposes one from the data.
            paper: Whether every conversation is placed, as in the paper.
            undecided: Whether decisions of rules and models are taken back where the clustering is there already.
            unlabeled: Whether labels by phrases replace those of a model where the clustering is there already.
        """
        super().__init__(project)
        self._decision_log, self._embed = decision_log, embed
        self._k, self._seed, self._paper = k, seed, paper
        self._undecided, self._unlabeled = undecided, unlabeled
        self.clustering_id: int | None = None
        self._summary = "Nothing was clustered."

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "vectors": self._embed.vector_key,
            "among": digest_of(self._embed.ids),
            "k": self._k,
            "seed": self._seed,
            "paper": self._paper,
            "labels": PHRASES,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters and stores the result; if there is a clustering with the same parameters, shows it instead.

        Raises:
            UsageError: No conversation has a vector, more clusters are asked for than the conversations fill, or
                decisions of a person build on those that are to be taken back.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        if self.is_stored():
            self._show_again()
            return
        new = yield from self._run_on_thread(
            self._cluster_vectors, lambda done, note: Progress(done, None, note)
        )
        self._raise_if_cancelled()
        self._store(new, run_id)
        count = len(new.ids)
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    def _show_again(self) -> None:
        """Shows the stored clustering, and notes what of earlier runs is in force on it."""
        assert self.clustering_id is not None
        log, key = self._decision_log, self.clustering_id
        done = ""
        if self._undecided and (count := log.take_back(key)):
            done = f" {counted(count, 'decision')} of the rule or a model were taken back."
        log.return_to(key)
        if self._unlabeled and self._project.write(
            lambda conn: clusterings.show_labels(conn, key, PHRASES)
        ):
            done += " Labels are phrases again, in place of those of a model."
        in_force = len(log.by_program(key))
        if in_force and not self._undecided:
            done += (
                f" {counted(in_force, 'decision')} of the rule or a model are in force; `--decide none` takes them"
                " back."
            )
        self._summary = f"This was clustered before; it is shown again.{done}"

    def is_stored(self) -> bool:
        """Returns whether there is a clustering with the same parameters; `clustering_id` is then that one."""
        self.clustering_id = self._project.read(clusterings.newest_id, self.config_hash)
        return self.clustering_id is not None

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return self._summary

    def _cluster_vectors(self, report: OnProgress) -> _NewClustering:
        """Returns the clusters with words and labels; runs on a thread of its own.

        Raises:
            UsageError: There are too few conversations for so many clusters.
        """
        with self._project.reading() as conn:
            ids, rows = read_vectors(conn, self._embed.vector_key, self._embed.ids)
            report(0, f"{len(ids):,} vectors read")
            k, least = self._k, 1 if self._paper else MIN_MEMBERS
            if k is not None and k * least > max(len(ids), least):
                raise UsageError(
                    f"{counted(len(ids), 'conversation')} cannot fill {k:,} clusters of {least} or more.",
                    f"Ask for {max(1, len(ids) // least):,} at most, or leave --k1 out.",
                )
            if k is None:
                k = min(propose_k(rows, self._seed), max(1, len(ids)))
                report(0, f"{k} clusters proposed")
            clusters = cluster(
                rows,
                k,
                self._seed,
                cut=None if self._paper else OUTLIER_DEVIATIONS,
                least=least,
                note=lambda step, steps: report(0, f"{k} clusters, step {step} of {steps}"),
            )
            report(0, "looking for distinctive words")
            config = vectors.config(conn, self._embed.vector_key)
            assert config is not None
            texts = LazyTexts(conn, TextSource(config.text, config.goal_config).shown, ids)
            words = distinctive_words(
                texts, clusters.labels, count=WORDS_PER_CLUSTER, seed=self._seed
            )
            report(0, "looking for labels")
            names = phrase_labels(
                texts, clusters.labels, clusters.distances, self._seed, config.text
            )
        return _NewClustering(ids, k, clusters, _cluster_rows(rows, clusters, words), names)

    def _store(self, new: _NewClustering, run_id: int) -> None:
        """Stores the clustering, shows it and takes over the decisions of people."""
        numbers = (None if number < 0 else number for number in new.clusters.labels.tolist())
        self.clustering_id = self._decision_log.add_clustering(
            config_hash=self.config_hash,
            run_id=run_id,
            vector_config=self._embed.vector_key,
            k=new.k,
            seed=self._seed,
            clusters=new.cluster_rows,
            members=zip(new.ids.tolist(), numbers, new.clusters.distances.tolist(), strict=True),
            labels=new.names,
            paper=self._paper,
        )
        outliers = int((new.clusters.labels < 0).sum())
        conversations = counted(len(new.ids), "conversation")
        self._summary = (
            f"Clustered {conversations} into {new.clusters.k}, {counted(outliers, 'outlier')}."
        )
        transferred = len(self._decision_log.history(self.clustering_id))
        lost = len(self._decision_log.unplaced(self.clustering_id))
        if transferred or lost:
            self._summary += f" Decisions taken over: {transferred:,}; without a place: {lost:,}."


def _cluster_rows(
    rows: Vectors, clusters: Clusters, words: Mapping[int, tuple[str, ...]]
) -> list[Cluster]:
    """Returns the rows of the clusters to store, by number.

    Args:
        rows: Vectors of the conversations, shape (conversations, d).
        words: Distinctive words of each cluster, by number.
    """
    _, dimensions = rows.shape
    sums = np.zeros((clusters.k, dimensions), dtype=np.float64)
    for block in blocks(len(rows)):
        labels = clusters.labels[block]
        np.add.at(sums, labels[labels >= 0], rows[block][labels >= 0])
    return [
        Cluster(
            number=number,
            size=size,
            words=words.get(number, ()),
            center=(sums[number] / size).astype("<f4").tobytes(),
        )
        for number, size in enumerate(clusters.sizes.tolist())
    ]


class OnClustering:
    """Mixin of stages that work on one clustering: the one that the stage before makes, or the one that is open."""

    _project: Project
    _cluster: ClusterStage | None = None

    @cached_property
    def _stored(self) -> Clustering:
        """The clustering; read when it is first needed, because the stage before must have made it."""
        with self._project.reading() as conn:
            key = self._cluster.clustering_id if self._cluster else clusterings.open_id(conn)
            return stored_clustering(conn, key)


@dataclass(frozen=True, slots=True)
class GroupForecast:
    """What is known of the groups of a clustering that is still to be made, for estimates.

    Attributes:
        least, most: Fewest and most groups.
        conversations: Number of conversations in all groups.
        texts: Some texts, as many as a question shows if there are so many.
    """

    least: int
    most: int
    conversations: int
    texts: Sequence[str]

    @property
    def middling(self) -> int:
        """A number of groups between the fewest and the most, the geometric mean."""
        return math.isqrt(self.least * self.most)

    def texts_of(self, groups: int, limit: int) -> Sequence[str]:
        """Returns as many texts as some groups of mean size have where there is a middling number of them, at most
        `limit`."""
        return self.texts[: min(-(-self.conversations * groups // self.middling), limit)]


class OneActStage(OnClustering, CpuStage):
    """Decides about the groups of a clustering and stores the decisions as one act."""

    def __init__(
        self,
        project: Project,
        queue_cache: MergeQueueCache,
        *,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            cluster: The stage before that makes the clustering; None takes the one that is open.
        """
        super().__init__(project)
        self._queue_cache, self._cluster = queue_cache, cluster

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds all decisions together, and stores them.

        Raises:
            UsageError: Nothing was clustered yet, or somebody changed the groups meanwhile.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        plan = yield from self._run_on_thread(
            self._find_decisions, lambda done, note: Progress(done, None, note)
        )
        self._raise_if_cancelled()
        count = len(self._queue_cache.decision_log.decide(self._stored.id, plan))
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    @abstractmethod
    def _find_decisions(self, report: OnProgress) -> Plan:
        """Returns the plan of the act."""


class AssignStage(CpuStage):
    """Assigns the conversations that have a vector and are neither in the clustering nor assigned, in id order.

    Attributes:
        assigned, novel: Number of conversations that got a group, and that are like no group.
    """

    name = "assign"
    title = "Assigning conversations to groups"

    def __init__(self, project: Project, decision_log: DecisionLog, clustering: Clustering) -> None:
        """Reads nothing yet.

        Args:
            clustering: The clustering to whose groups it assigns.
        """
        super().__init__(project)
        self._decision_log, self._stored = decision_log, clustering
        self.assigned = self.novel = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The clustering and the newest decision on it, which determine the groups."""
        newest = self._project.read(goal_decisions.newest_row, self._stored.id)
        return {"clustering": self._stored.config_hash, "after": newest}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Finds the conversations and learns what the groups are like, then assigns in batches; yields how many are
        done. Each batch is one transaction with the counter of the run.

        Raises:
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
        ids, rows = self._project.read(read_vectors, self._stored.vector_config, batch)
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
        _, rows = self._project.read(read_vectors, self._stored.vector_config, ids)
        return groups, learn_membership(rows, labels, len(groups))
