"""Signals: what the curve of a conversation that still runs says of how it will end.

A rule is chosen and tested on past conversations: chosen on one half, tested on the other. Its precision is the share
that ended incomplete of the past conversations in which it fired before the last boundary. A rule that cannot be
tested, or that is wrong too often, never fires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.completeness.calibration import wilson
from engine.records.calibration import Share

SignalName = Literal["stalled", "regressed", "low"]

PRECISION = 0.8
"""Least precision of a rule, by default."""

LEAST_FIRED = 10
"""Fewest conversations in which a rule fired, in either half, for its precision to be believed."""

RISE = 0.05
"""Least rise of the probability that counts as one."""

Curve = Sequence[float]
"""The probabilities that a conversation ends at its boundaries so far."""

Test = Callable[[Curve], bool]
"""Whether a rule fires at the last boundary of a curve."""


@dataclass(frozen=True, slots=True)
class Past:
    """A conversation that has ended.

    Attributes:
        curve: By probes that never saw it.
        incomplete: How it ended: as a person said, otherwise by its last probability.
        group: The same number for conversations that are nearly equal.
    """

    curve: Curve
    incomplete: bool
    group: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that fires often enough and is right often enough.

    Attributes:
        meaning: In words, for people.
        precision: Share of the past conversations in which it fired that ended incomplete, on the half of them that did
            not choose the rule.
        recall: Share of the incomplete ones of that half in which it fired.
        base: Share of all conversations of that half that ended incomplete.
    """

    name: SignalName
    meaning: str
    fires: Test
    precision: Share
    recall: float
    base: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that are in force, and for each of the others why it is not."""

    in_force: tuple[Rule, ...]
    left_out: tuple[tuple[SignalName, str], ...]

    def at(self, curve: Curve) -> list[Rule]:
        """The rules that fire at the last boundary of a curve."""
        return [rule for rule in self.in_force if rule.fires(curve)]


def stalled(turns: int) -> Test:
    """The probability has not risen for so many boundaries, and was never .5 or higher."""

    def fires(curve: Curve) -> bool:
        if len(curve) <= turns or max(curve) >= 0.5:
            return False
        return max(curve[-turns:]) < max(curve[:-turns]) + RISE

    return fires


def regressed(fall: float) -> Test:
    """The probability fell by so much from the highest before."""
    return lambda curve: len(curve) > 1 and max(curve[:-1]) - curve[-1] >= fall


def low(turns: int, below: float) -> Test:
    """After so many boundaries the probability is still below a value."""
    return lambda curve: len(curve) >= turns and curve[-1] < below


CANDIDATES: dict[SignalName, list[tuple[str, Test]]] = {
    "stalled": [
        (f"not risen for {turns} answers, and never .5 or higher", stalled(turns))
        for turns in (2, 3, 4, 6, 8)
    ],
    "regressed": [
        (f"fell by {fall:.1f} or more from its highest", regressed(fall))
        for fall in (0.1, 0.2, 0.3, 0.4, 0.5)
    ],
    "low": [
        (f"below {below:.1f} after {turns} answers", low(turns, below))
        for turns in (2, 3, 4, 6)
        for below in (0.1, 0.2, 0.3, 0.4)
    ],
}
"""What each signal is chosen from, with its meaning in words."""


def calibrate(past: Sequence[Past], least: float = PRECISION) -> Rules:
    """Chooses for each signal the rule that finds most of what ends incomplete with at least this precision.

    Nearly equal conversations are in the same half: the groups with an even number choose, the others test.
    """
    chosen = [one for one in past if one.group % 2 == 0]
    tested = [one for one in past if one.group % 2 == 1]
    in_force: list[Rule] = []
    left_out: list[tuple[SignalName, str]] = []
    for name, candidates in CANDIDATES.items():
        found = _chosen(chosen, candidates, least)
        if isinstance(found, str):
            left_out.append((name, found))
            continue
        meaning, fires = found
        hits, fired = _count(tested, fires)
        if fired < LEAST_FIRED:
            why = f"in the half that tests, it fired in {fired} of {len(tested):,} only"
            left_out.append((name, why))
        elif hits < least * fired:
            why = f"in the half that tests, it was right in {hits} of {fired}"
            left_out.append((name, why))
        else:
            incomplete = sum(one.incomplete for one in tested)
            in_force.append(
                Rule(
                    name,
                    meaning,
                    fires,
                    wilson(hits, fired),
                    recall=hits / incomplete,
                    base=incomplete / len(tested),
                )
            )
    return Rules(tuple(in_force), tuple(left_out))


def _chosen(
    past: Sequence[Past], candidates: Sequence[tuple[str, Test]], least: float
) -> tuple[str, Test] | str:
    """The rule that finds most with this precision, with its meaning; or why there is none."""
    counted = [(meaning, fires, *_count(past, fires)) for meaning, fires in candidates]
    often = [one for one in counted if one[3] >= LEAST_FIRED]
    if not often:
        return f"no rule fired in {LEAST_FIRED} of {len(past):,} past conversations"
    right = [one for one in often if one[2] >= least * one[3]]
    if right:
        meaning, fires, _, _ = max(right, key=lambda one: one[2])
        return meaning, fires
    meaning, _, hits, fired = max(often, key=lambda one: one[2] / one[3])
    incomplete = sum(one.incomplete for one in past)
    return (
        f"the best rule ({meaning}) was right in {hits} of {fired}; {incomplete} of {len(past):,}"
        " ended incomplete"
    )


def _count(past: Sequence[Past], fires: Test) -> tuple[int, int]:
    """In how many conversations a rule fired before the last boundary: those that ended incomplete, and all."""
    fired = [one for one in past if any(fires(one.curve[:end]) for end in range(1, len(one.curve)))]
    return sum(one.incomplete for one in fired), len(fired)
