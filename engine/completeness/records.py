"""Completeness scores, the sets that they are in, and the rule that makes states of them.

A boundary is a place where a conversation could end. `p_end` is the probability of the end there, and
`p_end_normalised` is its share of the sum with the probability that the conversation goes on. A conversation's score is
the normalized one at its last boundary.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Literal

from engine.base.conversation import State
from engine.base.statistics.intervals import Interval, Share, wilson

RuleSource = Literal["default", "calibrated"]
"""Where the threshold of a rule is from: the default, or calibration by verdicts."""

Mode = Literal["words", "probe", "base", "tuned"]
"""What scores are made by: a probe on the words of the log, a probe that reads hidden states of a model, too or alone
(`ProbeFeatures`), a prompt around the log, or the end tag of a tuned model."""

ProbeFeatures = Literal["words", "both", "states"]
"""What a probe reads at a boundary: the words of the last messages, the hidden state of a model, or both."""

BUNDLED_PROBE_ADAPTER = "samples"
"""Stands in the place of an adapter's name where the probe that comes with the program gave the scores."""

MIN_CONVERSATIONS_FOR_PROBE = 20
"""Smallest number of conversations with two boundaries or more that a probe is fitted to.

docs/lab/probe.md says how it was found.
"""

NO_OPEN_REQUEST = "the model names no request that is still open"
"""Reason for no remaining tasks: asked which requests are open, the model names none."""

NO_TASK = "the model named no remaining task"
"""Reason for no remaining tasks: asked for them, the model names none."""

NO_TASK_BUT_A_STEP = "the model expects another step and names no task"
"""Reason for no remaining tasks: the model goes on with the log, without a task."""


def mode_in_words(mode: Mode, features: ProbeFeatures | None) -> str:
    """Returns what scores were made by: their mode, or "probe on states" for a probe that reads no words."""
    return "probe on states" if features == "states" else mode


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """The rule that turns a score into a state.

    Attributes:
        threshold: Normalized score from which a conversation has ended, in [0, 1].
        band: Half-width of the band around the threshold, in which a score is borderline.
        source: Where the threshold is from.
    """

    threshold: float = 0.5
    band: float = 0.1
    source: RuleSource = "default"

    def state(self, p_end_normalised: float | None) -> State:
        """Returns the state of a conversation whose last boundary has this normalized score; None is unscored."""
        if p_end_normalised is None:
            return State.UNSCORED
        if abs(p_end_normalised - self.threshold) < self.band:
            return State.BORDERLINE
        return State.COMPLETE if p_end_normalised >= self.threshold else State.INCOMPLETE

    def digits(self, p_end_normalised: float) -> int:
        """Returns the number of decimal digits with which a score is written: two, or three where the rounded score
        would have another state, so that two scores that are written alike never have different states."""
        rounded = round(p_end_normalised, 2)
        return 2 if self.state(rounded) is self.state(p_end_normalised) else 3


