"""The stage that measures how well a clustering holds: clustered again with other seeds and on bootstrap samples.

Stability per cluster after Hennig (2007, Cluster-wise assessment of cluster stability, Comput. Stat. Data Anal. 52):
the mean over bootstraps of the Jaccard similarity with the most similar cluster of the bootstrap. He takes a mean of
.75 or more for stable and calls a cluster dissolved where the similarity is .5 or less. With more clusters than there
are goals many are unstable, because the boundary between two parts of one goal is arbitrary; merging removes it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from engine.goals.clusters.clustering import FULL_BATCH_ROWS, cluster
from engine.goals.stages.clustering import OnClustering
from engine.goals.tables import clusterings, measurements
from engine.goals.tables.vectors import read_vectors
from engine.jobs.contract import CpuStage, OnProgress, Progress
from engine.model.embedders.vectors import Numbers, Vectors
from engine.project import runs
from engine.project.project import Project

Kind = Literal["seed", "bootstrap"]
"""How a clustering is repeated: on the same rows with another seed, or on rows drawn with replacement."""

STABLE, DISSOLVED = 0.75, 0.5
"""Mean Jaccard similarity from which a cluster is stable, and up to which it is dissolved."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Agreement of one repetition with the clustering whose stability is measured.

    Attributes:
        kind: How the clustering was repeated.
        number: Number of the repetition among those of its kind, from 0.
        ari: Adjusted Rand index over the rows that are in a cluster in both.
        jaccard: For each cluster its Jaccard similarity with the most similar cluster of the repetition; None if the
            bootstrap drew none of its members.
    """

    kind: Kind
    number: int
    ari: float
    jaccard: tuple[float | None, ...]


def stability_run(
    vectors: Vectors, labels: Numbers, k: int, seed: int, kind: Kind, number: int
) -> Repetition:
    """Clusters once more and returns the agreement. It is a pure function of its arguments, so a measurement can be
    resumed.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row in the clustering that is measured, negative for outliers, shape (n,).
        k: Number of clusters that it was made with.
        seed: Seed that it was made with; the seed of the repetition is derived from it and from `number`.
        kind: `seed` clusters the same rows with another seed; `bootstrap` clusters rows drawn with replacement, at most
            `FULL_BATCH_ROWS` of them.
        number: Number of the repetition, from 0.
    """
    count = int(labels.max()) + 1
    new_seed = int(np.random.SeedSequence([seed, number, kind == "seed"]).generate_state(1)[0])
    if kind == "seed":
        new_labels = cluster(vectors, k, new_seed).labels
        return Repetition(kind, number, *_compare(labels, new_labels, count))
    rng = np.random.default_rng(new_seed)
    sample = np.sort(rng.integers(len(vectors), size=min(len(vectors), FULL_BATCH_ROWS)))
    new_labels = cluster(vectors[sample], k, new_seed).labels
    # Each row is compared once, however often it was drawn.
    rows, first_draws = np.unique(sample, return_index=True)
    return Repetition(kind, number, *_compare(labels[rows], new_labels[first_draws], count))


def _compare(
    labels: Numbers, new_labels: Numbers, count: int
) -> tuple[float, tuple[float | None, ...]]:
    """Returns the adjusted Rand index of two partitions of the same rows, and the Jaccard similarity of each cluster
    0 .. count - 1 of the first with the most similar cluster of the second; None for a cluster without rows."""
    from scipy.sparse import csr_matrix
    from sklearn.metrics import adjusted_rand_score

    in_both = (labels >= 0) & (new_labels >= 0)
    old, new = labels[in_both], new_labels[in_both]
    ari = float(adjusted_rand_score(old, new))
    new_count = int(new_labels.max()) + 1
    # Number of rows that each cluster has in common with each new one; pairs of clusters without any are not stored.
    common = csr_matrix((np.ones(len(old)), (old, new)), shape=(count, new_count)).tocoo()
    sizes = np.bincount(labels[labels >= 0], minlength=count)
    new_sizes = np.bincount(new_labels[new_labels >= 0], minlength=new_count)
    # Rows in both divided by rows in either.
    jaccard = common.data / (sizes[common.row] + new_sizes[common.col] - common.data)
    best = np.zeros(count)
    np.maximum.at(best, common.row, jaccard)
    return ari, tuple(
        float(value) if size else None for value, size in zip(best, sizes, strict=True)
    )


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
        """The parameters that determine each repetition, without their number."""
        return {"clustering": self._stored.config_hash}

    def run(self, run_id: int) -> Iterator[Progress]:
        """Clusters once for each missing repetition; each in one transaction with the counter of the run.

        Raises:
            UsageError: Nothing was clustered yet.
            Cancelled: `interrupt` was called.
        """
        self._check()
        repetitions: list[measurements.RepetitionKey] = [
            *(("seed", number) for number in range(SEEDS)),
            *(("bootstrap", number) for number in range(BOOTSTRAPS)),
        ]
        with self._project.reading() as conn:
            missing = measurements.missing_repetitions(
                conn, self._stored.id, self.config_hash, repetitions
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
