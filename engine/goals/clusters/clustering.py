"""Clusters the vectors of conversations, marks outliers, assigns conversations that come later, and measures how stable
clusters are.

Clusters come from spherical k-means (`kmeans`), by cosine distance between rows of length 1. A row of zeros belongs to
a text without a vector. An outlier is in no cluster because it is too far from its nearest center; a later row of that
kind is called novel.

Stability is how much clusters agree with a clustering of the same rows with another seed, and with one of rows drawn
with replacement (a bootstrap). For a cluster it is the mean over bootstraps of its Jaccard similarity with the most
similar cluster of the bootstrap (Hennig 2007, Cluster-wise assessment of cluster stability, Comput. Stat. Data Anal.
52). He takes a mean of .75 or more for stable and calls a cluster dissolved where the similarity is .5 or less. With
more clusters than there are goals many are unstable, because the boundary between two parts of one goal is arbitrary;
merging removes it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotYet, UsageError
from engine.goals.clusters import kmeans
from engine.model.embedders.tfidf import one_thread
from engine.model.embedders.vectors import (
    Floats,
    Indices,
    Numbers,
    Vectors,
    blocks,
    has_vector,
    unit_rows,
)

OUTLIER = -1
"""Label of a row that is in no cluster: of an outlier, and of a later row that is novel."""
MIN_MEMBERS = 2
"""Fewest members of a cluster. Smaller clusters are dropped; their members go to the nearest other cluster or become
outliers."""
_SAME_DIRECTION = 1e-5
"""Distance up to which a row has the direction of its center, save for rounding, and is no outlier."""
OUTLIER_DEVIATIONS = 4.0
"""Robust standard deviations above the median distance beyond which a row is an outlier."""
PSEUDO_MEMBERS = 10
"""Weight, in members, of the statistics of all clusters when those of one cluster are estimated."""
DEVIATIONS_PER_MAD = 1.4826
"""Standard deviation of normal data in units of its median absolute deviation."""
_TIE_COORDINATES = 4
"""Coordinates of the center by which clusters of equal size are ordered."""

MEMBER_QUANTILE = 0.99
"""Quantile of the members' distances that is the limit of a cluster."""

QUANTILE_MEMBERS = 50
"""Number of members from which the limit of a cluster is `MEMBER_QUANTILE` alone; with fewer it is mixed with the limit
of outliers."""

Kind = Literal["seed", "bootstrap"]
"""How a clustering is repeated: on the same rows with another seed, or on rows drawn with replacement."""

