"""Table 4 and Figure 4 of Soroka et al. from clusterings of the whole algorithm, merging included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.model.embedders.vectors import Floats, Numbers, Vectors, has_vector, unit_rows


@dataclass(frozen=True, slots=True)
class Distances:
    """Mean distances of rows to the centres of their clusters; None without rows.

    Attributes:
        rows: Number of rows measured.
        cosine: One minus the cosine with the centre.
        euclidean: To the mean of the cluster's rows, which are of length 1.
        cosine_error, euclidean_error: Standard errors of the two means; None with fewer than two rows.
    """

    rows: int
    cosine: float | None
    euclidean: float | None
    cosine_error: float | None = None
    euclidean_error: float | None = None


def own_distances(vectors: Vectors, labels: Numbers) -> Distances:
    """Distances of rows to the centres of their own clusters; rows with a negative label are left out."""
    centres = _centres(vectors, labels)
    inside = labels >= 0
    return _measured(vectors[inside], centres[labels[inside]])


def assigned_distances(vectors: Vectors, labels: Numbers, others: Vectors) -> Distances:
    """Distances of other rows to the nearest centre by cosine; rows of zeros are left out."""
    centres = _centres(vectors, labels)
    live = others[has_vector(others)]
    nearest = (live @ unit_rows(centres).T).argmax(axis=1)
    return _measured(live, centres[nearest])


def pairwise_ari(runs: Sequence[Numbers]) -> list[float | None]:
    """Adjusted Rand index of each pair of runs over the rows that both placed, in the order (0, 1), (0, 2), ...

    Args:
        runs: Cluster of each row, negative where a run does not have the row.

    Returns:
        None for a pair that has fewer than two rows in common, of which nothing can be said.
    """
    from sklearn.metrics import adjusted_rand_score

    found: list[float | None] = []
    for at, one in enumerate(runs):
        for other in runs[at + 1 :]:
            both = (one >= 0) & (other >= 0)
            enough = np.count_nonzero(both) > 1
            found.append(float(adjusted_rand_score(one[both], other[both])) if enough else None)
    return found


def _centres(vectors: Vectors, labels: Numbers) -> Floats:
    count = int(labels.max()) + 1
    return np.stack([vectors[labels == number].mean(axis=0) for number in range(count)])


def _measured(rows: Vectors, centres: Floats) -> Distances:
    if not len(rows):
        return Distances(0, None, None)
    angles = 1 - np.einsum("ij,ij->i", rows, unit_rows(centres))
    lengths = np.linalg.norm(rows - centres, axis=1)
    return Distances(
        len(rows), float(angles.mean()), float(lengths.mean()), _error(angles), _error(lengths)
    )


def _error(values: Floats) -> float | None:
    """The standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
