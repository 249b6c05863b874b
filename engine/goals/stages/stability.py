"""The stage that measures how stable a clustering is: it clusters the same conversations again with other seeds, and
conversations drawn with replacement (bootstraps), and stores how much each repetition agrees with the clustering."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.base.number_format import counted
from engine.goals.clusters.clustering import Repetition, repeat_clustering
from engine.goals.stages.clustering import OnClustering
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.vectors import read_vectors
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.embedders.vectors import Numbers, Vectors
from engine.project import runs
from engine.project.project import Project

SEEDS, BOOTSTRAPS = 5, 20
"""Numbers of repetitions on the same conversations with other seeds, and on conversations drawn with replacement."""


class StabilityStage(OnClustering, CpuStage):
    """Computes the repetitions that are not stored yet.

    Attributes:
        done: Number of repetitions that this run computed.
    """

    name = "stability"
    title = "Measuring how stable the clusters are"
    unit = "repetitions"

    def __init__(self, project: Project) -> None:
        """Reads nothing yet."""
        super().__init__(project)
        self.done = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """What determines the result of each repetition, other than its kind and number."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters once for each missing repetition; each in one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._raise_if_cancelled()
        repetitions: list[measurements.RepetitionKey] = [
            *(("seed", number) for number in range(SEEDS)),
            *(("bootstrap", number) for number in range(BOOTSTRAPS)),
        ]
        stored = self._project.read(measurements.agreements, self._stored.id, self.config_hash)
        stored_keys = {repetition for repetition, _ in stored}
        missing = [repetition for repetition in repetitions if repetition not in stored_keys]
        if not missing:
            return
        total = len(missing)
        yield Progress(0, total, "reading the vectors")
        vectors, cluster_numbers = yield from self._run_on_thread(
            self._read, lambda _count, _note: Progress(0, total)
        )
        for repetition in missing:
            self._raise_if_cancelled()
            result = yield from self._run_on_thread(
                partial(self._repeat, vectors, cluster_numbers, repetition),
                lambda _count, _note: Progress(self.done, total),
            )
            self._project.write(partial(self._commit, run_id=run_id, result=result, total=total))
            self.done += 1
            yield Progress(self.done, total)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Clustered {counted(self.done, 'more time')} to see what comes again."

    def _read(self, _report: OnProgress) -> tuple[Vectors, Numbers]:
        """Returns the vectors of the clustering, shape (n, d), and the cluster of each, shape (n,)."""
        with self._project.reading() as conn:
            ids, numbers = clusterings.membership(conn, self._stored.id)
            _, vectors = read_vectors(conn, self._stored.vector_config, ids)
        return vectors, np.asarray(numbers, dtype=np.int32)

    def _repeat(
        self,
        vectors: Vectors,
        cluster_numbers: Numbers,
        repetition: measurements.RepetitionKey,
        _report: OnProgress,
    ) -> Repetition:
        """Returns one repetition of the clustering of `vectors` into `cluster_numbers`, which `_read` returned; runs on
        a thread of its own."""
        kind, number = repetition
        stored = self._stored
        return repeat_clustering(
            vectors, cluster_numbers, k=stored.k, seed=stored.seed, kind=kind, number=number
        )

    def _commit(
        self, conn: sqlite3.Connection, *, run_id: int, result: Repetition, total: int
    ) -> None:
        """Stores one repetition and the counter of the run."""
        measurements.add_repetition(
            conn,
            self._stored.id,
            self.config_hash,
            run_id,
            repetition=(result.kind, result.number),
            ari=result.ari,
            jaccard={n: value for n, value in enumerate(result.jaccard) if value is not None},
        )
        runs.count(conn, run_id, self.done + 1, total)
