"""The features of the merge probability, and the probability under its prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.arrays import Floats
from engine.goals.merges.merge_probability import (
    MAX_ABSOLUTE_FEATURE,
    NAMES,
    PRIOR,
    RobustScale,
    refit,
    standardize,
)

MODEL = refit(PRIOR, np.empty((0, len(NAMES))), [])


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
    assert MODEL.probabilities(of(**{name: more}))[0] > 0.5


def test_one_decision_lifts_no_unlike_pair() -> None:
    """One merge of an unlike pair leaves another unlike one, on which the model says no, improbable, however alike
    their labels; twenty do not."""
    unlike = of(scaled_similarity=0.1, description=1.2, yes=0.06, yes_reversed=0.06)
    assert MODEL.probabilities(unlike)[0] < 0.3
    once = refit(PRIOR, unlike, [True])
    assert once.probabilities(unlike)[0] < 0.4
    assert refit(PRIOR, np.repeat(unlike, 20, axis=0), [True] * 20).probabilities(unlike)[0] > 0.9


def test_decisions_move_the_threshold() -> None:
    """Five refusals just above the threshold make such pairs improbable, and leave a clear merge probable."""
    just_above = of(scaled_similarity=0.45)
    fitted = refit(PRIOR, np.repeat(just_above, 5, axis=0), [False] * 5)
    assert MODEL.probabilities(just_above)[0] > 0.5 > fitted.probabilities(just_above)[0]
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
