"""The area under the ROC curve, its interval, and average precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.statistics.ranking import auroc

LABELLED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)


class TestArea:
    @given(LABELLED)
    def test_it_counts_pairs(self, pairs: list[tuple[int, bool]]) -> None:
        """The area is the share of pairs in which the positive has the higher value, ties counting half."""
        highs = [value for value, label in pairs if label]
        lows = [value for value, label in pairs if not label]
        won = sum((high > low) + (high == low) / 2 for high in highs for low in lows)
        found = auroc([value for value, _ in pairs], [label for _, label in pairs])
        assert found.value == pytest.approx(won / (len(highs) * len(lows)))
        assert 0 <= found.low <= found.value <= found.high <= 1

    @given(LABELLED)
    def test_turned_round(self, pairs: list[tuple[int, bool]]) -> None:
        """With negated values area and interval are one minus the former."""
        values, labels = [value for value, _ in pairs], [label for _, label in pairs]
        found, turned = auroc(values, labels), auroc([-value for value in values], labels)
        assert turned.value == pytest.approx(1 - found.value)
        assert turned.low == pytest.approx(1 - found.high, abs=1e-6)
        assert turned.high == pytest.approx(1 - found.low, abs=1e-6)

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

    def test_two_are_few(self) -> None:
        """Two neighbouring positives among a hundred values give a wide interval."""
        found = auroc([*range(100), 89.4, 89.6], [False] * 100 + [True] * 2)
        assert found.value == 0.9
        assert found.low < 0.6

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
