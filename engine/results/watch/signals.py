"""Signals: that a person should take over a conversation that runs, and that a quiet one is probably broken off.

A rule is chosen and tested on past conversations with a verdict: chosen on one half, tested on the other. Its precision
is the share that people called incomplete of the past conversations in which it fired. A rule that cannot be tested, or
that is wrong too often, never fires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.base.conversation import State
from engine.base.statistics.intervals import Share, wilson

SignalName = Literal["hand over", "ended incomplete"]
"""Names of the signals, as events have them; `signal_name` is what people read."""

HAND_OVER: SignalName = "hand over"
"""Says that a person will probably call the running conversation incomplete."""

ENDED_INCOMPLETE: SignalName = "ended incomplete"
"""Says that a quiet conversation is probably broken off."""

PRECISION = 0.8
"""Least precision of a rule, by default."""

MIN_FIRED = 10
"""Fewest conversations in which a rule fired, in either half, for its precision to be believed."""

Test = Callable[[float], bool]
"""Whether a rule fires at a probability."""


@dataclass(frozen=True, slots=True)
class Past:
    """A conversation that has ended.

    Attributes:
        p: Its last probability of an end, by a probe that never saw it.
        incomplete: Whether a person called it incomplete; None where nobody has a verdict on it.
        group: The same number for conversations that are nearly equal.
        risk: The probability that a person calls it incomplete, at its boundaries before the last, by probes that
            never saw it; empty where there are too few verdicts for a probe.
    """

    p: float
    incomplete: bool | None
    group: int
    risk: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that fires often enough and is right often enough.

    Attributes:
        meaning: In words, for people.
        fires: Whether it fires at a probability: of `hand over` the risk, of `ended incomplete` that of an end.
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

    def at(self, risk: float) -> list[Rule]:
        """Returns the rules that fire in a conversation that runs, at the probability that a person would call it
        incomplete."""
        return [rule for rule in self.in_force if rule.name == HAND_OVER and rule.fires(risk)]

    def at_end(self, p: float) -> Rule | None:
        """Returns the rule for a conversation that ended with this probability, if it fires."""
        rules = (rule for rule in self.in_force if rule.name == ENDED_INCOMPLETE)
        return next((rule for rule in rules if rule.fires(p)), None)


def at_least(value: float) -> Test:
    """Returns a test that fires from a value up."""
    return lambda p: p >= value


def below(value: float) -> Test:
    """Returns a test that fires below a value."""
    return lambda p: p < value


CANDIDATES: dict[SignalName, list[tuple[str, Test]]] = {
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


def signal_name(name: str) -> str:
    """Returns the word by which people know a signal: `broken off` for `ended incomplete`, others by their name."""
    return State.INCOMPLETE.word if name == ENDED_INCOMPLETE else name


def calibrate(past: Sequence[Past], least: float = PRECISION) -> Rules:
    """Chooses for each signal the rule that finds most of what ends incomplete with at least this precision.

    Nearly equal conversations are in the same half: the groups with an even number choose, the others test.
    """
    judged = [conversation for conversation in past if conversation.incomplete is not None]
    in_force: list[Rule] = []
    without_rule: list[tuple[SignalName, str]] = []
    ends_untested = False
    for name, candidates in CANDIDATES.items():
        rule = _choose_rule(
            name,
            candidates,
            choosing=[conversation for conversation in judged if conversation.group % 2 == 0],
            testing=[conversation for conversation in judged if conversation.group % 2],
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
    counted = [
        _Counted(meaning, fires, *_count(choosing, name, fires)) for meaning, fires in candidates
    ]
    often = [candidate for candidate in counted if candidate.fired >= MIN_FIRED]
    if not often:
        return _NoRule(
            True,
            f"no rule fired in {MIN_FIRED} of {len(choosing):,} past conversations with a verdict",
        )
    precise = [candidate for candidate in often if candidate.hits >= least * candidate.fired]
    if not precise:
        best = max(often, key=lambda candidate: candidate.hits / candidate.fired)
        incomplete = sum(conversation.incomplete is True for conversation in choosing)
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
    incomplete = sum(conversation.incomplete is True for conversation in testing)
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
    fired = [
        conversation
        for conversation in past
        if any(map(fires, (conversation.p,) if name == ENDED_INCOMPLETE else conversation.risk))
    ]
    return sum(conversation.incomplete is True for conversation in fired), len(fired)
