"""Adds up the signs of trouble over the conversations of a project."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.base.arrays import Bools, Floats, Ints
from engine.base.sign import Sign

MAX_DEVIATIONS = 2.0
"""Largest standard score that counts, so that no single rare sign outweighs the others."""

LONG_SHARE = 0.9
"""Share of the conversations that have fewer messages than one that is called long."""

LONG_RATIO = 1.5
"""A conversation that is called long has more messages than this many times the median."""

NOT_COUNTED = frozenset((Sign.REFUSED_LAST, Sign.TOOL_LAST))
"""Signs that are shown and do not count: with them the sum tells less on the sets that it was chosen on."""


def standardize(values: NDArray[Any]) -> NDArray[Any]:
    """Returns values with mean 0 and standard deviation 1 in each column; a constant column becomes 0."""
    spread = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(spread > 0, spread, 1))


def standard_scores(values: Floats) -> Floats:
    """Returns the standard scores of each sign, at most `MAX_DEVIATIONS` to either side.

    Args:
        values: Of each conversation (rows) and sign (columns).

    Returns:
        The same shape; 0 for a sign that all have alike.
    """
    return np.asarray(np.clip(standardize(values), -MAX_DEVIATIONS, MAX_DEVIATIONS))


def trouble(scores: Floats) -> Floats:
    """Returns the sum of the standard scores of the signs that count, shape (conversations,).

    Args:
        scores: As `standard_scores` returns them, with the signs in the order of `Sign`.
    """
    return np.asarray(scores[:, [sign not in NOT_COUNTED for sign in Sign]].sum(axis=1))


def are_long(messages: Ints) -> Bools:
    """Returns which conversations have more messages than `LONG_SHARE` of all conversations have, and than `LONG_RATIO`
    times the median.

    Args:
        messages: Number of messages of each conversation, shape (conversations,).
    """
    bound = max(np.quantile(messages, LONG_SHARE), LONG_RATIO * np.median(messages))
    return np.asarray(messages > bound)
