"""Proposes the initial number of clusters, k1, from the vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.base.errors import NotYet
from engine.goals.clusters.kmeans import canonical_order, closest, solve, sums_of
from engine.model.embedders.tfidf import (
    one_thread,
)
from engine.model.embedders.vectors import Numbers, Vectors, has_vector

SAMPLE = 4_000
LEAST, MOST = 2, 200
STEP = 1.25
"""Ratio of each k tried to the one before."""
NEARLY_BEST = 0.9
"""Share of the highest silhouette that counts as equally good: silhouettes are often flat over a wide range of k."""
OVERESTIMATE = 1.5
"""Ratio of the proposed k to the best one. Too many clusters cost one merge decision each; a cluster that mixes two
goals has to be noticed and split."""
RESTARTS = 2
MANY_DIMENSIONS = 256
"""Dimensions from which vectors are those of an embedding model; TF-IDF has fewer."""


@dataclass(frozen=True, slots=True)
class KProposal:
    """A proposed number of clusters.

    Attributes:
        k: The proposal, an overestimate.
        best: The least k whose silhouette is nearly the highest.
        tried: (k, mean silhouette) in ascending order of k; higher is better.
    """

    k: int
    best: int
    tried: tuple[tuple[int, float], ...]


def propose_k(vectors: Vectors, seed: int = 0) -> KProposal:
    """Proposes k1: `OVERESTIMATE` times the least k, of a geometric series, whose mean silhouette is nearly the
    highest.

    The silhouette of a row compares its mean distance to its own cluster with that to the next (Rousseeuw 1987,
    Silhouettes, J. Comput. Appl. Math. 20). It is measured on a random sample of `SAMPLE` rows, so goals of fewer than
    about one in a thousand conversations do not affect it. The proposal is at least the square root of the size of the
    sample, because groups of similar goals can have the highest silhouette (18 services of `sgd` in 8 groups, with
    MiniLM). For vectors of many dimensions the minimum is twice that, because finer clusters merge into better groups
    there (docs/lab/goals.md).

    Raises:
        UsageError: No row has a vector.
    """
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    sample = vectors[canonical_order(vectors, rows, seed)[:SAMPLE]]
    order = np.arange(len(sample))
    tried = []
    with one_thread():
        for k in _series(min(MOST, len(sample) // 4)):
            found = solve(sample, order, k, seed, restarts=RESTARTS, note=lambda *_: None)
            tried.append((k, silhouette(sample, closest(sample, found.centres)[0])))
    highest = max((score for _, score in tried), default=0.0)
    best = next((k for k, score in tried if score >= min(NEARLY_BEST * highest, highest)), 1)
    least = math.isqrt(len(sample) * (4 if vectors.shape[1] >= MANY_DIMENSIONS else 1))
    return KProposal(
        min(max(math.ceil(OVERESTIMATE * best), least), len(sample)), best, tuple(tried)
    )


def silhouette(rows: Vectors, labels: Numbers) -> float:
    """Mean silhouette by cosine distance. A row alone in its cluster counts as 0; one cluster gives 0.

    The mean cosine of a row with the rows of a cluster is its dot product with their mean, so no two rows are compared.
    """
    k = int(labels.max()) + 1
    sizes = np.bincount(labels, minlength=k)
    if np.count_nonzero(sizes) < 2:
        return 0.0
    means = sums_of(rows, labels, k) / np.maximum(1, sizes)[:, None]
    away = 1 - (rows @ means.T).astype(np.float64)
    away[:, sizes == 0] = np.inf
    line = np.arange(len(rows))
    size = sizes[labels]
    # Without the row itself, whose distance to itself is 0.
    own = away[line, labels] * size / np.maximum(1, size - 1)
    away[line, labels] = np.inf
    other = away.min(axis=1)
    scale = np.maximum(np.maximum(own, other), 1e-9)
    return float(np.where(size > 1, (other - own) / scale, 0).mean())


def _series(most: int) -> list[int]:
    found: list[int] = []
    k = float(LEAST)
    while round(k) <= most:
        if not found or round(k) > found[-1]:
            found.append(round(k))
        k = max(k * STEP, k + 1)
    return found
