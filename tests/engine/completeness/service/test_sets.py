"""How far a set of scores can be relied on, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.base.statistics.intervals import Interval
from engine.completeness.records import MIN_CONVERSATIONS_FOR_PROBE, EndingTest, KindTest, ScoreSet
from engine.completeness.service.sets import reliability

AREA, MATCHED = Interval(0.84, 0.79, 0.88), Interval(0.79, 0.71, 0.85)
BETTER, EQUAL = Interval(0.18, 0.08, 0.27), Interval(0.02, -0.04, 0.08)


def score_set(
    over_position: Interval | None = BETTER,
    over_keywords: Interval | None = BETTER,
) -> ScoreSet:
    """A set whose test is that of the demo, where position alone tells random cuts better than the probe does."""
    known = over_position is not None
    test = EndingTest(
        *(89, AREA, 0.8, 0.57, 0.88, MATCHED, 900),
        *((0.6, 0.61, over_keywords, over_position) if known else ()),
    )
    return ScoreSet(1, "f1", "probe", "m", None, 90, test, in_force=True)


def told(one: ScoreSet) -> tuple[str, str]:
    """The test in words, and the doubt."""
    found = reliability(one, [one])
    assert bool(found.doubt) == bool(found.remedy)
    return found.test, found.doubt


def test_position_at_random_cuts_is_no_doubt() -> None:
    """Scores that are better at the same step are not doubted where position tells random cuts as well; both figures of
    all three are told."""
    test, doubt = told(score_set())
    assert test == (
        "whole against cut: AUROC .84 (.79 to .88), 89 conversations, position alone .88, keyword rule .57;"
        " at the same step .79 (.71 to .85), position alone .61, keyword rule .60"
    )
    assert doubt == ""


@pytest.mark.parametrize(
    ("one", "simple"),
    [
        (score_set(over_position=EQUAL), "position alone"),
        (score_set(over_keywords=EQUAL), "the keyword rule"),
    ],
)
def test_no_better_at_the_same_step_is_a_doubt(one: ScoreSet, simple: str) -> None:
    """Scores that are not shown to be better than a simple rule at the same step are doubted, with the difference."""
    assert told(one)[1] == (
        f"these scores mean little: at the same step {simple} tells whole from cut as well"
        " (difference +.02, −.04 to +.08)"
    )


@pytest.mark.parametrize("missing", [0, 1])
def test_a_kind_at_chance_is_named_so_where_its_scores_are_left_out(missing: int) -> None:
    """A kind is said to be unscored only if its test is on as many conversations as a probe needs: on fewer its scores
    stay, whatever the test is."""
    whole = score_set().test
    assert whole is not None
    tested = MIN_CONVERSATIONS_FOR_PROBE - missing
    chance = replace(whole, conversations=tested, auroc=Interval(0.55, 0.41, 0.66), matched=None)
    one = replace(score_set(), test=replace(whole, kinds=(KindTest("chats", 40, chance),)))
    (line,) = reliability(one, [one]).kinds
    assert ("none is scored" in line) == chance.at_chance == (missing == 0)
