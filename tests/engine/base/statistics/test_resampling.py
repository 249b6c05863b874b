"""Bootstrap draws of ranking figures, and accuracy-rejection curves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import auc as trapezoid
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from engine.base.statistics.bootstrap import RANK_FIGURES, Ranking, Resampling
from engine.base.statistics.ranking import rejection, reliability, roc

RANKED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)
AUROC, AP, KEPT, RATIO = range(4)


def ranked(values: list[float], wrong: list[bool], draws: int = 3) -> Ranking:
    """Values of which each is a conversation of its own."""
    return Resampling(range(len(values)), draws).rank(values, wrong)


class TestFigures:
    @given(RANKED)
    def test_scikit_learn_agrees(self, pairs: list[tuple[int, bool]]) -> None:
        """Area and average precision equal scikit-learn's, ties included."""
        values, wrong = [float(v) for v, _ in pairs], [label for _, label in pairs]
        seen = ranked(values, wrong).seen
        assert seen[AUROC] == pytest.approx(roc_auc_score(wrong, values))
        assert seen[AP] == pytest.approx(average_precision_score(wrong, values))

    @given(RANKED)
    def test_any_scale(self, pairs: list[tuple[int, bool]]) -> None:
        """A monotone transform of the values changes no figure and no draw."""
        values, wrong = [float(v) for v, _ in pairs], [label for _, label in pairs]
        one, other = ranked(values, wrong), ranked([np.exp(v / 2) - 5 for v in values], wrong)
        assert np.array_equal(one.seen, other.seen)
        few = min(wrong.count(True), wrong.count(False)) < 10
        assert (one.drawn is None) == few
        if one.drawn is not None and other.drawn is not None:
            assert np.array_equal(one.drawn, other.drawn, equal_nan=True)

    def test_rejection_by_hand(self) -> None:
        """Right, wrong, right in the order of values: accuracies 1, 1/2, 2/3; a perfect order has 1, 1, 2/3, a random
        one 2/3.
        """
        seen = ranked([1, 2, 3], [False, True, False]).seen
        assert seen[KEPT] == pytest.approx((1 + 1 / 2 + 2 / 3) / 3)
        perfect, chance = (1 + 1 + 2 / 3) / 3, 2 / 3
        assert seen[RATIO] == pytest.approx((seen[KEPT] - chance) / (perfect - chance))

    @given(RANKED.filter(lambda pairs: len(pairs) <= 6))
    @settings(max_examples=40)
    def test_equal_values_are_all_orders(self, pairs: list[tuple[int, bool]]) -> None:
        """With equal values the area is the mean over all their orders."""
        areas = []
        for order in itertools.permutations(pairs):
            if all(a[0] <= b[0] for a, b in itertools.pairwise(order)):
                right = np.cumsum([not wrong for _, wrong in order])
                areas.append(float((right / np.arange(1, len(order) + 1)).mean()))
        seen = ranked([float(v) for v, _ in pairs], [label for _, label in pairs]).seen
        assert seen[KEPT] == pytest.approx(np.mean(areas))

    def test_random_rejection_is_flat(self) -> None:
        """A constant value has a flat curve and a ratio of 0; a perfect order has 1, a reversed one is below 0."""
        wrong = [n % 3 == 0 for n in range(30)]
        flat = ranked([1.0] * 30, wrong).seen
        assert flat[KEPT] == pytest.approx(2 / 3)
        assert flat[RATIO] == pytest.approx(0)
        assert {round(y, 9) for _, y in rejection([1.0] * 30, wrong)} == {round(2 / 3, 9)}
        assert ranked([float(w) for w in wrong], wrong).seen[RATIO] == pytest.approx(1)
        assert ranked([-float(w) for w in wrong], wrong).seen[RATIO] < 0


