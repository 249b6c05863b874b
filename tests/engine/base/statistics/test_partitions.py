"""Agreement of groups with gold goals, and its intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure

from engine.base.statistics.partitions import (
    FEWEST,
    OUTSIDE,
    Labels,
    agreement,
    agreement_contrasts,
    agreement_figures,
)


def labels(*numbers: int) -> Labels:
    """Random group numbers."""
    return np.array(numbers, dtype=np.int64)


def noisy(rng: np.random.Generator, count: int, wrong: float) -> tuple[list[str], Labels]:
    """Six goals, and groups that differ from them for a share of the conversations."""
    gold = rng.integers(6, size=count)
    found = np.where(rng.random(count) < wrong, rng.integers(6, size=count), gold)
    return [f"goal {one}" for one in gold], found.astype(np.int64)


def test_the_same_partition() -> None:
    """The same partition with other names agrees fully; conversations in no group count as one group."""
    gold = ["a", "a", "b", "b", "c", "c", "c", "c", "c"]
    found = agreement(gold, labels(7, 7, 3, 3, *5 * [OUTSIDE]))
    assert [one.value for one in (found.v, found.ari, found.homogeneity, found.completeness)] == [
        1
    ] * 4
    assert found.groups == 2


def test_split_and_lumped() -> None:
    """Groups that split goals are homogeneous, one group for all is complete; the adjusted agreement of both is that of
    chance.
    """
    gold = ["a", "b"] * 10
    split, lumped = agreement(gold, labels(*range(20))), agreement(gold, labels(*20 * [0]))
    assert (split.homogeneity.value, lumped.completeness.value) == pytest.approx((1, 1))
    assert (split.ari.value, lumped.ari.value) == (0, 0)
    assert lumped.v.value == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 3)), min_size=1, max_size=40))
def test_intervals_hold_their_figure(pairs: list[tuple[str, int]]) -> None:
    """Every interval contains its figure and lies in the figure's range; for a handful of conversations it is that
    range.
    """
    found = agreement([goal for goal, _ in pairs], labels(*(number for _, number in pairs)))
    for one, least in (
        (found.v, 0),
        (found.ari, -1),
        (found.homogeneity, 0),
        (found.completeness, 0),
    ):
        assert least - 1e-9 <= one.low <= one.value + 1e-9
        assert one.value - 1e-9 <= one.high <= 1 + 1e-9
    if len(pairs) < FEWEST:
        assert (found.ari.low, found.ari.high) == (-1, 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-1, 9)), min_size=1, max_size=60))
def test_as_scikit_learn_has_it(pairs: list[tuple[int, int]]) -> None:
    """Every figure is that of scikit-learn, bit for bit."""
    gold, groups = labels(*(goal for goal, _ in pairs)), labels(*(group for _, group in pairs))
    homogeneity, completeness, v = homogeneity_completeness_v_measure(gold, groups)
    expected = [v, adjusted_rand_score(gold, groups), homogeneity, completeness]
    assert agreement_figures(gold, groups).tolist() == expected


def test_intervals_hold_the_truth() -> None:
    """Of 24 samples of 150 conversations, at least 20 intervals contain the figure of a far larger sample."""
    rng = np.random.default_rng(1)
    truth = agreement(*noisy(rng, 8_000, 0.3)).ari.value
    found = [agreement(*noisy(rng, 150, 0.3), seed=n).ari for n in range(24)]
    assert sum(one.low <= truth <= one.high for one in found) >= 20
    assert all(one.high - one.low < 0.35 for one in found)


def test_the_same_seed_gives_the_same_interval() -> None:
    """The same seed gives the same interval, another seed nearly the same."""
    gold, groups = noisy(np.random.default_rng(2), 200, 0.2)
    first, again, other = (agreement(gold, groups, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert first.v.low == pytest.approx(other.v.low, abs=0.05)


def test_contrasts() -> None:
    """Groups with a tenth wrong differ significantly from groups with half wrong, by the difference of their figures;
    from themselves they do not; seven conversations are too few for a test.
    """
    rng = np.random.default_rng(4)
    gold, good = noisy(rng, 300, 0.1)
    bad = np.where(rng.random(300) < 0.5, rng.integers(6, size=300), good).astype(np.int64)
    pairs = [("good", "bad"), ("good", "good")]
    ways = {"good": good, "bad": bad}
    v, ari, same, _ = agreement_contrasts(gold, ways, pairs)
    assert (v.figure, ari.figure) == ("V", "ARI")
    assert v.first == pytest.approx(agreement(gold, good).v.value)
    for one in (v, ari):
        assert one.difference.value == pytest.approx(one.first - one.second)
        assert 0 < one.difference.low < one.difference.value < one.difference.high
        assert one.corrected is not None
        assert one.corrected < 0.05
    assert (same.difference.value, same.p) == (0, 1)
    few = {name: labels[: FEWEST - 1] for name, labels in ways.items()}
    assert agreement_contrasts(gold[: FEWEST - 1], few, pairs[:1])[0].p is None
