"""Measures how stable clusters are: how much they agree with a clustering of the same rows with another seed, and with
one of rows drawn with replacement (a bootstrap).

The stability of a cluster is the mean over bootstraps of its Jaccard similarity with the most similar cluster of the
bootstrap (Hennig 2007, Cluster-wise assessment of cluster stability, Comput. Stat. Data Anal. 52). He takes a mean of
.75 or more for stable and calls a cluster dissolved where the similarity is .5 or less. With more clusters than there
are goals many are unstable, because the boundary between two parts of one goal is arbitrary; merging removes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.goals.clusters.clustering import cluster
from engine.goals.clusters.kmeans import FULL_BATCH_ROWS
from engine.model.embedders.vectors import Numbers, Vectors

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


def repeat_clustering(
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
