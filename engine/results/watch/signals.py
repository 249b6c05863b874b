"""Signals: what the curve of a conversation that runs says of how it will end, and its last value of how it ended.

A *curve* is the probabilities that a conversation ends at each of its boundaries (ends of assistant steps). A rule is
chosen and tested on past conversations: chosen on one half, tested on the other. Its precision is the share
that ended incomplete of the past conversations in which it fired: before the last boundary, and `ended incomplete` at
it. A rule that cannot be tested, or that is wrong too often, never fires.

`hand over` and `ended incomplete` are chosen and tested on conversations with a verdict alone: by the scores themselves
the latter would always be right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.base.conversation import State
from engine.base.statistics.intervals import Share, wilson

SignalName = Literal["stalled", "regressed", "low", "hand over", "ended incomplete"]
"""Names of the signals, as events have them; `signal_name` is what people read."""

HAND_OVER: SignalName = "hand over"
"""Says that a person will probably call the running conversation incomplete."""

ENDED_INCOMPLETE: SignalName = "ended incomplete"
"""Says that a quiet conversation is probably broken off."""

PRECISION = 0.8
"""Least precision of a rule, by default."""

MIN_FIRED = 10
"""Fewest conversations in which a rule fired, in either half, for its precision to be believed."""

NEVER_LIKELY = 0.5
"""A curve that was always below it never made an end likely."""

MIN_RISE = 0.05
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
        has_verdict: Whether a person said how it ended.
        risk: The probability that a person calls it incomplete, at its boundaries before the last, by probes that
            never saw it; empty where there are too few verdicts for a probe.
    """

    curve: Curve
    incomplete: bool
    group: int
    has_verdict: bool = False
    risk: Curve = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that fires often enough and is right often enough.

    Attributes:
        meaning: In words, for people.
        fires: Whether it fires at the last boundary of a curve.
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
    """The rules that are in force, and why each of the other signals has none.

    Attributes:
        in_force: At most one for each signal.
        without_rule: Name of each other signal, and why it has no rule, in words.
        ends_untested: Whether too few verdicts say how often `ended incomplete` is right. Then it is raised at the
            threshold of the project, without a precision.
    """

    in_force: tuple[Rule, ...]
    without_rule: tuple[tuple[SignalName, str], ...]
    ends_untested: bool

    def at(self, curve: Curve, risk: Curve = ()) -> list[Rule]:
        """Returns the rules that fire at the last boundary of a conversation that runs.

        Args:
            risk: As `Past.risk`, up to that boundary.
        """
        return [
            rule
            for rule in self.in_force
            if rule.name != ENDED_INCOMPLETE
            and rule.fires(risk if rule.name == HAND_OVER else curve)
        ]

    def at_end(self, p: float) -> Rule | None:
        """Returns the rule for a conversation that ended with this probability, if it fires."""
        rules = (rule for rule in self.in_force if rule.name == ENDED_INCOMPLETE)
        return next((rule for rule in rules if rule.fires((p,))), None)


def stalled(turns: int) -> Test:
    """Returns a test that fires where the probability has not risen for so many boundaries, and was always below .5."""

    def fires(curve: Curve) -> bool:
        """Whether the last values are no higher than the highest before them, but for a small rise."""
        if len(curve) <= turns or max(curve) >= NEVER_LIKELY:
            return False
        return max(curve[-turns:]) < max(curve[:-turns]) + MIN_RISE

    return fires


def regressed(fall: float) -> Test:
    """Returns a test that fires where the probability fell by so much from the highest before."""
    return lambda curve: len(curve) > 1 and max(curve[:-1]) - curve[-1] >= fall


def low(turns: int, below: float) -> Test:
    """Returns a test that fires where, after so many boundaries, the probability is still below a value."""
    return lambda curve: len(curve) >= turns and curve[-1] < below


def at_least(value: float) -> Test:
    """Returns a test that fires where the last value has reached another one."""
    return lambda curve: bool(curve) and curve[-1] >= value


def below(value: float) -> Test:
    """Returns a test that fires where the last value lies below another one."""
    return lambda curve: curve[-1] < value


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
        (f"below {value:.1f} after {turns} answers", low(turns, value))
        for turns in (2, 3, 4, 6)
        for value in (0.1, 0.2, 0.3, 0.4)
    ],
    HAND_OVER: [
        (
            f"probability that you call it incomplete is {value:.2f} or more (probe fitted to your verdicts)",
            at_least(value),
        )
        for value in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    ],
    ENDED_INCOMPLETE: [
        (f"quiet with a score below {value:.2f}", below(value))
        for value in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    ],
}
"""What each signal is chosen from, with its meaning in words."""

