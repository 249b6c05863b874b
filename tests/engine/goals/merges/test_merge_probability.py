"""The merge probability: its features, the fit, calibration, and which pair comes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from engine.base.arrays import Floats
from engine.goals.merges import merge_probability
from engine.goals.merges.merge_probability import (
    MAX_ABSOLUTE_FEATURE,
    NAMES,
    MergeModel,
    Prior,
    RobustScale,
    design,
    expected_error_reduction,
    refit,
    standardize,
)

PRIOR = Prior((-1.0, 2.0, 0.5), (1.0, 0.5, 0.5))
NONE: npt.NDArray[np.float64] = np.empty((0, 2))

values = st.floats(-8, 8) | st.just(float("nan"))
decisions = st.integers(0, 25).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (n, 2), elements=values),
        st.lists(st.booleans(), min_size=n, max_size=n),
    )
)


def slope(model: MergeModel, features: npt.NDArray[np.float64], merged: list[bool]) -> float:
    """Largest component of the gradient of the penalised loss."""
    x, w = design(features), np.array(model.weights)
    error = 1 / (1 + np.exp(-x @ w)) - np.array(merged, float)
    pull = (w - np.array(PRIOR.means)) / np.square(np.array(PRIOR.deviations))
    return float(np.abs(x.T @ error + pull).max())


class TestFit:
    @settings(max_examples=30)
    @given(decisions)
    def test_optimum(self, given: tuple[npt.NDArray[np.float64], list[bool]]) -> None:
        """For any decisions, also separable or contradictory ones, the gradient is zero at the fitted weights."""
        assert slope(refit(PRIOR, *given), *given) < 1e-4

    def test_learns_against_the_prior(self) -> None:
        """Forty decisions that contradict the prior outweigh it."""
        random = np.random.default_rng(3)
        x = random.normal(size=(40, 2))
        merged = (x[:, 1] > 0.5).tolist()
        model = refit(PRIOR, x, merged)
        fresh = random.normal(size=(400, 2))
        right = (model.probabilities(fresh) > 0.5) == (fresh[:, 1] > 0.5)
        before = (refit(PRIOR, NONE, []).probabilities(fresh) > 0.5) == (fresh[:, 1] > 0.5)
        assert right.mean() > before.mean() + 0.1


class TestProbability:
    def test_mean_over_the_weights(self) -> None:
        """The probability is the mean over the distribution of the weights: as many drawn weights give, and nearer to a
        half than that of the best weights, the more so where fewer decisions tell."""
        model = refit(PRIOR, np.array([[1.0, 0.0], [-1.0, 0.5]]), [True, False])
        x = np.array([[3.0, 0.0], [-2.0, 1.0], [0.2, 0.0]])
        drawn = np.random.default_rng(0).multivariate_normal(
            model.weights, np.array(model.covariance), 20_000
        )
        exact = (1 / (1 + np.exp(-design(x) @ drawn.T))).mean(axis=1)
        assert model.probabilities(x) == pytest.approx(exact, abs=0.02)
        best = 1 / (1 + np.exp(-design(x) @ np.array(model.weights)))
        assert (np.abs(model.probabilities(x) - 0.5) < np.abs(best - 0.5)).all()

    def test_calibrated(self) -> None:
        """Where decisions are drawn from a model of this family, about a share p of the pairs at probability p is
        merged.
        """
        random = np.random.default_rng(5)
        true = np.array([-0.5, 1.5, 0.2])
        x = random.normal(size=(300, 2))
        merged = random.random(300) < 1 / (1 + np.exp(-design(x) @ true))
        model = refit(PRIOR, x, merged.tolist())
        fresh = random.normal(size=(20_000, 2))
        outcome = random.random(20_000) < 1 / (1 + np.exp(-design(fresh) @ true))
        p = model.probabilities(fresh)
        for low in np.arange(0, 1, 0.2):
            inside = (p >= low) & (p < low + 0.2)
            assert p[inside].mean() == pytest.approx(outcome[inside].mean(), abs=0.08)


UNTAUGHT = refit(PRIOR, NONE, [])


def expected_error_removed(
    features: npt.NDArray[np.float64], masses: npt.NDArray[np.float64], at: int
) -> float:
    """The same quantity by its definition: pair by pair, from the covariance after one more answer."""
    x, covariance = design(features), np.array(UNTAUGHT.covariance)
    p = UNTAUGHT.probabilities(features)
    c = p * (1 - p)
    after = np.linalg.inv(np.linalg.inv(covariance) + c[at] * np.outer(x[at], x[at]))
    removed = masses[at] * c[at]
    for j in range(len(x)):
        if j != at:
            removed += masses[j] * c[j] ** 2 * (x[j] @ (covariance - after) @ x[j])
    return float(removed)


def test_teaches_by_definition() -> None:
    """The closed form equals the expected error that one more answer removes, over all pairs."""
    random = np.random.default_rng(2)
    features, masses = random.normal(size=(7, 2)) * 2, random.random(7)
    found = expected_error_reduction(UNTAUGHT, features, masses)
    assert found == pytest.approx([expected_error_removed(features, masses, at) for at in range(7)])


SHIPPED = refit(merge_probability.PRIOR, np.empty((0, len(NAMES))), [])


def of(**changed: float) -> Floats:
    """The features of a pair: neutral but for those that are given."""
    nan = float("nan")
    plain = {
        "scaled_similarity": 0.4, "description": 0.3, "overlap": 0.1, "yes": nan,
        "yes_reversed": nan, "a": 10.0, "b": 10.0, **changed,
    }  # fmt: skip
    given: dict[str, Any] = {name: np.array([value]) for name, value in plain.items()}
    sizes = given.pop("a"), given.pop("b")
    return standardize(threshold=0.4, description_scale=RobustScale(0.3, 0.1), sizes=sizes, **given)


@pytest.mark.parametrize(
    ("name", "more"),
    [("scaled_similarity", 0.5), ("description", 0.5), ("overlap", 0.4)],
)
def test_each_speaks_for_a_merge(name: str, more: float) -> None:
    """Higher similarity of members or of descriptions, or overlap make a merge more probable than not."""
    assert SHIPPED.probabilities(of(**{name: more}))[0] > 0.5


def test_one_decision_lifts_no_unlike_pair() -> None:
    """One merge of an unlike pair leaves another unlike one, on which the model says no, improbable, however alike
    their labels; twenty do not."""
    unlike = of(scaled_similarity=0.1, description=1.2, yes=0.06, yes_reversed=0.06)
    assert SHIPPED.probabilities(unlike)[0] < 0.3
    once = refit(merge_probability.PRIOR, unlike, [True])
    assert once.probabilities(unlike)[0] < 0.4
    assert (
        refit(merge_probability.PRIOR, np.repeat(unlike, 20, axis=0), [True] * 20).probabilities(
            unlike
        )[0]
        > 0.9
    )


def test_decisions_move_the_threshold() -> None:
    """Five refusals just above the threshold make such pairs improbable, and leave a clear merge probable."""
    just_above = of(scaled_similarity=0.45)
    fitted = refit(merge_probability.PRIOR, np.repeat(just_above, 5, axis=0), [False] * 5)
    assert SHIPPED.probabilities(just_above)[0] > 0.5 > fitted.probabilities(just_above)[0]
    assert fitted.probabilities(of(scaled_similarity=0.9))[0] > 0.8


@settings(max_examples=20)
@given(st.lists(st.floats(-1, 1), min_size=5, max_size=5), st.floats(1, 1e6), st.floats(1, 1e6))
def test_bounded(values: list[float], a: float, b: float) -> None:
    """Every feature is clipped to `MAX_ABSOLUTE_FEATURE`, however extreme its input; NaN stays NaN."""
    scaled_similarity, description, overlap, yes, back = values
    found = of(
        scaled_similarity=scaled_similarity * 1e6, description=description * 1e6, overlap=abs(overlap),
        yes=abs(yes), yes_reversed=abs(back), a=a, b=b,
    )  # fmt: skip
    assert np.abs(found).max() <= MAX_ABSOLUTE_FEATURE
    assert np.isnan(of()[0]).tolist() == [False, False, False, True, False]
