"""Signals on curves, and how rules are chosen and tested."""

from __future__ import annotations

from random import Random

from engine.results.watch.signals import CANDIDATES, Past, calibrate


def judged(count: int, right: float, seed: int = 0) -> list[Past]:
    """Conversations with a verdict, half of which end at .2 and whose risk rises to .9; a share of these was called
    incomplete, none of the others."""
    random = Random(seed)
    found = []
    for number in range(count):
        bad = random.random() < 0.5
        p, risk = (0.2, [0.4, 0.9]) if bad else (0.9, [0.4, 0.4])
        found.append(Past(p, bad and random.random() < right, number, risk))
    return found


class TestSignalsByVerdicts:
    def test_a_conversation_to_hand_over(self) -> None:
        """It is raised where the risk reaches a value at which people called past conversations incomplete."""
        rules = calibrate(judged(200, right=1.0))
        assert [rule.name for rule in rules.at(0.9)] == ["hand over"]
        assert rules.at(0.4) == []

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
        assert {name for name, _ in rules.without_rule} == set(CANDIDATES)
        assert "was right in" in dict(rules.without_rule)["ended incomplete"]

    def test_equal_conversations_are_on_one_side(self) -> None:
        """Copies of one conversation cannot choose a rule and test it too."""
        assert calibrate([Past(0.2, True, 0, [0.9])] * 100).in_force == ()

    def test_without_verdicts(self) -> None:
        """Nobody is handed over, and an end below the threshold of the project is told without a precision."""
        rules = calibrate([Past(one.p, None, one.group) for one in judged(200, 1.0)])
        names = {rule.name for rule in rules.in_force}
        assert names.isdisjoint({"hand over", "ended incomplete"})
        assert rules.ends_untested
        assert dict(rules.without_rule)["ended incomplete"].startswith("raised below the threshold")