STABLE, DISSOLVED = 0.75, 0.5
"""Mean Jaccard similarity from which a cluster is stable, and up to which it is dissolved."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A partition of rows; arrays of n rows are in the order of the vectors, clusters from the largest down.

    Attributes:
        labels: Number of the cluster; `OUTLIER` for a row that is in none.
        centers: Shape (k, d), rows of length 1.
        distances: Cosine distance to the nearest center, of outliers too; 1 for a row of zeros.
    """

    labels: Numbers
    centers: Vectors
    distances: Floats

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.centers)

    @property
    def sizes(self) -> Indices:
        """The number of members of each cluster, shape (k,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.k).astype(np.int64)


def cluster(
    vectors: Vectors,
    k: int,
    seed: int = 0,
    *,
    cut: float | None = OUTLIER_DEVIATIONS,
    least: int = MIN_MEMBERS,
    note: kmeans.Note = lambda done, total: None,
) -> Clusters:
    """Returns a partition of rows into about k clusters and outliers.

    The same rows, k, seed and number of BLAS threads give the same result bit for bit. Up to `FULL_BATCH_ROWS`
    rows the result depends neither on the number of threads nor on the order of the rows.

    Args:
        vectors: Shape (n, d), rows of length 1; rows of zeros belong to no cluster. May be a memory map.
        k: Number of clusters; fewer are found if there are fewer different rows.
        cut: Robust standard deviations above the median distance beyond which a row is an outlier, see
            `find_outlier_limits`; None marks no outliers.
        least: Clusters with fewer members are dropped.
        note: Called with (steps done, steps in all); may raise to stop the work.

    Raises:
        UsageError: k is below 1.
        NotYet: No row has a vector.
    """
    if k < 1:
        raise UsageError(f"{k} clusters cannot be made.", "Ask for at least one.")
    rows = np.flatnonzero(has_vector(vectors))
    if not len(rows):
        raise NotYet("No conversation has a vector.", "Look at the texts that were embedded.")
    order = kmeans.order_canonically(vectors, rows, seed)
    full_batch = len(order) <= kmeans.FULL_BATCH_ROWS
    with one_thread() if full_batch else nullcontext():
        centers = kmeans.solve(vectors, order, min(k, len(rows)), seed, note=note).centers
        centers = _mean_directions(vectors, order, centers, least)
        # In the canonical order, so that rounding does not depend on the order of the rows. For large inputs the copy
        # of all rows costs more than that is worth.
        return _partition(vectors, order if full_batch else rows, centers, cut)


def find_outlier_limits(distances: Floats, labels: Numbers, k: int, cut: float) -> Floats:
    """Returns the distance to the center beyond which a member of each cluster is an outlier, shape (k,).

    It is the median of the members' distances plus `cut` robust standard deviations. Both are weighted means of the
    cluster's own value and that of all clusters, which counts as `PSEUDO_MEMBERS` members: otherwise a cluster of three
    near-equal texts would reject the fourth. Medians are used because outliers hardly move them.

    Args:
        distances: Cosine distance of each row to the center of its cluster, shape (n,).
        labels: Cluster of each row, shape (n,); negative for a row in none.
        k: Number of clusters.
        cut: Robust standard deviations above the median.
    """
    clustered = labels >= 0
    overall_median, overall_spread = median_and_deviation(distances[clustered])
    limits = np.empty(k, dtype=np.float32)
    # One sort gives the rows of every cluster as a slice, so no cluster looks through all labels.
    rows_by_label = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[rows_by_label], np.arange(k + 1))
    for number in range(k):
        own_distances = distances[rows_by_label[bounds[number] : bounds[number + 1]]]
        median, spread = (
            median_and_deviation(own_distances)
            if len(own_distances)
            else (overall_median, overall_spread)
        )
        own_weight = len(own_distances) / (len(own_distances) + PSEUDO_MEMBERS)
        limits[number] = (
            own_weight * median
            + (1 - own_weight) * overall_median
            + cut * (own_weight * spread + (1 - own_weight) * overall_spread)
        )
    return np.maximum(limits, _SAME_DIRECTION)


def median_and_deviation(values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Returns the median and the robust standard deviation (`DEVIATIONS_PER_MAD` times the median absolute deviation)
    of values of shape (n,); zeros without values."""
    if not len(values):
        return 0.0, 0.0
    median = float(np.median(values))
    return median, DEVIATIONS_PER_MAD * float(np.median(np.abs(values - median)))


def _mean_directions(vectors: Vectors, order: Indices, centers: Vectors, least: int) -> Vectors:
    """Returns the mean direction of the rows nearest to each center, shape (k, d); drops centers with fewer than
    `least` rows."""
    # Without a small center its rows go to others, so the sizes must be counted anew until none is too small.
    while True:
        labels, _ = kmeans.find_closest_of_rows(vectors, order, centers)
        too_small = np.bincount(labels, minlength=len(centers)) < least
        if not too_small.any() or len(centers) == 1:
            break
        if too_small.all():
            too_small[0] = False
        centers = centers[~too_small]
    sums = np.zeros(centers.shape, dtype=np.float64)
    for block in blocks(len(order)):
        sums += kmeans.sum_rows(vectors[order[block]], labels[block], len(centers))
    return kmeans.scale_to_unit(sums, centers)


