"""The map of conversations: their vectors on a plane, by principal components (the directions of most variance)."""

from __future__ import annotations

import numpy as np

from engine.goals.clusters.kmeans import canonical_order
from engine.model.embedders.tfidf import one_thread
from engine.model.embedders.vectors import Floats, Vectors, blocks, has_vector

MAX_FITTED_ROWS = 50_000
"""Most rows that the components are computed from; of more, a sample."""
EDGE_QUANTILE = 0.995
"""Quantile of the absolute coordinates that is scaled to 1; larger ones are clipped, so that one extreme row does not
compress the map."""


def project_to_plane(vectors: Vectors, seed: int = 0) -> Floats:
    """Returns the first two principal components of each row, shape (n, 2), in [-1, 1]; (0, 0) for a row of zeros.

    Both axes have the same scale. The sign of each axis is chosen so that its largest loading is positive, which keeps
    the map from flipping between runs.

    Args:
        vectors: Shape (n, d), rows of length 1 or 0.
        seed: Seed of the sample of rows that the components are computed from.
    """
    points = np.zeros((len(vectors), 2), dtype=np.float32)
    nonzero = has_vector(vectors)
    rows = np.flatnonzero(nonzero)
    if not len(rows):
        return points
    sample = vectors[canonical_order(vectors, rows, seed)[:MAX_FITTED_ROWS]].astype(np.float64)
    centre = sample.mean(axis=0)
    sample -= centre
    with one_thread():
        _, axes = np.linalg.eigh(sample.T @ sample)
    axes = axes[:, ::-1][:, :2]  # `eigh` gives the largest eigenvalues last
    _, axis_count = axes.shape  # one where the vectors have a single dimension
    largest_loadings = axes[np.abs(axes).argmax(axis=0), np.arange(axis_count)]
    axes = axes * np.sign(largest_loadings)
    for part in blocks(len(vectors)):
        points[part, :axis_count] = (vectors[part] - centre) @ axes
    points[~nonzero] = 0
    scale = float(np.quantile(np.abs(points[rows]), EDGE_QUANTILE, axis=0).max())
    if scale > 0:
        points /= scale
    return np.clip(points, -1, 1, out=points)