BY_VERDICTS = (HAND_OVER, ENDED_INCOMPLETE)
"""Signals that only verdicts can test."""


def signal_name(name: str) -> str:
    """Returns the word by which people know a signal: `broken off` for `ended incomplete`, others by their name."""
    return State.INCOMPLETE.word if name == ENDED_INCOMPLETE else name


def calibrate(past: Sequence[Past], least: float = PRECISION) -> Rules:
    """Chooses for each signal the rule that finds most of what ends incomplete with at least this precision.

    Nearly equal conversations are in the same half: the groups with an even number choose, the others test.
    """
    in_force: list[Rule] = []
    without_rule: list[tuple[SignalName, str]] = []
    ends_untested = False
    for name, candidates in CANDIDATES.items():
        used = (
            [conversation for conversation in past if conversation.has_verdict]
            if name in BY_VERDICTS
            else past
        )
        rule = _choose_rule(
            name,
            candidates,
            choosing=[conversation for conversation in used if conversation.group % 2 == 0],
            testing=[conversation for conversation in used if conversation.group % 2],
            least=least,
        )
        if isinstance(rule, Rule):
            in_force.append(rule)
        elif rule.too_seldom and name == ENDED_INCOMPLETE:
            ends_untested = True
            what = "raised below the threshold; how often that is right is not known:"
            without_rule.append((name, f"{what} {rule.why}"))
        else:
            without_rule.append((name, f"not raised, {rule.why}"))
    return Rules(tuple(in_force), tuple(without_rule), ends_untested)


class _NoRule(NamedTuple):
    """A signal without a rule.

    Attributes:
        too_seldom: Whether that is because rules fired too seldom to be tested.
        why: In words.
    """

    too_seldom: bool
    why: str


class _Counted(NamedTuple):
    """A candidate for a rule with its record on past conversations.

    Attributes:
        meaning: In words.
        fires: The test.
        hits: Number of conversations in which it fired that ended incomplete.
        fired: Number of all conversations in which it fired.
    """

    meaning: str
    fires: Test
    hits: int
    fired: int


def _choose_rule(
    name: SignalName,
    candidates: Sequence[tuple[str, Test]],
    *,
    choosing: Sequence[Past],
    testing: Sequence[Past],
    least: float,
) -> Rule | _NoRule:
    """Returns the rule of a signal, or why there is none.

    Args:
        choosing: The half of the past conversations on which the rule is chosen.
        testing: The half on which it is tested.
        least: Least precision.
    """
    of = " past conversations with a verdict" if name in BY_VERDICTS else " past conversations"
    counted = [
        _Counted(meaning, fires, *_count(choosing, name, fires)) for meaning, fires in candidates
    ]
    often = [candidate for candidate in counted if candidate.fired >= MIN_FIRED]
    if not often:
        return _NoRule(True, f"no rule fired in {MIN_FIRED} of {len(choosing):,}{of}")
    precise = [candidate for candidate in often if candidate.hits >= least * candidate.fired]
    if not precise:
        best = max(often, key=lambda candidate: candidate.hits / candidate.fired)
        incomplete = sum(conversation.incomplete for conversation in choosing)
        return _NoRule(
            False,
            f"the best rule ({best.meaning}) was right in {best.hits} of {best.fired}; {incomplete} of"
            f" {len(choosing):,} were broken off",
        )
    chosen = max(precise, key=lambda candidate: candidate.hits)
    hits, fired = _count(testing, name, chosen.fires)
    if fired < MIN_FIRED:
        return _NoRule(
            True, f"in the half that tests, it fired in {fired} of {len(testing):,} only"
        )
    if hits < least * fired:
        return _NoRule(False, f"in the half that tests, it was right in {hits} of {fired}")
    incomplete = sum(conversation.incomplete for conversation in testing)
    return Rule(
        name,
        chosen.meaning,
        chosen.fires,
        wilson(hits, fired),
        recall=hits / max(incomplete, 1),
        base=incomplete / len(testing),
    )


def _count(past: Sequence[Past], name: SignalName, fires: Test) -> tuple[int, int]:
    """Returns in how many conversations a rule fired: those that ended incomplete, and all."""
    fired = [conversation for conversation in past if any(map(fires, _moments(conversation, name)))]
    return sum(conversation.incomplete for conversation in fired), len(fired)


def _moments(conversation: Past, name: SignalName) -> Iterable[Curve]:
    """Returns what a rule is asked of a past conversation: its values up to each boundary at which the signal can be
    raised."""
    if name == ENDED_INCOMPLETE:
        return (conversation.curve,)
    if name == HAND_OVER:
        return (conversation.risk[:end] for end in range(1, len(conversation.risk) + 1))
    return (conversation.curve[:end] for end in range(1, len(conversation.curve)))
