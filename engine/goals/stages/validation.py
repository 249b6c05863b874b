"""The stages that measure how well a clustering holds: without a share of the conversations, and clustered again with
other seeds and on bootstraps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from typing import Any

import numpy as np

from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.validation import HeldOut, Repetition, held_out, judge, stability_run
from engine.goals.records import Ids
from engine.goals.stages.clustering import OnClustering
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.clusterings import source_of
from engine.goals.tables.vectors import read_vectors
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.embedders.embedder import Embedder
from engine.model.embedders.vectors import Numbers, Vectors
from engine.project import runs
from engine.project.project import Project

SEEDS, BOOTSTRAPS = 5, 20


class StabilityStage(OnClustering, CpuStage):
    """Computes the repetitions that are not stored yet."""

    name = "stability"
    title = "Measuring how stable the clusters are"
    unit = "repetitions"

    def __init__(
        self,
        project: Project,
        *,
        seeds: int = SEEDS,
        bootstraps: int = BOOTSTRAPS,
    ) -> None:
        super().__init__(project)
        self._wanted: list[measurements.Repetition] = [
            *(("seed", number) for number in range(seeds)),
            *(("bootstrap", number) for number in range(bootstraps)),
        ]
        self.done = 0

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine each repetition, without their number."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters once for each missing repetition; each in one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._check()
        with self._project.reading() as conn:
            left = measurements.missing_repetitions(
                conn, self._stored.id, self.config_hash, self._wanted
            )
        if not left:
            return
        yield Progress(0, len(left), "reading the vectors")
        read: list[tuple[Vectors, Numbers]] = []
        for _ in self._run_on_thread(self._read, read.append):
            yield Progress(0, len(left))
        for repetition in left:
            self._check()
            found: list[Repetition] = []
            for _ in self._run_on_thread(partial(self._repeat, *read[0], repetition), found.append):
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
        repetition: measurements.Repetition,
        _report: OnProgress,
    ) -> Repetition:
        kind, number = repetition
        return stability_run(rows, labels, self._stored.k, self._stored.seed, kind, number)

    def _commit(
        self, conn: sqlite3.Connection, *, run_id: int, found: Repetition, done: int, total: int
    ) -> None:
        jaccard = {n: value for n, value in enumerate(found.jaccard) if value is not None}
        measurements.add_repetition(
            conn,
            self._stored.id,
            self.config_hash,
            run_id,
            (found.kind, found.number),
            found.ari,
            jaccard,
        )
        runs.count(conn, run_id, done, total)


class HoldOutStage(OnClustering, CpuStage):
    """Stores what it measured, and assigns nothing. An embedder that needs fitting is fitted on the clustered part
    alone."""

    name = "hold-out"

    def __init__(
        self, project: Project, make: Callable[[str, int], Embedder], share: float, seed: int = 0
    ) -> None:
        """Reads nothing yet.

        Args:
            make: Returns an embedder for a name and a seed.
            share: Share of the conversations to hold out, between 0 and 1.
        """
        super().__init__(project)
        self._make, self._share, self._seed = make, share, seed
        self.result: HeldOut | None = None

    @property
    def title(self) -> str:
        """Title of the run, for screens and logs."""
        return f"Clustering without {self._share:.0%} of the conversations"

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The parameters that determine the result."""
        return {"clustering": self._stored.config_hash, "share": self._share, "seed": self._seed}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Splits the conversations, embeds and clusters one part, and assigns the other.

        Raises:
            UsageError: Nothing was clustered yet, or there are too few conversations to hold out.
            Cancelled: `interrupt` was called.
        """
        self._check()
        found: list[HeldOut] = []
        for done, note in self._run_on_thread(self._judge, found.append):
            yield Progress(done, None, note)
        self.result = found[0]
        measured = {**asdict(self.result), "share": self._share, "seed": self._seed}
        key = self._stored.id
        self._project.write(lambda conn: measurements.put(conn, "hold_out", key, measured))
        count = self.result.train + self.result.test
        yield Progress(count, count)

    def summary(self) -> str:
        """The result in one sentence with counts."""
        found = self.result
        if found is None:
            return "Nothing was measured."
        return (
            f"{found.clusters:,} clusters of {found.train:,} conversations; distance to the center "
            f"{found.cosine_train:.3f}, of {found.test:,} held out {found.cosine_test:.3f}, "
            f"{found.novel:,} of them novel."
        )

    def _judge(self, report: OnProgress) -> HeldOut:
        stored = self._stored
        report(0, "reading the texts")
        with self._project.reading() as conn:
            ids = np.asarray(clusterings.membership(conn, stored.id)[0])
        chosen = held_out(len(ids), self._share, self._seed)
        train, test = self._rows(ids[~chosen], ids[chosen])
        found = cluster(
            train,
            stored.k,
            self._seed,
            note=lambda step, steps: report(0, f"clustering, step {step} of {steps}"),
        )
        return judge(train, found.labels, test)

    def _rows(self, train: Ids, test: Ids) -> tuple[Vectors, Vectors]:
        embedder = self._make(self._stored.embedder, self._stored.seed)
        with self._project.reading() as conn:
            if embedder.fitted:
                key = self._stored.vector_config
                return read_vectors(conn, key, train)[1], read_vectors(conn, key, test)[1]
            source = source_of(self._stored)
            own, others = (
                [entry.text for entry in source.each(conn, ids.tolist())] for ids in (train, test)
            )
        embedder.fit(own)
        return embedder.embed(own), embedder.embed(others)