@dataclass(frozen=True, slots=True)
class StateCounts:
    """How many conversations are in each state, and the rate of ended ones that every screen, command, report and
    export gives.

    Attributes:
        complete: Number of conversations that ended.
        incomplete: Number of those that did not.
        borderline: Number of those whose score is too near the threshold.
        unscored: Number of those without a score.
        above: Scored conversations at or above the threshold: all complete ones, and the borderline ones in the upper
            half of the band.
    """

    complete: int = 0
    incomplete: int = 0
    borderline: int = 0
    unscored: int = 0
    above: int = 0

    def __add__(self, other: StateCounts) -> StateCounts:
        """Returns the counts of the conversations of both."""
        return StateCounts(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def scored(self) -> int:
        """Number of conversations that have a score."""
        return self.complete + self.incomplete + self.borderline

    @property
    def rate(self) -> Share | None:
        """The share of the scored conversations at or above the threshold, with its interval; None without scores.

        A borderline score counts on its side of the threshold: its state says that it is near, the rate ignores this.
        """
        return wilson(self.above, self.scored) if self.scored else None


@dataclass(frozen=True, slots=True)
class EndingTest:
    """How well a set of scores separates whole conversations from the same ones cut off, without labels.

    Attributes:
        conversations: Number of conversations in the test, each once whole and once cut at random.
        auroc: P(a whole one has a higher score than a cut one); chance is .5.
        f1: F1 of calling a score of .5 or more whole.
        keywords: AUROC of the keyword rule (`engine.completeness.truncation.sounds_complete`) on the same pairs.
        position: AUROC of a regression on position and length alone, made like the probe.
        matched: P(a whole conversation has a higher score than a longer one cut at the same step); None if no two
            conversations allow it.
        matched_pairs: Number of such pairs.
        matched_keywords, matched_position: `matched` of the keyword rule and of position alone; None where there are no
            pairs.
        over_keywords, over_position: The same of the scores minus that of each rule, paired, at the ends of turns only;
            None likewise.
        kinds: The test of each kind of log that has a probe of its own; empty where there is one for all.
    """

    conversations: int
    auroc: Interval
    f1: float
    keywords: float
    position: float
    matched: Interval | None
    matched_pairs: int
    matched_keywords: float | None = None
    matched_position: float | None = None
    over_keywords: Interval | None = None
    over_position: Interval | None = None
    kinds: tuple[KindTest, ...] = ()

    @property
    def at_chance(self) -> bool:
        """Whether whole and cut are told apart no better than by guessing, so that nothing is scored.

        False on fewer conversations than a probe needs, of which no test says so.
        """
        return self.conversations >= MIN_CONVERSATIONS_FOR_PROBE and self.auroc.low <= 0.5


@dataclass(frozen=True, slots=True)
class KindTest:
    """The test of the scores of one kind of log.

    Attributes:
        name: Name of the kind, in words.
        conversations: Number of conversations that were learned from.
        test: None where too few can be cut, or a probe fitted to all logs scores them.
    """

    name: str
    conversations: int
    test: EndingTest | None


@dataclass(frozen=True, slots=True)
class ScoreSet:
    """One of the sets of scores of a project: all scores that were made in the same way.

    Attributes:
        number: Its place among the sets, in the order in which they were first made, from 1.
        config_hash: The configuration under which the scores are stored.
        mode: What the scores were made by.
        model: Name of the model.
        adapter: Name of the model's adapter; None without one. `BUNDLED_PROBE_ADAPTER` for the probe that comes with
            the program.
        scored: Number of conversations with a score in it.
        test: Out-of-fold test of a probe; None for other modes, and for a probe that could not be tested.
        in_force: Whether its scores are the ones that are shown.
        features: What the probe reads; None for other modes.
        read: Number of conversations whose score is by states too; None for modes without a probe.
    """

    number: int
    config_hash: str
    mode: Mode
    model: str
    adapter: str | None
    scored: int
    test: EndingTest | None
    in_force: bool
    features: ProbeFeatures | None = None
    read: int | None = None


def normalized(p_end: float, p_continue: float) -> float | None:
    """Returns `p_end / (p_end + p_continue)`; None where both are zero, as the share is not defined then."""
    total = p_end + p_continue
    return p_end / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The probabilities at one boundary of a conversation.

    Attributes:
        message: Index of the message after which the conversation could end.
        step, turn: Numbers of its step and its turn in the log.
        p_end, p_continue: Probabilities of the end and of the continuation there.
        generated: Whether the end is what the model writes there; None where it is not known, and in the curve of a
            `ScoreRow`, which has it of the last boundary only (`ScoreRow.generated`).
    """

    message: int
    step: int
    turn: int
    p_end: float
    p_continue: float
    generated: bool | None = None

    @property
    def p_end_normalised(self) -> float:
        """The normalized score, in [0, 1].

        Raises:
            ZeroDivisionError: Both probabilities are zero; the curves that are shown have no such point.
        """
        return self.p_end / (self.p_end + self.p_continue)


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The completeness score of one conversation, as it is shown.

    Attributes:
        state: The state of the conversation by the rule in force.
        reason: Why the conversation is unscored, or what is special about the score, such as windows; None otherwise.
        p_end: Probability of the end at the last boundary; None where nothing is known there.
        p_end_normalised: The score, which is the normalized probability there; None where it is unscored.
        curve: The points of the boundaries, in order, without those where both probabilities are zero.
        mode: What the score was made by.
        model: Name of the model.
        adapter: Name of the adapter, None without one; `BUNDLED_PROBE_ADAPTER` for the probe that comes with the
            program.
        features: What the probe reads; None for other modes.
        generated: Whether the end tag is what the model writes after the conversation; None where that is not known.
    """

    state: State
    reason: str | None
    p_end: float | None
    p_end_normalised: float | None
    curve: tuple[CurvePoint, ...]
    mode: Mode
    model: str
    adapter: str | None
    features: ProbeFeatures | None
    generated: bool | None = None


@dataclass(frozen=True, slots=True)
class RemainingTasks:
    """The remaining tasks that a model named in a conversation.

    Attributes:
        conversation_id: Id of the conversation.
        text: The tasks, one a line; empty if the reply was not usable.
        reason: Why `text` is empty; None otherwise.
    """

    conversation_id: int
    text: str
    reason: str | None = None
