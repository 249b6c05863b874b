"""The stage that measures stability: it repeats the clustering with other seeds and on bootstraps of the
conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.goals.clusters.stability import Repetition, stability_run
from engine.goals.tables import answers as goal_answers
from engine.goals.tables import clusterings
from engine.goals.tables.clusterings import StoredClustering
from engine.goals.views.goal_inputs import read_vectors, stored_clustering
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.embedders.vectors import Numbers, Vectors
from engine.project import runs
from engine.project.project import Project

SEEDS, BOOTSTRAPS = 5, 20


class StabilityStage(CpuStage):
    """Computes the repetitions that are not stored yet."""

    name = "stability"
    unit = "repetitions"

    def __init__(
        self,
        project: Project,
        *,
        seeds: int = SEEDS,
        bootstraps: int = BOOTSTRAPS,
    ) -> None:
        super().__init__(project)
        self._wanted: list[goal_answers.Repetition] = [
            *(("seed", number) for number in range(seeds)),
            *(("bootstrap", number) for number in range(bootstraps)),
        ]
        self.done = 0

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return "Measuring how stable the clusters are"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine each repetition, without their number."""
        return {"clustering": self._stored.config_hash}

    @cached_property
    def _stored(self) -> StoredClustering:
        with self._project.reading() as conn:
            return stored_clustering(conn, None)

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters once for each missing repetition; each in one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._check()
        with self._project.reading() as conn:
            left = goal_answers.missing_repetitions(
                conn, self._stored.id, self.config_hash, self._wanted
            )
        if not left:
            return
        yield Progress(0, len(left), "reading the vectors")
        read: list[tuple[Vectors, Numbers]] = []
        for _ in self._live(self._read, read.append):
            yield Progress(0, len(left))
        for repetition in left:
            self._check()
            found: list[Repetition] = []
            for _ in self._live(partial(self._repeat, *read[0], repetition), found.append):
                yield Progress(self.done, len(left))
            self._project.write(
                partial(
                    self._commit,
                    run_id=run_id,
                    found=found[0],
                    done=self.done + 1,
                    total=len(left),
                )
            )
            self.done += 1
            yield Progress(self.done, len(left))

    def summary(self) -> str:
        """The result in one sentence with counts."""
        return f"Clustered {self.done:,} times more to see what comes again."

    def _read(self, _report: OnProgress) -> tuple[Vectors, Numbers]:
        with self._project.reading() as conn:
            ids, numbers = clusterings.membership(conn, self._stored.id)
            rows = read_vectors(conn, self._stored.vector_config, ids)[1]
        return rows, np.asarray(numbers, dtype=np.int32)

    def _repeat(
        self,
        rows: Vectors,
        labels: Numbers,
        repetition: goal_answers.Repetition,
        _report: OnProgress,
    ) -> Repetition:
        kind, number = repetition
        return stability_run(rows, labels, self._stored.k, self._stored.seed, kind, number)

    def _commit(
        self, conn: sqlite3.Connection, *, run_id: int, found: Repetition, done: int, total: int
    ) -> None:
        jaccard = {n: value for n, value in enumerate(found.jaccard) if value is not None}
        goal_answers.add_repetition(
            conn,
            self._stored.id,
            self.config_hash,
            run_id,
            (found.kind, found.number),
            found.ari,
            jaccard,
        )
        runs.count(conn, run_id, done, total)
