"""Calibration on cases worked out by hand, and on simulated populations whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.completeness.records import StateCounts
from engine.questions.calibration import (
    Calibration,
    calibrate,
    estimate_completion_rate,
    explain_shortage,
    find_best_threshold,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Choose = Callable[[np.random.Generator, Floats, int], npt.NDArray[np.int64]]


def states(above: int, scored: int, conversations: int) -> StateCounts:
    """So many scored conversations, of which so many are at or above the threshold and none is near it."""
    return StateCounts(above, scored - above, 0, conversations - scored, above)


def clean(count: int = 25) -> tuple[list[float], list[bool]]:
    """Verdicts without an error: as many complete above .6 as incomplete below .4."""
    steps = [n / count * 0.39 for n in range(count)]
    return steps + [1 - step for step in steps], [False] * count + [True] * count


class TestByHand:
    @pytest.mark.parametrize(
        ("p", "truth", "weights", "best"),
        [
            ([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1], [1, 1, 1, 1], 0.5),
            ([0.1, 0.2, 0.3, 0.9], [0, 0, 1, 1], [1, 1, 1, 1], 0.25),
            ([0.1, 0.2, 0.6, 0.7], [0, 1, 0, 1], [1, 1, 1, 1], 0.65),
            ([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], [1, 1, 7, 1], 0.75),
            ([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], [1, 7, 1, 1], 0.25),
        ],
        ids=["half", "middle", "tie near half", "weight above", "weight below"],
    )
    def test_youden(
        self, p: list[float], truth: list[int], weights: list[float], best: float
    ) -> None:
        """The threshold is .5 where that separates complete from incomplete, else the middle between both; of equally
        good ones that nearer to .5; a verdict with a large weight moves it to its side."""
        found = find_best_threshold(np.array(p), np.array(truth, bool), np.array(weights))
        assert found == pytest.approx(best)

    def test_rogan_gladen(self) -> None:
        """50% called complete with sensitivity .8 and specificity .9 are (.5 + .9 - 1) / .7 = 57% complete."""
        errors = np.tile([0.8, 0.9], (101, 1))
        calibration = Calibration("", 0.5, 1.0, errors)
        rate = estimate_completion_rate(calibration, states(50_000, 100_000, 100_000)).corrected
        assert rate is not None
        assert rate.value == pytest.approx(0.4 / 0.7)
        half = 1.96 * (0.25 / 100_000) ** 0.5 / 0.7
        assert (rate.high - rate.low) / 2 == pytest.approx(half, rel=0.3)

    def test_a_share_that_cannot_be(self) -> None:
        """An apparent rate far outside of what sensitivity and specificity allow has no correction but a reason;
        slightly outside, the corrected rate is 0.
        """
        errors = np.tile([0.8, 0.9], (101, 1))
        found = Calibration("", 0.5, 1.0, errors)

        for called in (0, 100):
            rate = estimate_completion_rate(found, states(called, 100, 100))
            assert rate.corrected is None
            assert "must be others" in rate.why
        few = estimate_completion_rate(found, states(0, 3, 3)).corrected
        assert few is not None
        assert few.value == 0  # (0 + .9 - 1) / .7 is below 0


class TestRefusals:
    def test_too_few(self) -> None:
        """Fewer than 40 verdicts, or fewer than five of a kind, give no threshold and say what is missing."""
        assert explain_shortage(20, 20) == ""
        assert "needs 40 verdicts, has 39" in explain_shortage(20, 19)
        assert "needs 5 verdicts that say yes, has 4" in explain_shortage(4, 60)
        scores, truth = clean(10)
        assert calibrate(scores, truth, scores).best is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40).map(lambda n: n / 40), st.booleans()), min_size=1, max_size=90
    ),
    st.lists(st.floats(0, 1), max_size=60),
    st.one_of(st.none(), st.floats(0, 1)),
)
def test_every_figure_is_a_share(
    judged: list[tuple[float, bool]], others: list[float], at: float | None
) -> None:
    """For any verdicts the errors and the rate are in [0, 1], the rate inside its interval, and the best threshold is
    among the scores."""
    scores, truth = [p for p, _ in judged], [t for _, t in judged]
    found = calibrate(scores, truth, [*scores, *others], at)
    if found.best is not None:
        assert min(scores) < found.best <= max(scores)
    assert ((found.errors >= 0) & (found.errors <= 1)).all()
    rate = estimate_completion_rate(
        found, states(len(judged), len(scores) + len(others), 500)
    ).corrected
    if rate is not None:
        assert 0 <= rate.low <= rate.value <= rate.high <= 1


# Populations whose truth is known


def population(rng: np.random.Generator, size: int = 4000) -> tuple[Floats, Bools]:
    """Scores that gather at both ends; the truth depends on them but is not calibrated to them."""
    p = rng.beta(0.7, 0.7, size)
    return p, rng.random(size) < 1 / (1 + np.exp(-8 * (p - 0.4)))


def at_random(rng: np.random.Generator, p: Floats, n: int) -> npt.NDArray[np.int64]:
    return rng.choice(len(p), n, replace=False)


def uncertain_first(rng: np.random.Generator, p: Floats, n: int) -> npt.NDArray[np.int64]:
    """Verdicts of which half follow the triage queue and half are a sample over all scores."""
    near = np.argsort(abs(p - 0.5))[: n // 2]
    groups = np.array_split(np.argsort(p), n // 2)
    return np.unique(np.concatenate([near, [rng.choice(group) for group in groups]]))


@pytest.mark.parametrize("choose", [at_random, uncertain_first])
def test_intervals_hold_the_truth(choose: Choose) -> None:
    """Over 60 simulated projects about 95% of the intervals contain the truth, also when doubtful conversations are
    judged first; the corrected rate is unbiased where the raw share of complete verdicts is not.
    """
    rng = np.random.default_rng(11)
    held, off, naive = 0, [], []
    runs = 60
    for _ in range(runs):
        p, truth = population(rng)
        chosen = choose(rng, p, 120)
        found = calibrate(p[chosen], truth[chosen], p)
        assert found.best is not None
        above = int((p >= found.best).sum())
        rate = estimate_completion_rate(found, states(above, len(p), len(p))).corrected
        assert rate is not None
        held += rate.low <= truth.mean() <= rate.high
        off.append(rate.value - truth.mean())
        naive.append(truth[chosen].mean() - truth.mean())
    assert held >= 0.85 * runs
    assert abs(float(np.mean(off))) < 0.015
    if choose is uncertain_first:
        assert abs(float(np.mean(naive))) > 0.03
