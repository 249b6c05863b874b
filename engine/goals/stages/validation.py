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
from engine.goals.clusters.validation import (
    HeldOut,
    Repetition,
    choose_held_out,
    measure_held_out,
    stability_run,
)
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
"""Default numbers of repetitions with other seeds, and on bootstraps."""


class StabilityStage(OnClustering, CpuStage):
    """Computes the repetitions that are not stored yet.

    Attributes:
        done: Number of repetitions that this run computed.
    """

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
        """Reads nothing yet.

        Args:
            seeds: Repetitions on the same conversations with other seeds.
            bootstraps: Repetitions on conversations drawn with replacement.
        """
        super().__init__(project)
        self._repetitions: list[measurements.RepetitionKey] = [
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
            missing = measurements.missing_repetitions(
                conn, self._stored.id, self.config_hash, self._repetitions
            )
        if not missing:
            return
        yield Progress(0, len(missing), "reading the vectors")
        inputs: list[tuple[Vectors, Numbers]] = []
        for _ in self._run_on_thread(self._read, inputs.append):
            yield Progress(0, len(missing))
        ((rows, labels),) = inputs
        for repetition in missing:
            self._check()
            results: list[Repetition] = []
            repeat = partial(self._repeat, rows, labels, repetition)
            for _ in self._run_on_thread(repeat, results.append):
                yield Progress(self.done, len(missing))
            (result,) = results
            self._project.write(
                partial(
                    self._commit,
                    run_id=run_id,
                    result=result,
                    done=self.done + 1,
                    total=len(missing),
                )
            )
            self.done += 1
            yield Progress(self.done, len(missing))

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        return f"Clustered {self.done:,} times more to see what comes again."

    def _read(self, _report: OnProgress) -> tuple[Vectors, Numbers]:
        """Returns the vectors of the clustering, shape (n, d), and the cluster of each, shape (n,)."""
        with self._project.reading() as conn:
            ids, numbers = clusterings.membership(conn, self._stored.id)
            _, rows = read_vectors(conn, self._stored.vector_config, ids)
        return rows, np.asarray(numbers, dtype=np.int32)

    def _repeat(
        self,
        rows: Vectors,
        labels: Numbers,
        repetition: measurements.RepetitionKey,
        _report: OnProgress,
    ) -> Repetition:
        """Returns one repetition; runs on a thread of its own. Arrays as from `_read`."""
        kind, number = repetition
        stored = self._stored
        return stability_run(rows, labels, k=stored.k, seed=stored.seed, kind=kind, number=number)

    def _commit(
        self, conn: sqlite3.Connection, *, run_id: int, result: Repetition, done: int, total: int
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
        runs.count(conn, run_id, done, total)


class HoldOutStage(OnClustering, CpuStage):
    """Clusters without a share of the conversations, and measures how near these are to the clusters. It stores the
    figures and assigns nothing. An embedder that needs fitting is fitted on the clustered part alone."""

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
        results: list[HeldOut] = []
        for done, note in self._run_on_thread(self._measure, results.append):
            yield Progress(done, None, note)
        (self.result,) = results
        measured = {**asdict(self.result), "share": self._share, "seed": self._seed}
        key = self._stored.id
        self._project.write(lambda conn: measurements.put_hold_out(conn, key, measured))
        count = self.result.train + self.result.test
        yield Progress(count, count)

    def summary(self) -> str:
        """Returns the result in one sentence with counts."""
        result = self.result
        if result is None:
            return "Nothing was measured."
        return (
            f"{result.clusters:,} clusters of {result.train:,} conversations; distance to the center "
            f"{result.cosine_train:.3f}, of {result.test:,} held out {result.cosine_test:.3f}, "
            f"{result.novel:,} of them novel."
        )

    def _measure(self, report: OnProgress) -> HeldOut:
        """Returns the figures; runs on a thread of its own."""
        stored = self._stored
        report(0, "reading the texts")
        with self._project.reading() as conn:
            clustered_ids, _ = clusterings.membership(conn, stored.id)
        ids = np.asarray(clustered_ids)
        is_held_out = choose_held_out(len(ids), self._share, self._seed)
        train, test = self._rows(ids[~is_held_out], ids[is_held_out])
        clusters = cluster(
            train,
            stored.k,
            self._seed,
            note=lambda step, steps: report(0, f"clustering, step {step} of {steps}"),
        )
        return measure_held_out(train, clusters.labels, test)

    def _rows(self, train: Ids, test: Ids) -> tuple[Vectors, Vectors]:
        """Returns the vectors of both parts, shape (part, d): those that are stored, or of an embedder that is fitted
        anew on the first part."""
        embedder = self._make(self._stored.embedder, self._stored.seed)
        with self._project.reading() as conn:
            if embedder.fitted:
                key = self._stored.vector_config
                _, train_rows = read_vectors(conn, key, train)
                _, test_rows = read_vectors(conn, key, test)
                return train_rows, test_rows
            source = source_of(self._stored)
            train_texts, test_texts = (
                [entry.text for entry in source.each(conn, ids.tolist())] for ids in (train, test)
            )
        embedder.fit(train_texts)
        return embedder.embed(train_texts), embedder.embed(test_texts)