class TestDraws:
    def test_a_draw_is_a_copied_sample(self) -> None:
        """The figures of a draw are those of the values repeated as often as their conversations were drawn."""
        rng = np.random.default_rng(3)
        groups = [n // 2 for n in range(60)]
        values, wrong = rng.integers(0, 6, 60).astype(float), rng.random(60) < 0.5
        drawn = Resampling(groups, 5).rank(values.tolist(), wrong.tolist()).drawn
        assert drawn is not None
        many = np.random.default_rng(20_240_917).multinomial(30, np.full(30, 1 / 30), size=5)
        for times, found in zip(many, drawn, strict=True):
            again = np.repeat(np.arange(60), times[np.array(groups)])
            same = ranked(values[again].tolist(), wrong[again].tolist()).seen
            assert found == pytest.approx(same)

    def test_paired(self) -> None:
        """Two values of the same order never differ in a draw, though the figure of each varies."""
        values, wrong = [float(n * 7 % 20) for n in range(20)], [n % 2 == 0 for n in range(20)]
        made = Resampling(range(20), 200)
        one, other = made.rank(values, wrong), made.rank([v * 2 for v in values], wrong)
        assert one.figure(AUROC).low < one.figure(AUROC).high
        found = one.difference(other, AUROC)
        assert (found.value, found.low, found.high) == (0, 0, 0)

    def test_a_handful(self) -> None:
        """With nine of a kind the interval is the whole range, also where two of 98 rank first; that of the ratio
        begins at the worst order.
        """
        wrong = [n >= 98 for n in range(100)]
        found = ranked([float(n) for n in range(100)], wrong)
        assert [found.figure(nth).value for nth in (AUROC, AP, RATIO)] == pytest.approx([1, 1, 1])
        assert [found.figure(nth).low for nth in (AUROC, AP, KEPT)] == [0, 0, 0]
        worst = ranked([-float(n) for n in range(100)], wrong)
        assert found.figure(RATIO).low == pytest.approx(worst.seen[RATIO])
        off = found.difference(worst, AUROC)
        assert (off.value, off.low, off.high) == (1, -1, 1)

    def test_only_some(self) -> None:
        """Figures over some of the values are those of a sample of these."""
        values, wrong = [1.0, 2, 3, 4, 5], [False, True, False, True, True]
        among = np.array([True, True, True, True, False])
        found = Resampling(range(5), 3).rank(values, wrong, among).seen
        assert found == pytest.approx(ranked(values[:4], wrong[:4]).seen)

    def test_coverage(self) -> None:
        """95% intervals of a known area contain it in most of 60 samples."""
        rng = np.random.default_rng(1)
        held = 0
        for _ in range(60):
            wrong = (np.arange(60) < 25).tolist()
            values = rng.normal(0, 1, 60) + np.array(wrong) * 2**0.5
            found = ranked(values.tolist(), wrong, 400).figure(AUROC)
            held += found.low <= 0.8413 <= found.high
        assert held >= 52

    def test_one_kind(self) -> None:
        """With one kind only there are no figures."""
        with pytest.raises(ValueError, match="Both kinds"):
            ranked([1, 2], [True, True])

    def test_names(self) -> None:
        """Each figure has a name."""
        assert len(RANK_FIGURES) == ranked([1, 2], [True, False]).seen.size


class TestCurves:
    @given(RANKED)
    def test_roc(self, pairs: list[tuple[int, bool]]) -> None:
        """The ROC curve goes from (0, 0) to (1, 1) through scikit-learn's points, and has the area."""
        values, wrong = [float(v) for v, _ in pairs], [label for _, label in pairs]
        x, y = zip(*roc(values, wrong), strict=True)
        assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
        assert trapezoid(x, y) == pytest.approx(roc_auc_score(wrong, values))
        alarms, found, _ = roc_curve(wrong, values, drop_intermediate=False)
        assert np.array([x, y]) == pytest.approx(np.array([alarms, found]))

    @given(RANKED)
    def test_rejection(self, pairs: list[tuple[int, bool]]) -> None:
        """The rejection curve begins with all kept, and its mean height is the area."""
        values, wrong = [float(v) for v, _ in pairs], [label for _, label in pairs]
        points = rejection(values, wrong)
        assert points[0] == pytest.approx((0, 1 - np.mean(wrong)))
        assert np.mean([y for _, y in points]) == pytest.approx(ranked(values, wrong).seen[KEPT])

    def test_long_ones_are_thinned(self) -> None:
        """A long curve is thinned to what a terminal can show, and keeps its ends."""
        points = rejection(list(range(1000)), [n % 2 == 0 for n in range(1000)])
        assert len(points) == 200
        assert points[0][0] == 0
        assert points[-1][0] == pytest.approx(0.999)

    def test_reliability(self) -> None:
        """Reliability has mean value and share of positives by tenth; 1 belongs to the last."""
        found = reliability([0.02, 0.04, 0.95, 1.0], [False, True, True, True])
        assert np.array(found) == pytest.approx(np.array([[0.03, 0.5], [0.975, 1.0]]))
