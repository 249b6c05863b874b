"""The baseline that reads nothing: a regression on where a boundary lies and how long the log and its last step are.

On logs of one kind this alone tells whole conversations from cut ones well, so each score is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.completeness import probe
from engine.completeness.probe import CrossFit, Ints

STRENGTHS = (1.0,)
"""Three numbers need hardly any regularisation."""

Position = tuple[int, int, int]
"""Number of the boundary in its conversation from 0, characters of the log up to it, characters of its last step."""


def by_position(
    curves: Sequence[Sequence[Position]], group: Ints, on_fold: Callable[[], None] = lambda: None
) -> CrossFit:
    """Scores every boundary from its position, made like the probe: out of fold and calibrated.

    Args:
        curves: The boundaries of each conversation, in order.
        group: The group of each conversation; nearly equal ones share it.
        on_fold: See `probe.cross_fit`.

    Returns:
        Scores of all boundaries, those of each conversation in order.

    Raises:
        ValueError: There are too few groups for the folds.
    """
    counts = [len(curve) for curve in curves]
    rows = np.array([place for curve in curves for place in curve], dtype=np.float32)
    end = np.concatenate([np.arange(count) == count - 1 for count in counts])
    return probe.cross_fit(np.log1p(rows), end, np.repeat(group, counts), on_fold, STRENGTHS)
