"""Tests of differences between areas, and corrections for many tests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, mannwhitneyu, norm

from engine.base.statistics.ranking import placements
from engine.base.statistics.significance import above_chance, differ, holm, resampled, two_sided

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
        found = differ(placements(one, labels), placements(other, labels))
        assert found == pytest.approx(2 * norm.sf(abs(z)), rel=1e-9)

    def test_it_is_fair(self) -> None:
        """Of 400 pairs of equally good values about one in twenty is significant."""
        rng = np.random.default_rng(5)
        told = 0
        for _ in range(400):
            labels = (np.arange(80) < 30).tolist()
            shared = rng.normal(0, 1, 80) + np.array(labels)
            first, second = shared + rng.normal(0, 1, (2, 80))
            p = differ(placements(first, labels), placements(second, labels))
            told += p is not None and p < 0.05
        assert 0.02 < told / 400 < 0.09

    def test_copies_are_no_evidence(self) -> None:
        """Three copies of each value in one conversation give nearly the same p."""
        one, other, labels = two_values(2)
        groups = list(range(len(labels)))
        once = differ(placements(one, labels, groups), placements(other, labels, groups))
        thrice = differ(
            placements(3 * one, 3 * labels, 3 * groups),
            placements(3 * other, 3 * labels, 3 * groups),
        )
        assert once is not None
        assert once == pytest.approx(thrice)

    def test_alike(self) -> None:
        """Values of the same order do not differ significantly."""
        one, _, labels = two_values(3)
        assert differ(placements(one, labels), placements([x**3 for x in one], labels)) == 1.0

    def test_too_few(self) -> None:
        """With four of one kind there is no p."""
        one, other, _ = two_values(4)
        labels = [n < 4 for n in range(60)]
        assert differ(placements(one, labels), placements(other, labels)) is None

    def test_above_chance(self) -> None:
        """With few of a kind the test against chance is the normal form of the rank sum test."""
        values, labels = [1, 2, 3, 4, 5, 6, 7, 8, 9.0], [n > 5 for n in range(9)]
        same = mannwhitneyu(values[6:], values[:6], method="asymptotic", use_continuity=False)
        assert above_chance(placements(values, labels)) == pytest.approx(same.pvalue)

    def test_two_sided(self) -> None:
        """Known values of the normal distribution."""
        assert two_sided(1.959964) == pytest.approx(0.05, abs=1e-6)
        assert two_sided(0) == 1

    def test_resampled(self) -> None:
        """Draws that are as wide as the difference give a large p, far narrower ones a small p."""
        draws = np.random.default_rng(0).normal(0.1, 0.1, 1999)
        assert resampled(0.1, draws) == pytest.approx(2 * norm.sf(1), abs=0.04)
        assert resampled(1.0, draws) == 1 / 2000


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
