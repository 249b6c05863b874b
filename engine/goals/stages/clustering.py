"""The stage that clusters vectors and transfers the decisions of people from the clustering that was shown before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.clustering import Clusters, cluster
from engine.goals.clusters.kmeans import propose_k
from engine.goals.questions.phrase_labels import distinctive_words, phrase_labels
from engine.goals.records import DEFAULT_TEXT
from engine.goals.stages.embedding import EmbedStage
from engine.goals.tables import clusterings, vectors
from engine.goals.tables.clusterings import PHRASES, LabelEntry, Member, NewCluster
from engine.goals.views.decision_log import DecisionLog
from engine.goals.views.goal_inputs import Ids, LazyTexts, TextSource, digest_of, read_vectors
from engine.jobs.contract import Progress
from engine.jobs.cpu_stage import CpuStage
from engine.jobs.threaded_work import OnProgress
from engine.model.embedders.vectors import Vectors, blocks
from engine.project import runs
from engine.project.project import Project

REACH = 0.99
"""Quantile of the members' distances to the centre that is stored as the reach of a cluster."""
WORDS = 8


@dataclass(frozen=True, slots=True)
class _Made:
    """A new clustering with the rows of its clusters to store."""

    ids: Ids
    k: int
    found: Clusters
    rows: list[NewCluster]
    names: list[LabelEntry]


class ClusterStage(CpuStage):
    """Clusters vectors, stores the result in one transaction and makes it the clustering that is shown."""

    name = "cluster"

    def __init__(
        self,
        project: Project,
        decision_log: DecisionLog,
        embed: EmbedStage,
        *,
        k: int | None = None,
        seed: int = 0,
        largest: int | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            embed: The stage before, whose vectors are clustered.
            k: Number of clusters, an overestimate; None proposes one from the data.
            largest: Clusters with more members are split again; None splits none.
        """
        super().__init__(project)
        self._decision_log, self._embed = decision_log, embed
        self._k, self._seed, self._largest = k, seed, largest
        self.clustering_id: int | None = None
        self._summary = "Nothing was clustered."

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Clustering goals"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "vectors": self._embed.vector_key,
            "among": digest_of(self._embed.ids),
            "k": self._k,
            "seed": self._seed,
            "largest": self._largest,
            "labels": PHRASES,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters and stores the result; if there is a clustering with the same parameters, shows it instead.

        Raises:
            UsageError: No conversation has a vector.
            Cancelled: `interrupt` was called.
        """
        self._check()
        key = self.config_hash
        with self._project.reading() as conn:
            before = clusterings.find(conn, key)
        if before is not None:
            self._decision_log.return_to(before)
            self.clustering_id = before
            self._summary = "This was clustered before; it is shown again."
            return
        made: list[_Made] = []
        for done, note in self._live(self._cluster, made.append):
            yield Progress(done, None, note)
        self._check()
        self._store(made[0], run_id)
        count = len(made[0].ids)
        self._project.write(lambda conn: runs.count(conn, run_id, count, count))
        yield Progress(count, count)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        return self._summary

    def _cluster(self, report: OnProgress) -> _Made:
        with self._project.reading() as conn:
            ids, rows = read_vectors(conn, self._embed.vector_key, self._embed.ids)
            report(0, f"{len(ids):,} vectors read")
            k = self._k
            if k is None:
                k = min(propose_k(rows, self._seed).k, max(1, len(ids)))
                report(0, f"{k} clusters proposed")
            found = cluster(
                rows,
                k,
                self._seed,
                largest=self._largest,
                note=lambda step, steps: report(0, f"{k} clusters, step {step} of {steps}"),
            )
            report(0, "looking for distinctive words")
            texts = LazyTexts(conn, self._source(conn).shown, ids)
            words = distinctive_words(texts, found.labels, count=WORDS, seed=self._seed)
            report(0, "looking for labels")
            named = phrase_labels(texts, found.labels, found.distances, self._seed)
        names = [LabelEntry(key, one.label, one.description) for key, one in named.items()]
        return _Made(ids, k, found, _clusters(rows, found, words), names)

    def _source(self, conn: sqlite3.Connection) -> TextSource:
        config = vectors.config(conn, self._embed.vector_key)
        return TextSource(DEFAULT_TEXT) if config is None else TextSource(config.text, config.goal_config)  # fmt: skip

    def _store(self, made: _Made, run_id: int) -> None:
        self.clustering_id = self._decision_log.add_clustering(
            config_hash=self.config_hash,
            run_id=run_id,
            vector_config=self._embed.vector_key,
            k=made.k,
            seed=self._seed,
            clusters=made.rows,
            members=_members(made.ids, made.found),
            names=made.names,
        )
        outliers = int((made.found.labels < 0).sum())
        what = counted(len(made.ids), "conversation")
        self._summary = f"Clustered {what} into {made.found.k}, {counted(outliers, 'outlier')}."
        taken = len(self._decision_log.history(self.clustering_id))
        waiting = len(self._decision_log.unplaced(self.clustering_id))
        if taken or waiting:
            self._summary += f" Decisions taken over: {taken:,}; without a place: {waiting:,}."


def _clusters(
    rows: Vectors, found: Clusters, words: Mapping[int, tuple[str, ...]]
) -> list[NewCluster]:
    """The rows of the clusters to store."""
    sums = np.zeros((found.k, rows.shape[1]), dtype=np.float64)
    for part in blocks(len(rows)):
        labels = found.labels[part]
        np.add.at(sums, labels[labels >= 0], rows[part][labels >= 0])
    made = []
    for number, size in enumerate(found.sizes.tolist()):
        distances = found.distances[found.labels == number]
        made.append(
            NewCluster(
                number=number,
                size=size,
                spread=float(distances.mean(dtype=np.float64)),
                reach=float(np.quantile(distances, REACH)),
                words=words.get(number, ()),
                centre=(sums[number] / size).astype("<f4").tobytes(),
            )
        )
    return made


def _members(ids: Ids, found: Clusters) -> Iterator[Member]:
    """The membership of each conversation; `second` of an outlier is its nearest cluster."""
    for at, conversation_id in enumerate(ids.tolist()):
        label = int(found.labels[at])
        inside = label >= 0
        second = int(found.others[at] if inside else found.nearest[at])
        second_distance = float(found.other_distances[at] if inside else found.distances[at])
        yield Member(
            conversation_id=conversation_id,
            cluster=label if inside else None,
            distance=float(found.distances[at]),
            second=None if second < 0 else second,
            second_distance=None if second < 0 else second_distance,
        )
