"""Which checkpoint becomes the adapter: that of the best validation."""

from __future__ import annotations

from collections.abc import Sequence

from engine.validate.statistics.ranking import auroc_error
from training.curves import Validation

CHANCE = 0.5
"""AUROC of a validation without pairs."""


def best_validation(validations: Sequence[Validation]) -> int:
    """Index of the best of the validations so far, given first to last; there must be at least one.

    The best is the one with the highest F1 among those whose AUROC lies within one standard error of the highest
    AUROC. Only the best so far is compared with each new one, since the weights of the others are deleted. Why:
    docs/decisions/0018-the-best-of-those-that-cannot-be-told-apart.md.
    """
    best = 0
    for at in range(1, len(validations)):
        highest = max(map(_auroc, validations[: at + 1]))
        if _rank(validations[at], highest) > _rank(validations[best], highest):
            best = at
    return best


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
