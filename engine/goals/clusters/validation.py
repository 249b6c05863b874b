"""How well clusters hold: on held-out conversations, and under other seeds and bootstrap samples.

Hold-out: a share is held out, the others are clustered, and those held out are assigned to the nearest cluster (Soroka
et al., "Unsupervised Evaluation of Multi-Turn Objective-Driven Interactions", Table 4).

Stability per cluster after Hennig (2007, Cluster-wise assessment of cluster stability, Comput. Stat. Data Anal. 52):
the mean over bootstraps of the Jaccard similarity with the most similar cluster of the bootstrap. He takes a mean of
.75 or more for stable and calls a cluster dissolved where the similarity is .5 or less. With more clusters than there
are goals many are unstable, because the boundary between two parts of one goal is arbitrary; merging removes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.base.errors import NotYet, UsageError
from engine.goals.clusters.clustering import assign, cluster, membership_of
from engine.goals.clusters.kmeans import FULL_BATCH_ROWS
from engine.model.embedders.vectors import Floats, Mask, Numbers, Vectors, has_vector

_HOLD_OUT_STREAM = 0x484F
"""Number of the stream of random numbers of a hold-out (ASCII "HO"), so that no other use of the seed draws the same
ones."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Result of a hold-out; distances are means over conversations, to the center of their own cluster.

    Attributes:
        clusters: Number of clusters of the training conversations.
        train, test: Number of training and of held-out conversations that have a vector.
        outliers: Number of training conversations in no cluster; they are not in the distances.
        novel: Number of held-out conversations that are farther from every cluster than its own members are.
        cosine_train, cosine_test: Mean cosine distance; that of the held-out ones includes novel ones.
        euclidean_train, euclidean_test: Mean Euclidean distance between the vectors of length 1.
    """

    clusters: int
    train: int
    test: int
    outliers: int
    novel: int
    cosine_train: float
    cosine_test: float
    euclidean_train: float
    euclidean_test: float


def choose_held_out(count: int, share: float, seed: int) -> Mask:
    """Returns a mask of the conversations to hold out, shape (count,): a random share, at least one held out and one
    not.

    Raises:
        UsageError: There are fewer than two conversations, or the share is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise UsageError(f"A share of {share} cannot be held out.", "Choose one like 0.5.")
    if count < 2:
        raise NotYet("There are too few conversations to hold any out.")
    is_held_out = np.zeros(count, dtype=np.bool_)
    held_out_count = min(count - 1, max(1, round(share * count)))
    order = np.random.default_rng([seed, _HOLD_OUT_STREAM]).permutation(count)
    is_held_out[order[:held_out_count]] = True
    return is_held_out


def measure_held_out(train: Vectors, labels: Numbers, test: Vectors) -> HeldOut:
    """Returns the distances of the clustered rows, and of the held-out rows after these are assigned to clusters.

    Args:
        train, test: Rows of length 1 from one embedder, shapes (n, d) and (m, d); rows of zeros are ignored.
        labels: Cluster of each row of `train` in 0 .. k - 1, negative for outliers, shape (n,).
    """
    k = int(labels.max()) + 1
    membership = membership_of(train, labels, k)
    inside = labels >= 0
    cosines = np.einsum("ij,ij->i", train[inside], membership.centres[labels[inside]])
    test_rows = test[has_vector(test)]
    assigned = assign(test_rows, membership)
    train_distances, test_distances = np.maximum(0, 1 - cosines), assigned.distances
    return HeldOut(
        clusters=k,
        train=int(has_vector(train).sum()),
        test=len(test_rows),
        outliers=int((has_vector(train) & ~inside).sum()),
        novel=int((assigned.labels < 0).sum()),
        cosine_train=_mean(train_distances),
        cosine_test=_mean(test_distances),
        # between vectors of length 1 the Euclidean distance follows from the cosine
        euclidean_train=_mean(np.sqrt(2 * train_distances)),
        euclidean_test=_mean(np.sqrt(2 * test_distances)),
    )


def _mean(values: Floats) -> float:
    """Returns the mean of values of shape (n,); 0 without values."""
    return float(values.mean(dtype=np.float64)) if len(values) else 0.0


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
            `kmeans.FULL_BATCH_ROWS` of them.
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
