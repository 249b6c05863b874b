"""Agreement of labelers and groups, and correlation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from engine.base.statistics import agreement
from engine.base.statistics.agreement import (
    MIN_CONVERSATIONS,
    OUTSIDE,
    Groups,
    agreement_of_two,
    gold_agreement,
    krippendorff_alpha,
)
from engine.base.statistics.ranking import correlate

GRADES = (1, 2, 3, 4, 5)
PAIRS = st.lists(st.tuples(st.sampled_from(GRADES), st.sampled_from(GRADES)), min_size=1)


@pytest.fixture(scope="module", autouse=True)
def few_halves() -> Iterator[None]:
    """Intervals stand on 20 random halves in place of 400, of which each takes milliseconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "_HALF_DRAWS", 20)
        yield


def test_by_hand() -> None:
    """Of eight pairs six agree, and one half would agree by chance: kappa is one half."""
    found = agreement_of_two(list("aaaabbbb"), list("aaabbbba"))
    assert found.accuracy.value == 0.75
    assert found.frequent == 0.5
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.5)
    assert found.kappa.low < 0.5 < found.kappa.high


@pytest.mark.filterwarnings("ignore:.*only one label in common")
@given(PAIRS)
def test_as_another_program_has_it(pairs: list[tuple[int, int]]) -> None:
    """Kappa equals scikit-learn's; where that is undefined, it is None."""
    one, other = [a for a, _ in pairs], [b for _, b in pairs]
    kappa = agreement_of_two(one, other).kappa
    with np.errstate(all="ignore"):
        theirs = cohen_kappa_score(one, other, labels=list(GRADES))
    if np.isfinite(theirs):
        assert kappa is not None
        assert kappa.value == pytest.approx(theirs)
    else:
        assert kappa is None


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
    found = krippendorff_alpha(counts)
    assert found is not None
    assert round(found.value, 3) == 0.743
    assert 0.4 < found.low < found.value < found.high <= 1


@pytest.mark.parametrize(
    "counts", [np.zeros((0, 3), int), np.array([[1, 0]]), np.array([[2, 0]] * 3)]
)
def test_alpha_of_nothing(counts: npt.NDArray[np.int64]) -> None:
    """There is no alpha where nothing was judged twice, or where all gave one label."""
    assert krippendorff_alpha(counts) is None


def labels(*numbers: int) -> Groups:
    """Random group numbers."""
    return np.array(numbers, dtype=np.int64)


def noisy(rng: np.random.Generator, count: int, wrong: float) -> tuple[list[str], Groups]:
    """Six goals, and groups that differ from them for a share of the conversations."""
    gold = rng.integers(6, size=count)
    found = np.where(rng.random(count) < wrong, rng.integers(6, size=count), gold)
    return [f"goal {one}" for one in gold], found.astype(np.int64)


def test_the_same_partition() -> None:
    """The same partition with other names agrees fully; conversations in no group count as one group."""
    gold = ["a", "a", "b", "b", "c", "c", "c", "c", "c"]
    found = gold_agreement(gold, labels(7, 7, 3, 3, *5 * [OUTSIDE]))
    assert [one.value for one in (found.v, found.ari, found.homogeneity, found.completeness)] == [
        1
    ] * 4
    assert found.groups == 2


def test_split_and_lumped() -> None:
    """Groups that split goals are homogeneous, one group for all is complete; the adjusted agreement of both is that of
    chance.
    """
    gold = ["a", "b"] * 10
    split, lumped = (
        gold_agreement(gold, labels(*range(20))),
        gold_agreement(gold, labels(*20 * [0])),
    )
    assert (split.homogeneity.value, lumped.completeness.value) == pytest.approx((1, 1))
    assert (split.ari.value, lumped.ari.value) == (0, 0)
    assert lumped.v.value == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 3)), min_size=1, max_size=40))
def test_intervals_hold_their_figure(pairs: list[tuple[str, int]]) -> None:
    """Every interval contains its figure and lies in the figure's range; for a handful of conversations it is that
    range.
    """
    found = gold_agreement([goal for goal, _ in pairs], labels(*(number for _, number in pairs)))
    for one, least in (
        (found.v, 0),
        (found.ari, -1),
        (found.homogeneity, 0),
        (found.completeness, 0),
    ):
        assert least - 1e-9 <= one.low <= one.value + 1e-9
        assert one.value - 1e-9 <= one.high <= 1 + 1e-9
    if len(pairs) < MIN_CONVERSATIONS:
        assert (found.ari.low, found.ari.high) == (-1, 1)


NUMBERS = st.lists(st.integers(-5, 5), min_size=4, max_size=20).filter(
    lambda values: len(set(values)) > 1
)


@given(NUMBERS)
def test_equal_values_share_a_rank(values: list[int]) -> None:
    """Equal values get the mean of their ranks; Spearman's coefficient is Pearson's of these ranks."""
    ranks = [1 + sum(v < one for v in values) + (values.count(one) - 1) / 2 for one in values]
    order = list(range(len(values)))
    found = correlate(values, order)
    assert found is not None
    assert found.spearman.value == pytest.approx(np.corrcoef(ranks, order)[0, 1])


def test_it_holds_the_truth() -> None:
    """Of 400 samples of 60 pairs, 92% to 98.5% of the 95% intervals contain the true rank correlation."""
    rng = np.random.default_rng(3)

    def draw(n: int) -> tuple[list[float], list[float]]:
        first = rng.normal(size=n)
        return list(first), list(0.6 * first + 0.8 * rng.normal(size=n))

    everything = correlate(*draw(200_000))
    assert everything is not None
    held = 0
    for _ in range(400):
        found = correlate(*draw(60))
        assert found is not None
        held += found.spearman.low <= everything.spearman.value <= found.spearman.high
    assert 0.92 <= held / 400 <= 0.985
