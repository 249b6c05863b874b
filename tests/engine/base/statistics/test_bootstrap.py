"""Metrics with intervals from bootstraps."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from engine.base.statistics import bootstrap
from engine.base.statistics.bootstrap import NAMES, Ranking, Resampling, draw, figures
from engine.base.statistics.intervals import Classification, Interval
from tests.benchmarks.reproduction.paper import TABLE_2

LABELED = st.lists(
    st.tuples(st.integers(0, 10).map(lambda n: n / 10), st.booleans()), min_size=2, max_size=30
).filter(lambda pairs: len({label for _, label in pairs}) == 2)


def estimates(found: Classification) -> dict[str, Interval]:
    """The figures by name."""
    return {one.name: getattr(found, one.name) for one in fields(found)}


class TestClassification:
    @settings(max_examples=40, deadline=None)
    @given(LABELED)
    def test_counts(self, pairs: list[tuple[float, bool]]) -> None:
        """Accuracy, precision, recall and F1 are those of the rule value >= .5."""
        values, labels = [value for value, _ in pairs], [label for _, label in pairs]
        called = [value >= 0.5 for value in values]
        right = sum(a == b for a, b in zip(called, labels, strict=True))
        both = sum(a and b for a, b in zip(called, labels, strict=True))
        found = figures(values, labels)
        assert found["accuracy"] == pytest.approx(right / len(pairs))
        assert found["precision"] == pytest.approx(both / sum(called) if any(called) else 0)
        assert found["recall"] == pytest.approx(both / sum(labels))
        assert found["f1"] == pytest.approx(2 * both / (sum(called) + sum(labels)))

    def test_calibration_error(self) -> None:
        """The calibration error is the mean distance of score and share over ten bins, each weighted by its size."""
        measured = figures([0.12, 0.18, 0.9, 0.94], [False, True, True, True])
        assert measured["ece"] == pytest.approx((2 * 0.35 + 2 * 0.08) / 4)

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
    assert (found["precision"], found["recall"]) == pytest.approx((precision, recall), abs=0.001)
    assert found["f1"] == pytest.approx(f1, abs=0.01)


class TestIntervals:
    @settings(max_examples=20, deadline=None)
    @given(LABELED)
    def test_they_hold_the_figure(self, pairs: list[tuple[float, bool]]) -> None:
        """Every interval contains its figure, lies in [0, 1], and is the same when computed again."""
        values, labels = [value for value, _ in pairs], [label for _, label in pairs]
        found = draw(values, labels).classification()
        for name, one in estimates(found).items():
            assert 0 <= one.low <= one.value <= one.high <= 1, name
            assert one.value == figures(values, labels)[name]
        assert draw(values, labels).classification() == found

    @pytest.mark.parametrize("pairs", [1, 5, 30])
    def test_no_error_is_no_certainty(self, pairs: int) -> None:
        """Where a few conversations are all classified right, intervals reach below 1, less so with more of them."""
        found = estimates(_perfect(pairs))
        more = estimates(_perfect(4 * pairs))
        for name in ("accuracy", "precision", "recall", "f1", "auroc", "ap"):
            assert found[name].value == found[name].high == 1
            assert 0 < found[name].low < more[name].low < 1

    def test_what_belongs_together_is_drawn_together(self) -> None:
        """Five copies of each value in one group give the interval of one copy; as independent values they would narrow
        it.
        """
        rng = np.random.default_rng(5)
        values, labels = rng.random(60), rng.random(60) < 0.4
        once = draw(list(values), list(labels), list(range(60))).classification()
        groups = [n for n in range(60) for _ in range(5)]
        often = draw(list(values.repeat(5)), list(labels.repeat(5)), groups).classification()
        naive = draw(list(values.repeat(5)), list(labels.repeat(5))).classification()
        assert _width(often.accuracy) == pytest.approx(_width(once.accuracy), rel=0.15)
        assert _width(naive.accuracy) < 0.6 * _width(once.accuracy)

    def test_it_holds_the_truth(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of 120 samples of 30 pairs, 90% or more of the 95% intervals contain the true figure; of the calibration
        error, which is biased upwards in small bins, 70% or more.
        """
        monkeypatch.setattr(bootstrap, "DRAWS", 200)
        rng = np.random.default_rng(1)

        def drawn(pairs: int) -> tuple[list[float], list[bool]]:
            shared = rng.normal(0, 0.5, pairs)
            wholes = 1 / (1 + np.exp(-shared - rng.normal(0.75, 0.87, pairs)))
            cuts = 1 / (1 + np.exp(-shared - rng.normal(-0.75, 0.87, pairs)))
            return [*wholes, *cuts], [True] * pairs + [False] * pairs

        true = figures(*drawn(100_000))
        held = dict.fromkeys(NAMES, 0)
        for _ in range(120):
            found = draw(*drawn(30), groups=2 * list(range(30))).classification()
            for name, one in estimates(found).items():
                held[name] += one.low <= true[name] <= one.high
        assert held.pop("ece") >= 84
        assert min(held.values()) >= 108, held


def _perfect(pairs: int) -> Classification:
    labels = [True] * pairs + [False] * pairs
    values = [0.9] * pairs + [0.1] * pairs
    return draw(values, labels, 2 * list(range(pairs))).classification()


def _width(estimate: Interval) -> float:
    return estimate.high - estimate.low


RANKED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)
AUROC, AP = range(2)


def ranked(values: list[float], wrong: list[bool]) -> Ranking:
    """Values of which each is a conversation of its own."""
    return Resampling(range(len(values))).rank(values, wrong)


class TestFigures:
    @given(RANKED)
    def test_scikit_learn_agrees(self, pairs: list[tuple[int, bool]]) -> None:
        """Area and average precision equal scikit-learn's, ties included."""
        values, wrong = [float(v) for v, _ in pairs], [label for _, label in pairs]
        seen = ranked(values, wrong).observed
        assert seen[AUROC] == pytest.approx(roc_auc_score(wrong, values))
        assert seen[AP] == pytest.approx(average_precision_score(wrong, values))


class TestDraws:
    def test_a_handful(self) -> None:
        """With nine of a kind the interval is the whole range, also where two of 98 rank first."""
        wrong = [n >= 98 for n in range(100)]
        found = ranked([float(n) for n in range(100)], wrong)
        assert [found.figure(nth).value for nth in (AUROC, AP)] == pytest.approx([1, 1])
        assert [found.figure(nth).low for nth in (AUROC, AP)] == [0, 0]

    def test_one_kind(self) -> None:
        """With one kind only there are no figures."""
        with pytest.raises(ValueError, match="Both kinds"):
            ranked([1, 2], [True, True])
