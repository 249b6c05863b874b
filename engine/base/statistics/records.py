"""Results of statistics: frozen rows, no arrays."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.interval import Interval

Curve = tuple[tuple[float, float], ...]
"""Points by their first coordinate."""


@dataclass(frozen=True, slots=True)
class Classification:
    """How well a value separates complete from incomplete conversations; each figure has a 95% bootstrap interval.

    Attributes:
        accuracy, precision, recall, f1: Of the classifier that calls values from the threshold up complete; if there
            are none, precision is 0 and its interval says that it is unknown.
        auroc: P(a complete conversation has a higher value than an incomplete one); equal values count half.
        ap: Average precision; guessing gives the share of complete conversations.
        ece: Expected calibration error of the value as a probability, over ten equal bins.
    """

    accuracy: Interval
    precision: Interval
    recall: Interval
    f1: Interval
    auroc: Interval
    ap: Interval
    ece: Interval


@dataclass(frozen=True, slots=True)
class Contrast:
    """Comparison of two scores or measures on the same items.

    Attributes:
        figure: The figure by which they are compared, e.g. `AUROC`.
        one, other: Names of the two.
        n: Number of items.
        first, second: The figure of `one` and of `other`.
        difference: `first` - `second`, with its 95% interval from a bootstrap of conversations.
        p: Two-sided p-value of no difference; None if there are too few items.
        corrected: The p-value after Holm's correction for all contrasts of the table.
    """

    figure: str
    one: str
    other: str
    n: int
    first: float
    second: float
    difference: Interval
    p: float | None
    corrected: float | None = None
