"""Which checkpoint becomes the adapter: that of the best validation."""

from __future__ import annotations

from collections.abc import Sequence

from engine.base.statistics.ranking import auroc_error
from training.curves import Validation

CHANCE = 0.5
"""AUROC of a validation without pairs."""


def best_validation(validations: Sequence[Validation]) -> int:
    """Index of the best of the validations so far, given first to last; there must be at least one.

    The best is the one with the highest F1 among those whose AUROC lies within one standard error of the highest
    AUROC; of equally good ones the last, since an early one may have learned nothing yet. Only the best so far is
    compared with each new one, since the weights of the others are deleted. Why:
    docs/decisions/0018-the-best-of-those-that-cannot-be-told-apart.md.
    """
    return _best_and_last_gain(validations)[0]


def validations_without_gain(validations: Sequence[Validation]) -> int:
    """Number of the last validations in a row that were not better than the best before them; 0 of one or none."""
    return len(validations) - 1 - _best_and_last_gain(validations)[1] if validations else 0


def _best_and_last_gain(validations: Sequence[Validation]) -> tuple[int, int]:
    """Index of the best validation, and of the last one that was better than all before it."""
    best = last_gain = 0
    for index in range(1, len(validations)):
        highest = max(map(_auroc, validations[: index + 1]))
        new, old = _rank(validations[index], highest), _rank(validations[best], highest)
        if new > old:
            last_gain = index
        if new >= old:
            best = index
    return best, last_gain


def _rank(validation: Validation, highest: float) -> tuple[bool, float, float]:
    """A sort key: whether it is near the highest AUROC, then F1 and AUROC; AUROC alone where it is not near."""
    auroc = _auroc(validation)
    pairs = validation.pairs
    # The error of the lower one: an AUROC of 1 has an error of 0.
    if pairs and highest - auroc > auroc_error(auroc, pairs, pairs):
        return False, auroc, 0.0
    return True, validation.f1 or 0.0, auroc


def _auroc(validation: Validation) -> float:
    return CHANCE if validation.auroc is None else validation.auroc
