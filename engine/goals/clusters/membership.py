"""Assigns conversations that were imported after a clustering to its clusters, with scores, or marks them as novel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engine.base.errors import UsageError
from engine.goals.clusters.clustering import CUT, outlier_limits
from engine.goals.clusters.kmeans import nearest, sums_of
from engine.model.embedders.vectors import (
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    has_vector,
    unit_rows,
)

NOVEL = -1
MEDIAN_SCORE = 0.9
"""Score that the median member has when it is compared with the nearest other cluster alone."""
MEMBER_QUANTILE = 0.99
"""Quantile of the members' distances that is the limit of a cluster."""
QUANTILE_MEMBERS = 50
"""Members from which the limit is this quantile alone; with fewer it is mixed with the limit of outliers."""
OTHERS_ABOVE = 0.15
MOST_OTHERS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The clusters that a conversation can be assigned to.

    Attributes:
        centres: Shape (k, d), rows of length 1.
        limits: Cosine distance to each centre beyond which a conversation is novel, shape (k,).
        sharpness: Inverse temperature: factor of the cosines in the softmax.
    """

    centres: Vectors
    limits: Floats
    sharpness: float


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """The clusters of n rows.

    Attributes:
        labels: The nearest cluster; `NOVEL` for a row beyond its limit.
        nearest: The nearest cluster, also for novel rows; -1 for a row of zeros.
        scores: Score of the nearest cluster, in (0, 1]; 0 for a row of zeros.
        distances: Cosine distance to its centre; 1 for a row of zeros.
        others: Further clusters of each row as (number, score), highest score first.
    """

    labels: Numbers
    nearest: Numbers
    scores: Floats
    distances: Floats
    others: tuple[tuple[tuple[int, float], ...], ...]


def membership_of(vectors: Vectors, labels: Numbers, k: int) -> Membership:
    """Computes centres, limits and sharpness from a partition (the clusters, or the groups after decisions).

    The limit of a cluster is the `MEMBER_QUANTILE` quantile of its members' distances, mixed with the limit of outliers
    if it has few members. Scores are a softmax over clusters of cosine times sharpness. The sharpness is chosen so that
    the median member has a score of `MEDIAN_SCORE` against the nearest other cluster, because cosines of different
    embedders differ in range. Scores rank clusters; they are not calibrated probabilities.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row in 0 .. k - 1, negative for none.
        k: Number of clusters.

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
    sharpness = math.log(MEDIAN_SCORE / (1 - MEDIAN_SCORE)) / min(2.0, max(gap, 1e-3))
    return Membership(centres, _limits(distances, labels, sizes), sharpness)


def assign(
    vectors: Vectors, membership: Membership, *, others_above: float = OTHERS_ABOVE
) -> Assigned:
    """Assigns rows to clusters, block by block.

    Args:
        vectors: Shape (n, d), from the embedder of the clustered vectors.
        others_above: Least score of a further cluster; at most `MOST_OTHERS` are returned.
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
    found = outlier_limits(distances, labels, len(sizes), CUT)
    for number, size in enumerate(sizes):
        trust = min(1.0, size / QUANTILE_MEMBERS)
        own = float(np.quantile(distances[labels == number], MEMBER_QUANTILE))
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
