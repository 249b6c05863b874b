"""How many clusters to begin with, read from the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.errors import UsageError
from engine.goals.kmeans import canonical_order, nearest, solve
from engine.goals.vectors import Vectors, has_vector

SAMPLE = 4_000
LEAST, MOST = 2, 200
ABOVE = 1.5
"""The proposal over the k that fits best: clusters that were split too far are merged by a person later, which one
decision does; clusters that mix two goals take a split that somebody has to think of."""
STEP = 1.25
"""Ratio of a tried k to the one before."""
RESTARTS = 2


@dataclass(frozen=True, slots=True)
class KProposal:
    """A number of clusters and why.

    Attributes:
        k: What is proposed, an overestimate.
        best: The k of the highest silhouette.
        tried: (k, silhouette) in ascending order of k; higher is better.
    """

    k: int
    best: int
    tried: tuple[tuple[int, float], ...]


def propose_k(vectors: Vectors, seed: int = 0) -> KProposal:
    """Proposes k1 by the simplified silhouette over a geometric series of k, times `ABOVE`.

    The silhouette of a row compares how near it is to its own cluster and to the next (Rousseeuw 1987, Silhouettes,
    J. Comput. Appl. Math. 20); simplified, distances are to centres (Hruschka et al. 2004), which takes n k cosines
    instead of n squared. It is measured on a random sample of `SAMPLE` rows, so goals of less than about one in a
    thousand conversations have no say.

    Raises:
        UsageError: No row has a vector.
    """
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise UsageError("No conversation has a vector.", "Look at the texts that were embedded.")
    sample = vectors[canonical_order(vectors, rows, seed)[:SAMPLE]]
    tried = []
    for k in _series(min(MOST, len(sample) // 4)):
        order = np.arange(len(sample))
        found = solve(sample, order, k, seed, restarts=RESTARTS, note=lambda *_: None)
        tried.append((k, _silhouette(sample, found.centres)))
    if not tried:
        few = max(1, len(sample) // 4)
        return KProposal(few, few, ())
    best = max(tried, key=lambda pair: pair[1])[0]
    return KProposal(min(math.ceil(ABOVE * best), len(sample)), best, tuple(tried))


def _series(most: int) -> list[int]:
    found: list[int] = []
    k = float(LEAST)
    while round(k) <= most:
        if not found or round(k) > found[-1]:
            found.append(round(k))
        k = max(k * STEP, k + 1)
    return found


def _silhouette(rows: Vectors, centres: Vectors) -> float:
    if len(centres) < 2:
        return 0.0
    found = nearest(rows, centres)
    own = np.maximum(0, 1 - found.first_cosine.astype(np.float64))
    other = np.maximum(1e-9, 1 - found.second_cosine.astype(np.float64))
    return float(np.mean((other - own) / np.maximum(other, own)))
