"""Agreement of two labellers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from engine.base.statistics.labels import agree, alpha, shared

GRADES = (1, 2, 3, 4, 5)
PAIRS = st.lists(st.tuples(st.sampled_from(GRADES), st.sampled_from(GRADES)), min_size=1)


def test_by_hand() -> None:
    """Of eight pairs six agree, and one half would agree by chance: kappa is one half."""
    found = agree(list("aaaabbbb"), list("aaabbbba"))
    assert found.accuracy.value == 0.75
    assert found.frequent == 0.5
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.5)
    assert found.kappa.low < 0.5 < found.kappa.high
    assert found.weighted is None


@pytest.mark.filterwarnings("ignore:.*only one label in common")
@given(PAIRS)
def test_as_another_program_has_it(pairs: list[tuple[int, int]]) -> None:
    """Kappa and weighted kappa equal scikit-learn's; where that is undefined, they are None."""
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    found = agree(one, other, GRADES)
    for ours, weights in ((found.kappa, None), (found.weighted, "quadratic")):
        with np.errstate(all="ignore"):
            theirs = cohen_kappa_score(one, other, labels=list(GRADES), weights=weights)
        if np.isfinite(theirs):
            assert ours is not None
            assert ours.value == pytest.approx(theirs)
        else:
            assert ours is None


@given(PAIRS)
def test_either_may_be_the_judge(pairs: list[tuple[int, int]]) -> None:
    """Accuracy and kappa do not change when the labellers are exchanged."""
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    here, there = agree(one, other, GRADES), agree(other, one, GRADES)
    assert here.accuracy.value == there.accuracy.value
    assert (here.kappa is None) == (there.kappa is None)
    if here.kappa and there.kappa:
        assert here.kappa.value == pytest.approx(there.kappa.value)


def test_only_what_both_have() -> None:
    """Items without a label of both are left out; without any common item there are no figures."""
    assert shared({1: "a", 2: "b", 3: "c"}, {3: "x", 1: "y"}) == (["a", "c"], ["y", "x"])
    with pytest.raises(ValueError, match="label for each"):
        agree([], [])


def test_alpha_of_the_printed_example() -> None:
    """Krippendorff's alpha is that of his example with four observers and missing values (2011, section C): .743."""
    rows = (
        (1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0),
        (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3),
        (0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0),
        (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0),
    )
    counts = np.array(
        [[column.count(label) for label in range(1, 6)] for column in zip(*rows, strict=True)]
    )
    found = alpha(counts)
    assert found is not None
    assert round(found.value, 3) == 0.743
    assert 0.4 < found.low < found.value < found.high <= 1


@pytest.mark.parametrize(
    "counts", [np.zeros((0, 3), int), np.array([[1, 0]]), np.array([[2, 0]] * 3)]
)
def test_alpha_of_nothing(counts: npt.NDArray[np.int64]) -> None:
    """There is no alpha where nothing was judged twice, or where all gave one label."""
    assert alpha(counts) is None
