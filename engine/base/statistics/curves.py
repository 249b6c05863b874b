"""The curves behind the metrics, as points to draw."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.base.statistics.records import (
    Curve,
)
from engine.base.statistics.weighted import Floats

POINTS = 200
"""Most points of a curve, evenly spaced; a terminal shows no more."""


def roc(values: Sequence[float], positive: Sequence[bool]) -> Curve:
    """Returns the ROC curve as (false positive rate, true positive rate) from the highest value down; ties are a
    line."""
    value, label = np.asarray(values, float), np.asarray(positive, bool)
    order = np.argsort(-value, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(value[order]) != 0, True))
    found, alarms = np.cumsum(label[order])[ends], np.cumsum(~label[order])[ends]
    x, y = np.append(0.0, alarms / max(1, alarms[-1])), np.append(0.0, found / max(1, found[-1]))
    return _thinned(x, y)


def rejection(values: Sequence[float], wrong: Sequence[bool]) -> Curve:
    """Returns the accuracy-rejection curve as (share rejected, accuracy of the rest). Rejects the highest values first,
    averages ties over all orders, and ends when one is left."""
    value, label = np.asarray(values, float), np.asarray(wrong, bool)
    _, place, many = np.unique(value, return_inverse=True, return_counts=True)
    share = np.bincount(place, ~label) / many
    # Each member of a tie counts as right with the tie's share of right ones.
    rights = np.cumsum(np.repeat(share, many))
    kept = np.arange(1, len(value) + 1)
    x, y = 1 - kept / len(value), rights / kept
    return _thinned(x[::-1], y[::-1])


def reliability(values: Sequence[float], positive: Sequence[bool], bins: int = 10) -> Curve:
    """Returns the reliability diagram as (mean value, share of positives) for each non-empty bin of equal width."""
    value, label = np.asarray(values, float), np.asarray(positive, bool)
    place = np.minimum((value * bins).astype(int), bins - 1)
    return tuple(
        (float(value[place == one].mean()), float(label[place == one].mean()))
        for one in np.unique(place)
    )


def _thinned(x: Floats, y: Floats) -> Curve:
    at = np.unique(np.linspace(0, len(x) - 1, min(len(x), POINTS)).round().astype(int))
    return tuple((float(x[one]), float(y[one])) for one in at)
