"""Areas under curves and their tests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, mannwhitneyu, norm

from engine.base.statistics.ranking import auroc, holm, p_against_chance, p_difference, placements

LABELED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)


class TestArea:
    @given(LABELED)
    def test_it_counts_pairs(self, pairs: list[tuple[int, bool]]) -> None:
        """The area is the share of pairs in which the positive has the higher value, ties counting half."""
        highs = [value for value, label in pairs if label]
        lows = [value for value, label in pairs if not label]
        won = sum((high > low) + (high == low) / 2 for high in highs for low in lows)
        found = auroc([value for value, _ in pairs], [label for _, label in pairs])
        assert found.value == pytest.approx(won / (len(highs) * len(lows)))
        assert 0 <= found.low <= found.value <= found.high <= 1

    def test_what_cannot_be_asked(self) -> None:
        """With one kind only, or missing labels, there is no area."""
        with pytest.raises(ValueError, match="Both kinds"):
            auroc([1, 2], [True, True])
        with pytest.raises(ValueError, match="One label"):
            auroc([1, 2], [True])


class TestInterval:
    def test_variance(self) -> None:
        """The variance is DeLong's: the variances of the placements of each kind, divided by their numbers."""
        rng = np.random.default_rng(2)
        highs, lows = rng.normal(1, 1, 12), rng.normal(0, 1, 15)
        won = (highs[:, None] > lows[None, :]).astype(float)
        area = won.mean()
        variance = won.mean(axis=1).var(ddof=1) / 12 + won.mean(axis=0).var(ddof=1) / 15
        half = 1.959964 * variance**0.5 / (area * (1 - area))
        found = auroc([*highs, *lows], [True] * 12 + [False] * 15)
        odds = area / (1 - area)
        assert found.value == pytest.approx(area)
        assert found.low == pytest.approx(1 / (1 + np.exp(half) / odds), abs=1e-6)
        assert found.high == pytest.approx(1 / (1 + np.exp(-half) / odds), abs=1e-6)

    @pytest.mark.parametrize(("shift", "positives"), [(0.0, 30), (1.0, 30), (2.0, 12), (1.0, 3)])
    def test_it_holds_the_truth(self, shift: float, positives: int) -> None:
        """Of 400 samples of normal values, 92% to 98.5% of the 95% intervals contain the true area."""
        rng = np.random.default_rng(11)
        true = float((rng.normal(shift, 1, 400_000) > rng.normal(0, 1, 400_000)).mean())
        labels = [True] * positives + [False] * 60
        held = 0
        for _ in range(400):
            values = np.concatenate([rng.normal(shift, 1, positives), rng.normal(0, 1, 60)])
            found = auroc(list(values), labels)
            held += found.low <= true <= found.high
        assert 0.92 <= held / 400 <= 0.985

    def test_answers_of_one_conversation_are_dependent(self) -> None:
        """Five copies of each value in one group give the interval of one copy; as independent values they would narrow
        it.
        """
        rng = np.random.default_rng(5)
        values, labels = rng.normal(0, 1, 60), rng.random(60) < 0.4
        once = auroc(list(values), list(labels))
        groups = [n for n in range(60) for _ in range(5)]
        often = auroc(list(values.repeat(5)), list(labels.repeat(5)), groups)
        naive = auroc(list(values.repeat(5)), list(labels.repeat(5)))
        assert (often.low, often.high) == pytest.approx((once.low, once.high))
        assert naive.high - naive.low < 0.6 * (once.high - once.low)

    def test_groups_with_both_kinds(self) -> None:
        """Where groups contain both kinds, taking the groups into account narrows the interval."""
        rng = np.random.default_rng(5)
        levels = rng.normal(0, 3, 80).repeat(2)
        labels = [True, False] * 80
        values = list(levels + rng.normal(0, 0.3, 160) + np.where(labels, 0.5, 0))
        paired = auroc(values, labels, list(np.arange(80).repeat(2)))
        alone = auroc(values, labels)
        assert paired.high - paired.low < 0.5 * (alone.high - alone.low)

    @pytest.mark.parametrize(("highs", "lows"), [(1, 1), (2, 2), (1, 50), (20, 20)])
    def test_no_overlap_is_no_certainty(self, highs: int, lows: int) -> None:
        """Where all positives are above all negatives, the interval reaches below 1, further with few values."""
        values = [*range(lows), *range(100, 100 + highs)]
        found = auroc(values, [False] * lows + [True] * highs)
        more = auroc(
            [*range(2 * lows), *range(200, 200 + 2 * highs)],
            [False] * 2 * lows + [True] * 2 * highs,
        )
        assert found.value == found.high == 1
        assert 0.1 < found.low < more.low < 1


