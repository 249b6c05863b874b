"""Conversations that came later: which cluster they belong to, how surely, and which are in none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.errors import UsageError
from engine.goals.clusters.clustering import CUT, limits_of
from engine.goals.clusters.kmeans import nearest, sums_of
from engine.goals.embedders.vectors import (
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    has_vector,
    unit_rows,
)

NOVEL = -1
USUAL = 0.9
"""Score of the median member, against the nearest other cluster alone."""
WITHIN = 0.99
"""Share of a cluster's own members that are near enough to belong to it."""
ENOUGH = 50
"""Members from which this share is read off them; the fewer there are, the more the limit is that of outliers."""
OTHERS_ABOVE = 0.15
MOST_OTHERS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """What is known of the clusters that a conversation can be assigned to.

    Attributes:
        centres: Shape (k, d), rows of length 1.
        limits: Shape (k,), the distance from which a conversation is novel.
        sharpness: What cosines are multiplied by before the softmax.
    """

    centres: Vectors
    limits: Floats
    sharpness: float


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """Where n rows belong.

    Attributes:
        labels: The nearest cluster, `NOVEL` for a row that is farther from it than its own members are.
        nearest: The nearest cluster, of novel rows too; -1 for a row of zeros.
        scores: Of the nearest cluster, in (0, 1]; 0 for a row of zeros.
        distances: Cosine distance to its centre; 1 for a row of zeros.
        others: For each row further clusters as (number, score), highest first.
    """

    labels: Numbers
    nearest: Numbers
    scores: Floats
    distances: Floats
    others: tuple[tuple[tuple[int, float], ...], ...]


def membership_of(vectors: Vectors, labels: Numbers, k: int) -> Membership:
    """Learns from a partition, that of a clustering or what decisions made of it.

    A row is novel beyond the distance that `WITHIN` of the cluster's members keep, mixed with the limit of outliers
    where members are few. Scores are a softmax over all clusters of the cosines times a sharpness, chosen so that the
    median member of all has a score of `USUAL` against the nearest other cluster: embedders spread their cosines very
    differently, and this gives scores of the same meaning. They rank and compare; they are no calibrated probabilities.

    Args:
        labels: Cluster of each row in 0 .. k - 1, negative for none.

    Raises:
        UsageError: A cluster has no members.
    """
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    if k < 1 or len(sizes) != k or not sizes.all():
        raise UsageError("A cluster has no members to learn from.")
    sums = np.zeros((k, vectors.shape[1]), dtype=np.float64)
    for part in blocks(len(vectors)):
        inside = np.flatnonzero(labels[part] >= 0)
        sums += sums_of(vectors[part][inside], labels[part][inside], k)
    centres = unit_rows(sums)
    distances = np.ones(len(vectors), dtype=np.float32)
    gaps = np.zeros(len(vectors), dtype=np.float32)
    for part in blocks(len(vectors)):
        own = labels[part]
        cosines = vectors[part] @ centres.T
        line = np.arange(len(own))
        mine = cosines[line, own].copy()
        distances[part] = np.maximum(0, 1 - mine)
        cosines[line, own] = -2
        gaps[part] = mine - cosines.max(axis=1)
    gap = float(np.median(gaps[labels >= 0])) if k > 1 else 1.0
    sharpness = math.log(USUAL / (1 - USUAL)) / min(2.0, max(gap, 1e-3))
    return Membership(centres, _limits(distances, labels, sizes), sharpness)


def assign(
    vectors: Vectors, membership: Membership, *, others_above: float = OTHERS_ABOVE
) -> Assigned:
    """Assigns rows to clusters; memory is bounded by what comes out.

    Args:
        vectors: Shape (n, d), of the embedder that made the membership's.
        others_above: Further clusters are kept from this score on, `MOST_OTHERS` at most.
    """
    centres = membership.centres
    near = nearest(vectors, centres)
    live = has_vector(vectors)
    distances = np.where(live, np.maximum(0, 1 - near.first_cosine), 1).astype(np.float32)
    scores = np.zeros(len(vectors), dtype=np.float32)
    others: list[tuple[tuple[int, float], ...]] = []
    for part in blocks(len(vectors), max(256, 4_000_000 // len(centres))):
        shares = membership.sharpness * (vectors[part] @ centres.T).astype(np.float64)
        shares = np.exp(shares - shares.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        line = np.arange(len(shares))
        scores[part] = shares[line, near.first[part]]
        shares[line, near.first[part]] = 0
        shares[~live[part]] = 0
        others += _others(shares, others_above)
    scores[~live] = 0
    first = np.where(live, near.first, NOVEL).astype(np.int32)
    known = live & (distances <= membership.limits[near.first])
    return Assigned(
        np.where(known, near.first, NOVEL).astype(np.int32), first, scores, distances, tuple(others)
    )


def _limits(distances: Floats, labels: Numbers, sizes: Indices) -> Floats:
    found = limits_of(distances, labels, len(sizes), CUT)
    for number, size in enumerate(sizes):
        trust = min(1.0, size / ENOUGH)
        own = float(np.quantile(distances[labels == number], WITHIN))
        found[number] = trust * own + (1 - trust) * max(own, float(found[number]))
    return found


def _others(
    shares: np.ndarray[tuple[int, int], np.dtype[np.float64]], least: float
) -> list[tuple[tuple[int, float], ...]]:
    found: list[tuple[tuple[int, float], ...]] = [()] * len(shares)
    for row in np.flatnonzero(shares.max(axis=1) >= least):
        best = np.argsort(-shares[row], kind="stable")[:MOST_OTHERS]
        found[row] = tuple((int(c), float(shares[row, c])) for c in best if shares[row, c] >= least)
    return found
