"""The choice of the best validation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.statistics.ranking import auroc_error
from training.validation import Validation, best_validation

PAIRS = 100


def validations(*figures: tuple[float, float]) -> list[Validation]:
    """Validations with these AUROC and F1, over a hundred pairs."""
    return [Validation(1.0, auroc, f1, PAIRS) for auroc, f1 in figures]


@pytest.mark.parametrize(
    ("figures", "best"),
    [
        ([(0.8, 0.5)], 0),
        ([(0.8, 0.5), (0.9, 0.4)], 1),
        ([(0.949, 0.839), (0.947, 0.894)], 1),
        ([(0.947, 0.894), (0.949, 0.839)], 0),
        ([(0.95, 0.8), (0.90, 0.9)], 0),
        ([(0.95, 0.8), (0.94, 0.8)], 0),
        ([(0.94, 0.8), (0.95, 0.8)], 1),
        ([(0.90, 0.9), (0.93, 0.5), (0.99, 0.2)], 2),
        ([(1.0, 0.8), (0.997, 0.9)], 1),
    ],
    ids=[
        "the only one", "clearly higher", "as high, better F1", "as high, worse F1", "clearly lower",
        "lower, same F1", "higher, same F1", "what was kept falls behind", "nearly without an error",
    ],
)  # fmt: skip
def test_auroc_and_then_f1(figures: Sequence[tuple[float, float]], best: int) -> None:
    """AUROC decides where the difference exceeds its standard error, otherwise F1."""
    assert best_validation(validations(*figures)) == best


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6))
def test_never_told_from_the_highest(figures: list[tuple[float, float]]) -> None:
    """In any order of validations, the AUROC of the chosen one is within a standard error of the highest."""
    highest = max(auroc for auroc, _ in figures)
    kept = figures[best_validation(validations(*figures))][0]
    assert highest - kept <= auroc_error(kept, PAIRS, PAIRS)
