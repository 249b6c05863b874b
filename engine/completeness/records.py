"""Completeness scores and the rule that makes states of them; requests in conversations; options of a scoring run.

A boundary is a place where a conversation could end. `p_end` is the probability of the end there, and
`p_end_normalised` is its share of the sum with the probability that the conversation goes on. A conversation's score is
the normalised one at its last boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from engine.base.conversation import State
from engine.base.errors import UsageError
from engine.base.request_options import (
    ADAPTER,
    MODEL,
    Option,
    check,
    choice,
    declared,
    switch,
    whole_number,
)
from engine.base.statistics.intervals import Interval, Share, wilson
from engine.conversations.filters import FILTER, Filter
from engine.model.records import ModelRequest

RuleSource = Literal["default", "calibrated", "chosen"]
"""Where the threshold of a rule is from: the default, calibration by verdicts, or a person who chose it."""

Mode = Literal["base", "tuned", "judge", "probe"]
"""How a score is had: by a prompt around the log, from the end tag of a tuned model, by a question to the model, or by
a probe on its hidden states."""

SetMode = Literal["base", "tuned", "judge", "probe", "outside"]
"""How the scores of a set were had: in a mode, or from outside, by file."""

BUNDLED_PROBE_ADAPTER = "samples"
"""Stands in the place of an adapter's name where the probe that comes with the program gave the scores."""

MIN_CONVERSATIONS_FOR_PROBE = 20
"""Smallest number of conversations with two boundaries or more that a probe is fitted to.

docs/lab/probe.md says how it was found.
"""


@dataclass(frozen=True, slots=True)
class DecisionRule:
    """The rule that turns a score into a state.

    Attributes:
        threshold: Normalised score from which a conversation is complete, in [0, 1].
        band: Half-width of the borderline band around the threshold.
        source: Where the threshold is from.
    """

    threshold: float = 0.5
    band: float = 0.1
    source: RuleSource = "default"

    def state(self, p_end_normalised: float | None) -> State:
        """Returns the state of a conversation whose last boundary has this normalised score; None is unscored."""
        if p_end_normalised is None:
            return State.UNSCORED
        if abs(p_end_normalised - self.threshold) < self.band:
            return State.BORDERLINE
        return State.COMPLETE if p_end_normalised >= self.threshold else State.INCOMPLETE

    def digits(self, p_end_normalised: float, digits: int) -> int:
        """Returns the number of decimal digits with which a score is written.

        It is `digits`, or up to three where the rounded score would have another state, so that equal numbers do not
        stand in different states.
        """
        state = self.state(p_end_normalised)
        sufficient = (
            n for n in range(digits, 3) if self.state(round(p_end_normalised, n)) is state
        )
        return next(sufficient, 3)


@dataclass(frozen=True, slots=True)
class StateCounts:
    """How many conversations are in each state, and the rate of complete ones that every screen, command, report and
    export gives.

    Attributes:
        above: Those of the scored ones whose score is at or above the threshold: the complete ones, and of the
            borderline ones the upper half of the band.
    """

    complete: int = 0
    incomplete: int = 0
    borderline: int = 0
    unscored: int = 0
    above: int = 0

    @property
    def scored(self) -> int:
        """Number of conversations that have a score."""
        return self.complete + self.incomplete + self.borderline

    @property
    def rate(self) -> Share | None:
        """The share of the scored conversations at or above the threshold, with its interval; None without scores.

        A borderline score counts on its side of the threshold: that it is near is said by its state, and changes no
        rate.
        """
        return wilson(self.above, self.scored) if self.scored else None


