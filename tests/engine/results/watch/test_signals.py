"""Signals on curves, and how rules are chosen and tested."""

from __future__ import annotations

from random import Random

from engine.results.watch.signals import (
    CANDIDATES,
    MIN_FIRED,
    Past,
    calibrate,
    low,
    regressed,
    stalled,
)


class TestRules:
    def test_stalled(self) -> None:
        """It fires when the last so many values are no higher than the best before, by 5 points."""
        assert stalled(2)([0.2, 0.2, 0.24])
        assert not stalled(2)([0.2, 0.2, 0.25])
        assert not stalled(2)([0.2, 0.2])
        assert not stalled(2)([0.6, 0.2, 0.2])

    def test_regressed(self) -> None:
        """It fires when the last value lies so far below the highest before."""
        assert regressed(0.3)([0.1, 0.5, 0.2])
        assert not regressed(0.3)([0.1, 0.4, 0.2])
        assert not regressed(0.3)([0.4])

    def test_low(self) -> None:
        """It fires from a number of answers on, below a value."""
        assert low(2, 0.2)([0.5, 0.1])
        assert not low(2, 0.2)([0.1])
        assert not low(2, 0.2)([0.1, 0.2])


def past(count: int, right: float, seed: int = 0) -> list[Past]:
    """Conversations of which every second one falls from .6 to .1 at its third answer; of these a share ended
    incomplete, of the others none."""
    random = Random(seed)
    found = []
    for number in range(count):
        falls = random.random() < 0.5
        curve = [0.3, 0.6, 0.1, 0.1] if falls else [0.3, 0.6, 0.7, 0.9]
        found.append(Past(curve, falls and random.random() < right, number))
    return found


class TestCalibration:
    def test_a_rule_that_is_right_is_in_force(self) -> None:
        """What tells the end in past conversations is raised, with the precision on those that did not choose it."""
        rules = calibrate(past(200, right=1.0))
        names = {rule.name: rule for rule in rules.in_force}
        assert names["regressed"].precision.part == names["regressed"].precision.of >= MIN_FIRED
        assert names["regressed"].recall == 1.0
        assert [rule.name for rule in rules.at([0.3, 0.6, 0.1])] == ["regressed", "low"]
        assert rules.at([0.3, 0.6, 0.7]) == []

    def test_a_rule_that_is_wrong_too_often_is_not(self) -> None:
        """A rule that was right in half of the past conversations says nothing, and why is known."""
        rules = calibrate(past(200, right=0.5))
        assert rules.in_force == ()
        assert {name for name, _ in rules.without_rule} == set(CANDIDATES)
        assert (
            "the best rule (fell by 0.1 or more from its highest) was right in"
            in dict(rules.without_rule)["regressed"]
        )

    def test_few_conversations_calibrate_nothing(self) -> None:
        """A rule that fired in too few past conversations is not believed."""
        assert calibrate(past(20, right=1.0)).in_force == ()

    def test_equal_conversations_are_on_one_side(self) -> None:
        """Copies of one conversation cannot choose a rule and test it too."""
        one = Past([0.3, 0.6, 0.1, 0.1], True, 0)
        assert calibrate([one] * 100).in_force == ()


def judged(count: int, right: float, seed: int = 0) -> list[Past]:
    """Conversations with a verdict, half of which end at .2 and whose risk rises to .9; a share of these was called
    incomplete, none of the others."""
    random = Random(seed)
    found = []
    for number in range(count):
        bad = random.random() < 0.5
        curve, risk = ([0.3, 0.2], [0.4, 0.9]) if bad else ([0.3, 0.9], [0.4, 0.4])
        found.append(Past(curve, bad and random.random() < right, number, True, risk))
    return found


class TestSignalsByVerdicts:
    def test_a_conversation_to_hand_over(self) -> None:
        """It is raised where the risk reaches a value at which people called past conversations incomplete."""
        rules = calibrate(judged(200, right=1.0))
        assert [rule.name for rule in rules.at([0.3], [0.4, 0.9])] == ["hand over"]
        assert rules.at([0.3], [0.9, 0.4]) == []
        assert rules.at([0.3]) == []  # no probe of risk

    def test_an_end_below_a_calibrated_threshold(self) -> None:
        """It is raised at the end only, with the precision that verdicts gave it."""
        rules = calibrate(judged(200, right=1.0))
        fired = rules.at_end(0.2)
        assert fired is not None
        assert (fired.name, fired.precision.part) == ("ended incomplete", fired.precision.of)
        assert rules.at_end(0.6) is None
        assert not rules.ends_untested

    def test_verdicts_that_contradict_them(self) -> None:
        """Signals that people contradict are not raised, and why is known."""
        rules = calibrate(judged(200, right=0.5))
        assert rules.in_force == ()
        assert not rules.ends_untested
        assert "was right in" in dict(rules.without_rule)["ended incomplete"]

    def test_without_verdicts(self) -> None:
        """Nobody is handed over, and an end below the threshold of the project is told without a precision."""
        rules = calibrate([Past(one.curve, one.incomplete, one.group) for one in judged(200, 1.0)])
        names = {rule.name for rule in rules.in_force}
        assert names.isdisjoint({"hand over", "ended incomplete"})
        assert rules.ends_untested
        assert dict(rules.without_rule)["ended incomplete"].startswith("raised below the threshold")
