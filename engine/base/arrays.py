"""Names for the types of arrays that most algorithms pass on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers in double precision."""
Ints = NDArray[np.int64]
"""Whole numbers, such as ids, counts and indices."""
Bools = NDArray[np.bool_]
"""Truth values, such as which rows are chosen."""