PS = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def two_values(seed: int, n: int = 60) -> tuple[list[float], list[float], list[bool]]:
    """Two correlated values that both predict a little."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    shared = rng.normal(0, 1, n)
    one = shared + labels * 0.9 + rng.normal(0, 0.5, n)
    other = shared + labels * 0.3 + rng.normal(0, 0.5, n)
    return one.tolist(), other.tolist(), labels.tolist()


class TestDifferences:
    def test_delong(self) -> None:
        """p is that of DeLong's test, from the covariance of the placements of both kinds."""
        one, other, labels = two_values(1)
        mask = np.array(labels)
        psi = [
            (np.array(v)[mask][:, None] > np.array(v)[~mask][None, :]).astype(float)
            for v in (one, other)
        ]
        tens = np.cov([p.mean(axis=1) for p in psi])
        ones = np.cov([p.mean(axis=0) for p in psi])
        both = tens / mask.sum() + ones / (~mask).sum()
        z = (psi[0].mean() - psi[1].mean()) / np.sqrt(both[0, 0] + both[1, 1] - 2 * both[0, 1])
        found = p_difference(placements(one, labels), placements(other, labels))
        assert found == pytest.approx(2 * norm.sf(abs(z)), rel=1e-9)

    def test_it_is_fair(self) -> None:
        """Of 400 pairs of equally good values about one in twenty is significant."""
        rng = np.random.default_rng(5)
        told = 0
        for _ in range(400):
            labels = (np.arange(80) < 30).tolist()
            shared = rng.normal(0, 1, 80) + np.array(labels)
            first, second = shared + rng.normal(0, 1, (2, 80))
            p = p_difference(placements(first, labels), placements(second, labels))
            told += p is not None and p < 0.05
        assert 0.02 < told / 400 < 0.09

    def test_too_few(self) -> None:
        """With four of one kind there is no p."""
        one, other, _ = two_values(4)
        labels = [n < 4 for n in range(60)]
        assert p_difference(placements(one, labels), placements(other, labels)) is None

    def test_above_chance(self) -> None:
        """With few of a kind the test against chance is the normal form of the rank sum test."""
        values, labels = [1, 2, 3, 4, 5, 6, 7, 8, 9.0], [n > 5 for n in range(9)]
        same = mannwhitneyu(values[6:], values[:6], method="asymptotic", use_continuity=False)
        assert p_against_chance(placements(values, labels)) == pytest.approx(same.pvalue)


class TestMany:
    def test_by_hand(self) -> None:
        """Three tests: the smallest p times three, the next times two, never falling; a missing p does not count."""
        assert holm([0.01, None, 0.04, 0.03]) == pytest.approx([0.03, None, 0.06, 0.06])
        assert holm([0.6, 0.7]) == [1.0, 1.0]
        assert holm([]) == []

    @given(PS)
    def test_between_the_corrections(self, ps: list[float]) -> None:
        """The corrected p is at least p and the Benjamini-Hochberg correction, at most Bonferroni's, in the
        same order.
        """
        found = [p for p in holm(ps) if p is not None]
        assert all(p <= q <= min(1, len(ps) * p) + 1e-12 for p, q in zip(ps, found, strict=True))
        slack = false_discovery_control(ps, method="bh")
        assert all(q >= r - 1e-12 for q, r in zip(found, slack, strict=True))
        by_p = sorted(zip(ps, found, strict=True))
        assert all(a[1] <= b[1] for a, b in itertools.pairwise(by_p))