@dataclass(frozen=True, slots=True)
class EndingTest:
    """How well a set of scores separates whole conversations from the same ones cut off, without labels.

    Attributes:
        conversations: Number of conversations in the test, each once whole and once cut at random.
        auroc: P(a whole one has a higher score than a cut one); chance is .5.
        f1: F1 of calling a score of .5 or more whole.
        keywords: AUROC of the keyword rule (`engine.completeness.baselines.sounds_complete`) on the same pairs.
        position: AUROC of a regression on position and length alone, made like the probe.
        matched: P(a whole conversation has a higher score than a longer one cut at the same step); None if no two
            conversations allow it, and in a set made before this had an interval.
        matched_pairs: Number of such pairs.
        matched_keywords, matched_position: `matched` of the keyword rule and of position alone; None where there are no
            pairs, and in a set of an earlier version.
        over_keywords, over_position: `matched` minus each of these, paired; None likewise.
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


@dataclass(frozen=True, slots=True)
class ScoreSet:
    """One of the sets of scores of a project: all scores that were made in the same way.

    Attributes:
        number: Its place among the sets, in the order in which they were first made, from 1.
        scored: Number of conversations with a score in it.
        test: Out-of-fold test of a probe; None for other modes.
        in_force: Whether its scores are the ones that are shown.
        provisional: Whether it was made of a part of the logs and goes when the final scores are in force.
    """

    number: int
    config_hash: str
    mode: SetMode
    model: str
    adapter: str | None
    scored: int
    test: EndingTest | None
    in_force: bool
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """`p_end` at one boundary.

    Attributes:
        message: Index of the message after which the conversation could end.
        step, turn: Numbers of its step and its turn in the log.
        p_end: Probability of the end tag there.
        p_end_normalised: `p_end / (p_end + P(continuation))`.
    """

    message: int
    step: int
    turn: int
    p_end: float
    p_end_normalised: float


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """The completeness score of one conversation under one configuration.

    Attributes:
        reason: Why the conversation is unscored, or what is special about the score, such as windows; None otherwise.
        p_end, p_end_normalised: The values of the last point of the curve; None where it is unscored.
        curve: The values at each boundary, in order.
        adapter: Name of the adapter; `BUNDLED_PROBE_ADAPTER` for the probe that comes with the program.
        noise: Largest change of a probability of this model that was measured between batch sizes; smaller differences
            are meaningless.
        generated: Whether the end tag is what the model writes after the conversation; None where that is not known.
    """

    conversation_id: int
    config_hash: str
    run_id: int
    state: State
    reason: str | None
    p_end: float | None
    p_end_normalised: float | None
    curve: tuple[CurvePoint, ...]
    mode: SetMode
    model: str
    adapter: str | None
    noise: float | None
    generated: bool | None = None


@dataclass(frozen=True, slots=True)
class RemainingRow:
    """The remaining tasks that a model named; if its reply was not usable, `text` is empty and `reason` says why."""

    conversation_id: int
    config_hash: str
    text: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Histogram of normalised scores over [0, 1].

    Attributes:
        bins: Number of conversations in each of equal bins, lowest first; an inner edge belongs to the bin above it.
        unscored: Number of unscored conversations, which are in no bin.
    """

    bins: tuple[int, ...]
    unscored: int


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """One of the things that the user asks for in a conversation, with the messages about it.

    Attributes:
        number: Number of the request in its conversation, from 1.
        first, last: Indices of its first and its last message. The first request has what stands before it too, such
            as a system message.
        turn: Number of the turn that its opening begins.
        user_messages: Number of the user's messages.
        opening: The message of the user that begins it.
        goal: Label of its goal in the clustering that is shown; that of the conversation where this is its only
            request. None where it is like no goal or was not assigned.
        p: Normalised score at the last boundary in it; None where nothing is scored.
        state: State of the request by that score.
    """

    number: int
    first: int
    last: int
    turn: int
    user_messages: int
    opening: str
    p: float | None
    state: State
    goal: str | None = None


@dataclass(frozen=True, slots=True)
class UndoneRequestMark:
    """What a person had said of a message and took back.

    Attributes:
        message: Index of the message.
        begins: Whether they had said that it begins a request.
    """

    conversation_id: int
    message: int
    begins: bool


STEP_STOP = "\n\nTURN"
"""The beginning of the header of the next step in a log, where an answer ends."""