def _partition(vectors: Vectors, rows: Indices, centers: Vectors, cut: float | None) -> Clusters:
    """Returns the clusters: labels rows by their nearest centers, marks outliers, and numbers clusters by size.

    Args:
        vectors: Shape (n, d).
        rows: Numbers of the rows with a vector.
        centers: Shape (k, d).
        cut: As in `cluster`.
    """
    # A cluster all of whose rows are outliers is dropped, which gives its rows another nearest center: so once more.
    while True:
        labels, cosines = kmeans.find_closest_of_rows(vectors, rows, centers)
        distances = np.maximum(0, 1 - cosines)
        if cut is not None:
            labels[
                distances > find_outlier_limits(distances, labels, len(centers), cut)[labels]
            ] = OUTLIER
        sizes = np.bincount(labels[labels >= 0], minlength=len(centers))
        if sizes.all():
            break
        centers = centers[sizes > 0]
    # Clusters of equal size are ordered by their centers, which do not depend on the order of the rows.
    order = np.lexsort((*centers.T[:_TIE_COORDINATES], -sizes))
    # The entry at index -1 keeps outliers outliers.
    new_numbers = np.full(len(centers) + 1, OUTLIER, dtype=np.int32)
    new_numbers[order] = np.arange(len(centers), dtype=np.int32)

    count = len(vectors)
    clusters = Clusters(
        labels=np.full(count, OUTLIER, np.int32),
        centers=centers[order],
        distances=np.ones(count, np.float32),
    )
    clusters.labels[rows] = new_numbers[labels]
    clusters.distances[rows] = distances
    return clusters


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The clusters that a conversation can be assigned to.

    Attributes:
        centers: Shape (k, d), rows of length 1.
        limits: Cosine distance to each center beyond which a conversation is novel, shape (k,).
    """

    centers: Vectors
    limits: Floats


def learn_membership(vectors: Vectors, labels: Numbers, k: int) -> Membership:
    """Returns centers and limits of a partition (the clusters, or the groups after decisions).

    The limit of a cluster is the `MEMBER_QUANTILE` quantile of its members' distances, mixed with the limit of outliers
    if it has few members.

    Args:
        vectors: Shape (n, d), rows of length 1.
        labels: Cluster of each row in 0 .. k - 1, negative for none, shape (n,).
        k: Number of clusters.

    Raises:
        UsageError: A cluster has no members.
    """
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    if k < 1 or len(sizes) != k or not sizes.all():
        raise UsageError("A cluster has no members to learn from.")
    sums = np.zeros((k, vectors.shape[1]), dtype=np.float64)
    for block in blocks(len(vectors)):
        clustered = np.flatnonzero(labels[block] >= 0)
        sums += kmeans.sum_rows(vectors[block][clustered], labels[block][clustered], k)
    centers = unit_rows(sums)
    distances = np.ones(len(vectors), dtype=np.float32)
    # Rows in no cluster get numbers without a meaning here, which are not used.
    for block in blocks(len(vectors)):
        cosines = vectors[block] @ centers.T
        distances[block] = np.maximum(0, 1 - cosines[np.arange(len(cosines)), labels[block]])
    return Membership(centers, _novelty_limits(distances, labels, sizes))


def assign(vectors: Vectors, membership: Membership) -> tuple[Numbers, Floats]:
    """Returns the nearest cluster of each row, `OUTLIER` beyond its limit, and the cosine distance to its center, 1 for
    a row of zeros; arrays of shape (n,).

    Args:
        vectors: Shape (n, d), rows of length 1 or 0, from the embedder of the clustered vectors.
        membership: The clusters, from `learn_membership`.
    """
    labels, cosines = kmeans.find_closest(vectors, membership.centers)
    has_direction = has_vector(vectors)
    distances = np.where(has_direction, np.maximum(0, 1 - cosines), 1).astype(np.float32)
    within_limit = has_direction & (distances <= membership.limits[labels])
    return np.where(within_limit, labels, OUTLIER).astype(np.int32), distances


def _novelty_limits(distances: Floats, labels: Numbers, sizes: Indices) -> Floats:
    """Returns the limit of each cluster, shape (k,); see `learn_membership`."""
    limits = find_outlier_limits(distances, labels, len(sizes), OUTLIER_DEVIATIONS)
    # The quantile of few members is nearly their largest distance, which says little about further members.
    for number, size in enumerate(sizes):
        quantile_weight = min(1.0, size / QUANTILE_MEMBERS)
        quantile = float(np.quantile(distances[labels == number], MEMBER_QUANTILE))
        limits[number] = quantile_weight * quantile + (1 - quantile_weight) * max(
            quantile, float(limits[number])
        )
    return limits


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
    sample = np.sort(rng.integers(len(vectors), size=min(len(vectors), kmeans.FULL_BATCH_ROWS)))
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
