"""Which of a run's validations is the best, whose weights become the adapter."""

from __future__ import annotations

from collections.abc import Sequence

from engine.validate.statistics.ranking import auroc_error
from training.curves import Validation

CHANCE = 0.5
"""The AUROC of a truncation test without pairs."""


def best_of(found: Sequence[Validation], *, by_loss: bool = False) -> int:
    """Place of the best of the validations so far, first to last; at least one.

    It is the one with the highest F1 of those whose AUROC cannot be told from the highest: within one standard error
    of their own. Only the best so far and a new one are compared, since the weights of the others are gone.

    Args:
        by_loss: The lowest loss instead.
    """
    best = 0
    for at in range(1, len(found)):
        kept, new = found[best], found[at]
        if by_loss:
            better = new.loss < kept.loss
        else:
            highest = max(map(_auroc, found[: at + 1]))
            better = _rank(new, highest) > _rank(kept, highest)
        if better:
            best = at
    return best


def _rank(one: Validation, highest: float) -> tuple[bool, float, float]:
    """By what it stands: among the best at all, F1, AUROC; without the first by AUROC alone."""
    area = _auroc(one)
    # The error of the lower one: that of an area of 1 is 0.
    if one.pairs and highest - area > auroc_error(area, one.pairs, one.pairs):
        return False, area, 0.0
    return True, one.f1 or 0.0, area


def _auroc(one: Validation) -> float:
    return CHANCE if one.auroc is None else one.auroc
