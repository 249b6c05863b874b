"""Projects vectors to two dimensions for the map of groups."""

from __future__ import annotations

import numpy as np

from engine.goals.clusters.kmeans import canonical_order
from engine.model.embedders.tfidf import (
    one_thread,
)
from engine.model.embedders.vectors import Floats, Vectors, blocks, has_vector

FIT_ROWS = 50_000
_EDGE = 0.995
"""Quantile of the absolute coordinates that is scaled to 1; larger ones are clipped, so that one extreme row does not
compress the map."""


def project2d(vectors: Vectors, seed: int = 0) -> Floats:
    """First two principal components of each row, shape (n, 2), in [-1, 1]; (0, 0) for a row of zeros.

    Both axes have the same scale. Fitted on at most `FIT_ROWS` rows, sampled by the seed. The sign of each axis is
    chosen so that its largest loading is positive, which keeps the map from flipping between runs.
    """
    found = np.zeros((len(vectors), 2), dtype=np.float32)
    live = has_vector(vectors)
    rows = np.flatnonzero(live)
    if not len(rows):
        return found
    sample = vectors[canonical_order(vectors, rows, seed)[:FIT_ROWS]].astype(np.float64)
    centre = sample.mean(axis=0)
    sample -= centre
    with one_thread():
        _, axes = np.linalg.eigh(sample.T @ sample)
    axes = axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    for part in blocks(len(vectors)):
        found[part, : axes.shape[1]] = (vectors[part] - centre) @ axes
    found[~live] = 0
    scale = float(np.quantile(np.abs(found[rows]), _EDGE, axis=0).max())
    if scale > 0:
        found /= scale
    return np.clip(found, -1, 1, out=found)
