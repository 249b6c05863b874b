"""Figures of a value that predicts completeness, and their intervals."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from engine.base.interval import Interval
from engine.base.statistics import classification
from engine.base.statistics.classification import ClassificationMetrics, classify, draw, figures
from engine.base.statistics.ranking import auroc
from engine.base.statistics.records import (
    Classification,
)
from engine.questions.calibration import reliability
from tests.benchmarks.reproduction.paper import TABLE_2

LABELLED = st.lists(
    st.tuples(st.integers(0, 10).map(lambda n: n / 10), st.booleans()), min_size=2, max_size=30
).filter(lambda pairs: len({label for _, label in pairs}) == 2)


def estimates(found: Classification) -> dict[str, Interval]:
    """The figures by name."""
    return {one.name: getattr(found, one.name) for one in fields(found)}


class TestFigures:
    @settings(max_examples=40, deadline=None)
    @given(LABELLED, st.sampled_from([0.0, 0.35, 0.5, 1.0]))
    def test_counts(self, pairs: list[tuple[float, bool]], threshold: float) -> None:
        """Accuracy, precision, recall and F1 are those of the rule value >= threshold."""
        values, labels = [value for value, _ in pairs], [label for _, label in pairs]
        called = [value >= threshold for value in values]
        right = sum(a == b for a, b in zip(called, labels, strict=True))
        both = sum(a and b for a, b in zip(called, labels, strict=True))
        found = figures(values, labels, threshold)
        assert found.accuracy == pytest.approx(right / len(pairs))
        assert found.precision == pytest.approx(both / sum(called) if any(called) else 0)
        assert found.recall == pytest.approx(both / sum(labels))
        assert found.f1 == pytest.approx(2 * both / (sum(called) + sum(labels)))

    @settings(max_examples=40, deadline=None)
    @given(LABELLED)
    def test_areas(self, pairs: list[tuple[float, bool]]) -> None:
        """The area under the ROC curve is that of `engine.base.statistics.ranking`, average precision that of
        scikit-learn.
        """
        values, labels = [value for value, _ in pairs], [label for _, label in pairs]
        found = figures(values, labels)
        assert found.auroc == pytest.approx(auroc(values, labels).value)
        assert found.ap == pytest.approx(average_precision_score(labels, values))

    @settings(max_examples=40, deadline=None)
    @given(LABELLED)
    def test_calibration_error(self, pairs: list[tuple[float, bool]]) -> None:
        """The calibration error is that of the calibration screen where the sample is the population."""
        values = np.array([value for value, _ in pairs])
        labels = np.array([label for _, label in pairs])
        _, error = reliability(values, labels, values)
        assert figures(list(values), list(labels)).ece == pytest.approx(error)

    def test_what_cannot_be_asked(self) -> None:
        """With one kind only, missing labels, or values outside [0, 1], there are no figures."""
        with pytest.raises(ValueError, match="Both kinds"):
            figures([0.1, 0.2], [True, True])
        with pytest.raises(ValueError, match="One label"):
            figures([0.1, 0.2], [True])
        with pytest.raises(ValueError, match="in \\[0, 1\\]"):
            figures([0.1, 1.2], [True, False])
        with pytest.raises(ValueError, match="in \\[0, 1\\]"):
            figures([0.1, float("nan")], [True, False])


@pytest.mark.parametrize("row", [row for rows in TABLE_2.values() for row in rows])
def test_printed_f1(row: tuple[str, float, float, float, float]) -> None:
    """Conversations with the precision and recall that Soroka et al. print have the F1 that they print, as nearly as
    two digits tell."""
    _, _, precision, recall, f1 = row
    complete = 1_000
    hits = round(recall * complete)
    false = round(hits * (1 - precision) / precision)
    values = [1.0] * hits + [0.0] * (complete - hits) + [1.0] * false + [0.0] * (2_000 - false)
    found = figures(values, [True] * complete + [False] * 2_000)
    assert (found.precision, found.recall) == pytest.approx((precision, recall), abs=0.001)
    assert found.f1 == pytest.approx(f1, abs=0.01)


class TestIntervals:
    @settings(max_examples=20, deadline=None)
    @given(LABELLED)
    def test_they_hold_the_figure(self, pairs: list[tuple[float, bool]]) -> None:
        """Every interval contains its figure, lies in [0, 1], and is the same when computed again."""
        values, labels = [value for value, _ in pairs], [label for _, label in pairs]
        found = classify(values, labels)
        for name, one in estimates(found).items():
            assert 0 <= one.low <= one.value <= one.high <= 1, name
            assert one.value == getattr(figures(values, labels), name)
        assert classify(values, labels) == found

    @pytest.mark.parametrize("pairs", [1, 5, 30])
    def test_no_error_is_no_certainty(self, pairs: int) -> None:
        """Where a few conversations are all classified right, intervals reach below 1, less so with more of them."""
        found = estimates(_perfect(pairs))
        more = estimates(_perfect(4 * pairs))
        for name in ("accuracy", "precision", "recall", "f1", "auroc", "ap"):
            assert found[name].value == found[name].high == 1
            assert 0 < found[name].low < more[name].low < 1

    def test_nothing_called_complete(self) -> None:
        """Where nothing is classified as complete, precision is 0 by convention, with the interval from 0 to 1."""
        found = classify([0.1] * 10 + [0.2] * 10, [True] * 10 + [False] * 10)
        assert found.precision.value == found.f1.value == 0
        assert found.precision.high > 0.95
        assert found.f1.high < 0.5

    def test_what_belongs_together_is_drawn_together(self) -> None:
        """Five copies of each value in one group give the interval of one copy; as independent values they would narrow
        it.
        """
        rng = np.random.default_rng(5)
        values, labels = rng.random(60), rng.random(60) < 0.4
        once = classify(list(values), list(labels), list(range(60)))
        groups = [n for n in range(60) for _ in range(5)]
        often = classify(list(values.repeat(5)), list(labels.repeat(5)), groups)
        naive = classify(list(values.repeat(5)), list(labels.repeat(5)))
        assert _width(often.accuracy) == pytest.approx(_width(once.accuracy), rel=0.15)
        assert _width(naive.accuracy) < 0.6 * _width(once.accuracy)

    def test_many_need_fewer_draws(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of many conversations fewer draws are made, and the intervals hardly change."""
        rng = np.random.default_rng(2)
        values = [*rng.beta(4, 2, 1_500), *rng.beta(2, 4, 1_500)]
        labels, groups = [True] * 1_500 + [False] * 1_500, 2 * list(range(1_500))
        drawn = draw(values, labels, groups)
        assert len(drawn.draws) == classification.DRAWS
        before = estimates(drawn.classification())
        monkeypatch.setattr(classification, "_ALL_CELLS", 500_000)
        drawn = draw(values, labels, groups)
        assert len(drawn.draws) == 333
        for name, one in estimates(drawn.classification()).items():
            assert one.value == before[name].value
            assert abs(one.low - before[name].low) < 0.006
            assert abs(one.high - before[name].high) < 0.006

    def test_it_holds_the_truth(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of 120 samples of 30 pairs, 90% or more of the 95% intervals contain the true figure; of the calibration
        error, which is biased upwards in small bins, 70% or more.
        """
        monkeypatch.setattr(classification, "DRAWS", 200)
        rng = np.random.default_rng(1)

        def drawn(pairs: int) -> tuple[list[float], list[bool]]:
            shared = rng.normal(0, 0.5, pairs)
            wholes = 1 / (1 + np.exp(-shared - rng.normal(0.75, 0.87, pairs)))
            cuts = 1 / (1 + np.exp(-shared - rng.normal(-0.75, 0.87, pairs)))
            return [*wholes, *cuts], [True] * pairs + [False] * pairs

        true = figures(*drawn(100_000))
        held = dict.fromkeys((one.name for one in fields(ClassificationMetrics)), 0)
        for _ in range(120):
            found = classify(*drawn(30), groups=2 * list(range(30)))
            for name, one in estimates(found).items():
                held[name] += one.low <= getattr(true, name) <= one.high
        assert held.pop("ece") >= 84
        assert min(held.values()) >= 108, held


def _perfect(pairs: int) -> Classification:
    return classify(
        [0.9] * pairs + [0.1] * pairs, [True] * pairs + [False] * pairs, 2 * list(range(pairs))
    )


def _width(estimate: Interval) -> float:
    return estimate.high - estimate.low