def _parse_part(text: str) -> tuple[int, int]:
    """Returns the two numbers of N/OF, such as 2/4, the second of four parts.

    Raises:
        ValueError: The text is not of this form, or N is not one of the parts.
    """
    number, slash, of = text.partition("/")
    if not slash or not 1 <= int(number) <= int(of):
        raise ValueError(text)
    return int(number), int(of)


@dataclass(frozen=True, slots=True)
class ScoringRequest:
    """A run that scores conversations.

    Attributes:
        mode: None takes `probe`, or what is best where there are too few conversations for it.
        model: Name or path; None is the one that the project uses for scoring.
        adapter: Name, file or run of an adapter; None in mode `tuned` is the one in use, otherwise none.
        end_tag: Text tag of a tuned model; None is the one that its adapter was trained with, else its end-of-text
            token.
        context: Longest log in tokens; None takes the model's own, at most 8,192.
        filter: The conversations to score.
        held_out_by: Training run; of those conversations only the ones that it was not trained on are scored.
        limit: Number of those conversations to score, the first ones; None scores all.
        part: See `engine.conversations.selection.Selection`. Nothing is fitted and no remaining tasks are written
            then: that is for the project that the parts are merged into.
        tune: Tune the model first if it never was on this machine.
        remaining: Write the remaining tasks of the conversations below the threshold.
        seconds: In mode `probe`, read a random part of the logs for about so long, for provisional scores; None reads
            all.
        ends: In mode `probe`, read each log only at its last boundary and at one earlier one.
        paper: Score as in Soroka et al.: what the model writes next decides, and is what remains. Only in the modes
            `base` and `tuned`; where `mode` is None, `tuned` with an adapter, else `base`.

    Raises:
        UsageError: A value cannot be used, or an adapter is given with a mode that does not use it.
    """

    model: str | None = declared(None, MODEL)
    adapter: str | Path | None = declared(None, ADAPTER)
    mode: Mode | None = choice(
        None,
        "how to score",
        get_args(Mode),
        words="probe where it is possible, else tuned with an adapter, else base",
    )
    end_tag: str | None = declared(
        None,
        Option(
            "text tag that a tuned model ends with",
            default="that of its adapter, else its end token",
        ),
    )
    context: int | None = whole_number(
        None, "longest log in tokens; longer ones are read in windows", metavar=""
    )
    filter: Filter = declared(Filter(), FILTER)
    held_out_by: str | None = declared(
        None, Option("only what this training run was not trained on", metavar="RUN")
    )
    limit: int | None = whole_number(
        None,
        "score only the first N conversations; --filter 'draw<.1' scores a tenth at random",
        metavar="",
    )
    part: tuple[int, int] | None = declared(
        None,
        Option(
            "read only the N-th of OF equal parts, for several machines that each have a copy of the project:"
            " `workbench merge` joins the copies, and `run complete` on the merged one does the rest",
            metavar="N/OF",
            convert=_parse_part,
            must="like 2/4, the second of four parts",
        ),
    )
    paper: bool = switch(
        "as in Soroka et al.: what the model writes after a log decides, and is what remains;"
        " mode tuned with an adapter, else base"
    )
    # The text of a switch that is on by default describes the flag that turns it off.
    tune: bool = switch("use the model file as it is", default=True, flag="no-tune")
    remaining: bool = switch("do not write remaining tasks", default=True, flag="no-remaining")
    seconds: float | None = None
    ends: bool = False

    def __post_init__(self) -> None:
        check(self)
        if self.adapter and self.mode not in ("tuned", "probe", None):
            raise UsageError(
                "An adapter is for the modes `tuned` and `probe`.",
                "Leave out --mode, or --adapter.",
            )

    @property
    def model_request(self) -> ModelRequest:
        """The model that the run loads."""
        return ModelRequest(
            "scoring", self.model, self.adapter, tuned=self.mode == "tuned", context=self.context
        )
