"""The types of arrays that most algorithms pass on, and where the parts of an array start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers in double precision."""
Ints = NDArray[np.int64]
"""Whole numbers, such as ids, counts and indices."""
Bools = NDArray[np.bool_]
"""Truth values, such as which rows are chosen."""


def part_starts(sizes: Ints) -> Ints:
    """Returns where each part starts if parts of these sizes follow one another, and where the last one ends.

    Args:
        sizes: Shape (parts,).

    Returns:
        Shape (parts + 1,).
    """
    return np.concatenate([[0], np.cumsum(sizes)])
