"""The stage that labels clusters: a model writes a short name and a sentence for each, from some of its texts and texts
that are near it but not in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.model_asker import ProcessAsker
from engine.goals.questions.questions import (
    EXAMPLES,
    LABEL_GRAMMAR,
    Named,
    choose,
    label_body,
    read_label,
)
from engine.goals.stages.clustering import ClusterStage
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import LabelEntry, StoredCluster, StoredClustering
from engine.goals.views.goal_inputs import Ids, read_vectors, source_of, stored_clustering
from engine.jobs.contract import OnProgress, Progress
from engine.model.embedders.vectors import Vectors
from engine.model.model_work import RunModel
from engine.model.process.process import (
    ModelProcess,
)
from engine.model.prompt_files import Prompt
from engine.model.stages import (
    BlockStage,
)
from engine.project.project import Project

BLOCK = 8
"""Clusters in one request to the model."""


class LabelStage(BlockStage[int, LabelEntry]):
    """Labels the clusters that have no label under this configuration yet, the largest first."""

    name = "label"
    unit = "clusters"

    def __init__(
        self,
        project: Project,
        process: ModelProcess,
        model: RunModel,
        prompt: Prompt,
        *,
        near: bool = True,
        cluster: ClusterStage | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            near: Whether to show the model the texts outside a cluster that are nearest to it, which gives more
                specific labels, or random ones.
            cluster: The stage before that makes the clustering; None takes the one that is shown.
        """
        super().__init__(project, process, model)
        self._prompt, self._near = prompt, near
        self._cluster = cluster
        self.written = self.without = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Labeling clusters with {self._work.model.label}"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {
            "clustering": self._stored.config_hash,
            "prompt": self._prompt.as_params(),
            "near": self._near,
            "seed": self._stored.seed,
            "context": self._work.model.options.context,
        }

    def run(self, run_id: int) -> Iterator[Progress]:
        """Labels block by block; each in one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            ModelError: The model cannot be loaded.
            Cancelled: `interrupt` was called.
        """
        key, clustering_id = self.config_hash, self._stored.id
        self._project.write(lambda conn: clusterings.register_labels(conn, clustering_id, key))
        with self._project.reading() as conn:
            missing = set(clusterings.clusters_without_label(conn, clustering_id, key))
        if not missing:
            return
        yield Progress(0, len(missing), "loading the model")
        self._work.load()
        numbers = sorted(self._clusters)
        planned = [numbers[at : at + BLOCK] for at in range(0, len(numbers), BLOCK)]
        yield from self._in_blocks(run_id, planned, missing)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        text = f"Labeled {counted(self.written, 'cluster')} with {self._work.model.label}"
        if self.without:
            text += f"; {self.without:,} are named by phrases of their members"
        return f"{text}.{self._work.spent()}"

    @cached_property
    def _stored(self) -> StoredClustering:
        with self._project.reading() as conn:
            return stored_clustering(conn, self._cluster.clustering_id if self._cluster else None)

    @cached_property
    def _clusters(self) -> dict[int, StoredCluster]:
        with self._project.reading() as conn:
            return {c.number: c for c in clusterings.clusters(conn, self._stored.id)}

    @cached_property
    def _members(self) -> tuple[Ids, Ids]:
        """Conversation ids, ascending, and the cluster of each."""
        with self._project.reading() as conn:
            ids, numbers = clusterings.membership(conn, self._stored.id)
        return np.asarray(ids), np.asarray(numbers)

    @cached_property
    def _vectors(self) -> Vectors:
        """Vectors in the order of `_members`."""
        with self._project.reading() as conn:
            return read_vectors(conn, self._stored.vector_config, self._members[0])[1]

    def _key_of(self, entry: LabelEntry) -> int:
        return entry.number

    def _store(self, conn: sqlite3.Connection, run_id: int, entries: Sequence[LabelEntry]) -> None:
        clusterings.add_labels(conn, self._stored.id, self.config_hash, run_id, entries)

    def _tally(self, entries: Sequence[LabelEntry]) -> None:
        self.without += sum(1 for entry in entries if entry.reason)
        self.written += sum(1 for entry in entries if not entry.reason)

    def _answer(self, block: Sequence[int], report: OnProgress) -> list[LabelEntry]:
        named = self._work.each(
            block,
            partial(self._ask, report=report),
            lambda reason: Named("", "", reason),
        )
        return [self._entry(number, one) for number, one in zip(block, named, strict=True)]

    def _entry(self, number: int, named: Named) -> LabelEntry:
        """The entry of a cluster; where the model gave no label, a phrase of its members is its label."""
        label, description = named.label, named.description
        if named.reason:
            label, description = self._phrases.get(number, (label, description))
        return LabelEntry(number, label, description, named.reason or None)

    @cached_property
    def _phrases(self) -> dict[int, tuple[str, str]]:
        with self._project.reading() as conn:
            return clusterings.phrase_labels(conn, self._stored.id)

    def _ask(self, block: Sequence[int], report: OnProgress) -> list[Named]:
        bodies = [self._body(number) for number in block]
        asker = ProcessAsker(self._work.process, report)
        answers = asker.generate(self._prompt, bodies, grammar=LABEL_GRAMMAR)
        return [
            read_label(answer.text, self._clusters[number].words)
            for number, answer in zip(block, answers, strict=True)
        ]

    def _body(self, number: int) -> str:
        ids, numbers = self._members
        inside = numbers == number
        outside = self._outside(number, inside)
        with self._project.reading() as conn:
            source = source_of(self._stored).shown
            mine, theirs = (
                [entry.text for entry in source.read(conn, wanted)]
                for wanted in (choose(ids[inside].tolist(), EXAMPLES, self._stored.seed), outside)
            )
        return label_body(mine, theirs)

    def _outside(self, number: int, inside: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
        """Ids of conversations outside a cluster: those nearest to its centre, or random ones. All vectors are
        compared, which is faster than an index for one query per cluster."""
        ids = self._members[0]
        if not self._near:
            return choose(ids[~inside].tolist(), EXAMPLES, self._stored.seed)
        centre = np.frombuffer(self._clusters[number].centre, dtype="<f4")
        cosines = self._vectors @ centre
        cosines[inside] = -np.inf
        few = min(EXAMPLES, len(ids))
        nearest = np.argpartition(-cosines, few - 1)[:few]
        ordered = nearest[np.lexsort((nearest, -cosines[nearest]))]
        return [int(ids[at]) for at in ordered if not inside[at]]
