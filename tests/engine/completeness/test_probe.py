"""The probe: no conversation is scored by a regression that saw it, and its probabilities are probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.completeness.probe import (
    MOST_ROWS,
    STEPS,
    Calibration,
    balanced_weights,
    cross_fit,
)
from engine.validate.statistics.ranking import auroc

Made = tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]


def made(conversations: int, signal: float, seed: int = 1, dimensions: int = 12) -> Made:
    """States of conversations with two to six boundaries; an end is moved by `signal` along one direction."""
    random = np.random.default_rng(seed)
    counts = random.integers(2, 7, conversations)
    group = np.repeat(np.arange(conversations), counts)
    end = np.concatenate([np.arange(count) == count - 1 for count in counts])
    states = random.normal(size=(len(group), dimensions))
    states[:, 0] += signal * end
    return states.astype(np.float32), end, group


class TestCrossFit:
    def test_what_can_be_told_is_told(self) -> None:
        """States that differ by two standard deviations are told apart nearly as well as by the best rule."""
        states, end, group = made(150, signal=2.0)
        found = cross_fit(states, end, group)
        best = auroc(states[:, 0].tolist(), end.tolist(), group.tolist()).value
        assert auroc(found.p.tolist(), end.tolist(), group.tolist()).value > best - 0.03

    def test_nothing_is_learnt_from_the_conversation_itself(self) -> None:
        """Labels without any relation to the states are not told, though a regression could learn them by heart."""
        states, end, group = made(60, signal=0.0, dimensions=200)
        found = cross_fit(states, end, group)
        area = auroc(found.p.tolist(), end.tolist(), group.tolist())
        assert 0.35 < area.value < 0.65

    def test_equal_conversations_in_one_group_are_not_learnt_by_heart(self) -> None:
        """Copies of a conversation in one group score as without copies; in groups of their own they would not."""
        states, end, group = made(40, signal=0.0, dimensions=200)
        twice = np.concatenate([states, states]), np.concatenate([end, end])
        apart = cross_fit(*twice, np.concatenate([group, group + 40]))
        together = cross_fit(*twice, np.concatenate([group, group]))
        labels = np.concatenate([end, end]).tolist()
        assert auroc(apart.p.tolist(), labels).value > 0.9
        assert auroc(together.p.tolist(), labels).value < 0.7

    def test_a_conversation_that_is_left_out_changes_no_score_of_its_own(self) -> None:
        """The same data give the same bits, and every fold is reported."""
        data = made(30, signal=1.0)
        folds: list[int] = []
        first = cross_fit(*data, lambda: folds.append(1))
        assert len(folds) == STEPS
        assert cross_fit(*data).p.tolist() == first.p.tolist()

    def test_many_boundaries_are_drawn_from(self) -> None:
        """With more boundaries than are trained on, all are scored, and as well as the best rule."""
        states, end, group = made(2 * MOST_ROWS // 4, signal=2.0, dimensions=4)
        assert len(end) > MOST_ROWS * 5 / 4
        found = cross_fit(states, end, group)
        best = auroc(states[:, 0].tolist(), end.tolist()).value
        assert auroc(found.p.tolist(), end.tolist()).value > best - 0.01

    def test_too_few_groups(self) -> None:
        """Fewer conversations than folds are refused."""
        with pytest.raises(ValueError, match="cannot be divided"):
            cross_fit(*made(4, signal=1.0))


class TestCalibration:
    @pytest.mark.parametrize("signal", [0.5, 2.0])
    def test_probabilities_are_shares(self, signal: float) -> None:
        """At even odds of ends and others, of what gets about p a share of about p is an end."""
        states, end, group = made(1_000, signal=signal, dimensions=3)
        p = cross_fit(states, end, group).p
        weight = balanced_weights(end)
        for low in np.arange(0, 1, 0.2):
            within = (p >= low) & (p < low + 0.2)
            if weight[within].sum() > 0.02:
                share = weight[within & end].sum() / weight[within].sum()
                assert share == pytest.approx(
                    np.average(p[within], weights=weight[within]), abs=0.08
                )

    def test_steps_are_used_where_a_line_does_not_fit(self) -> None:
        """Where a third of the ends look like others, the line fits badly and isotonic regression is taken."""
        random = np.random.default_rng(3)
        end = np.arange(3_000) % 2 == 0
        broken = end & (random.random(3_000) < 1 / 3)
        values = random.normal(size=3_000) + np.where(end & ~broken, 8.0, -8.0)
        found = Calibration.of(values, end, np.arange(3_000))
        assert found.steps is not None
        assert found.p(np.array([-8.0]))[0] == pytest.approx(0.25, abs=0.05)
        assert found.p(np.array([8.0]))[0] > 0.95

    def test_order_is_kept_and_nothing_is_certain(self) -> None:
        """A higher value never gets a lower probability, and none is 0 or 1."""
        random = np.random.default_rng(4)
        end = random.random(400) < 0.5
        values = random.normal(size=400) + 3 * end
        p = Calibration.of(values, end, np.arange(400)).p(np.linspace(-1e3, 1e3, 500))
        assert (np.diff(p) >= 0).all()
        assert 0 < p.min() < p.max() < 1
