"""Answers to questions about conversations, and what follows from them.

An *answer* is what somebody or something says to a question on one conversation. A *verdict* is a person's answer to
`succeeded`, a question of every project: yes, no or unsure. A *note* is a person's answer to `note`, a text. A *tag* is
a yes-no question of which only the name is known; a conversation has the tag where a person answered it with yes.

The *triage queue* has the conversations that wait for an answer to one question. *Calibration* compares the verdicts
with the scores of a model. An *example* is a person's answer yes or no; an *example probe* predicts from them what a
person would answer on the other conversations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.base import number_format
from engine.base.conversation import SUCCEEDED, Verdict
from engine.base.statistics.intervals import Interval, Share
from engine.base.text import one_line
from engine.completeness.records import DecisionRule
from engine.formats.records import Imported

# What people answer

NO_NAME = "(no name)"
"""Shown in the place of an annotator without a name."""


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """An answer of a person to be stored. Those that are stored together are one *act*, which one undo takes back.

    Attributes:
        conversation_id: Id of the conversation.
        question: Name of the question.
        value: The answer; None takes an earlier one away.
        annotator: Name of the person; empty without a name.
        blind: Whether the person did not see earlier answers, so that the one in force does not change.
    """

    conversation_id: int
    question: str
    value: str | None
    annotator: str = ""
    blind: bool = False


@dataclass(frozen=True, slots=True)
class EarlierAnswers:
    """What a person said of a conversation before an import replaced its text, and did not take back or say anew.

    Attributes:
        messages: Number of messages of the text that the newest of these answers was about.
        verdict: A verdict on the earlier text, which does not hold for the present one; None without one.
        note: Whether the note in force was left on the earlier text.
        answers: (question, answer) of the others in force that were given to the earlier text.
    """

    messages: int
    verdict: Verdict | None = None
    note: bool = False
    answers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer of a person as it was given, or all of people's answers in force on a conversation.

    One answer has `question`, `blind` and `count`, and one of `verdict`, `note` and `answers`; its `earlier` is None.
    All in force have `verdict`, `note`, `answers` and `earlier`; `id` and `given_at` are those of the newest.

    Attributes:
        id: Number of the answer in the project.
        conversation_id: Id of the conversation.
        verdict: The answer to `SUCCEEDED`.
        note: The note that came with it.
        given_at: Time of the answer, as `utc_now` writes it.
        answers: (question, answer) of the other questions but the note; the answer is empty where one was taken away.
        question: Name of the question of one answer; empty for all answers in force.
        blind: Whether one answer was given without seeing earlier ones.
        count: Number of conversations of the act; more than one for what was answered on many or imported, whose row
            has the id of one of them.
        earlier: What was said of an earlier text; None for one answer, and where nothing was.
        annotator: Name of the person who gave the verdict; empty without a name.
    """

    id: int
    conversation_id: int
    verdict: Verdict | None
    note: str
    given_at: str
    answers: tuple[tuple[str, str], ...] = ()
    question: str = ""
    blind: bool = False
    count: int = 1
    earlier: EarlierAnswers | None = None
    annotator: str = ""


@dataclass(frozen=True, slots=True)
class Opinion:
    """The answer of one person to a question on a conversation.

    Attributes:
        annotator: Name of the person; empty without a name.
        value: The answer.
    """

    annotator: str
    value: str


@dataclass(frozen=True, slots=True)
class AnsweredConversation:
    """A conversation that people answered questions on.

    Attributes:
        in_force: Their answers in force.
        repeats: Verdicts that the same person gave blind, oldest first.
        others: Verdicts of other people, by name.
        disagreement: Whether people disagree on it and nobody decided.
    """

    conversation: Imported
    in_force: AnswerRow
    repeats: tuple[str, ...] = ()
    others: tuple[Opinion, ...] = ()
    disagreement: bool = False


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement of two sets of answers to the same questions.

    Attributes:
        n: Number of answers compared.
        same: Share of equal answers; None if there are none to compare.
        kappa: Cohen's kappa; None if chance alone would always agree.
    """

    n: int
    same: Share | None = None
    kappa: float | None = None

    @property
    def text(self) -> str:
        """The share of equal answers with its interval, kappa and the number of pairs; a dash without pairs.

        `86% [70, 94] κ .71 n 34`
        """
        if self.same is None:
            return "–"
        kappa = "" if self.kappa is None else f"κ {number_format.signed(self.kappa)} "
        return f"{number_format.rate(self.same.part, self.same.of)} {kappa}n {self.n}"


# What machines answer

MEAN = "mean"
"""Stands for the mean of numbers in place of an answer."""

MachineKind = Literal["pattern", "model", "file"]
"""What can answer a question beside people and probes that are fitted to examples."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A pattern, a model or a file that answers one question.

    Attributes:
        config_hash: Determined by all that determines its answers.
        question: Name of the question.
        kind: What kind of machine it is.
        name: `pattern`, the name of the model, or that of the file.
    """

    config_hash: str
    question: str
    kind: MachineKind
    name: str


Cite = tuple[int, int, int]
"""A place that shows an answer: the index of the message, the first character and the end; 0 and 0 for all of it."""


@dataclass(frozen=True, slots=True)
class MachineAnswer:
    """The answer of a pattern, a model or a file on one conversation.

    Attributes:
        conversation_id: Id of the conversation.
        value: None where there is no answer.
        p: Probability of the answer, where it is known.
        explanation: Why, in words; empty where nothing was said.
        cites: The places that show it.
        note: How it was reached, such as in how many parts a log was read, or why there is none; empty for nothing.
    """

    conversation_id: int
    value: str | None
    p: float | None = None
    explanation: str = ""
    cites: tuple[Cite, ...] = ()
    note: str = ""


EXAMPLES = "examples"
"""Name and configuration of a probe fitted to examples where it stands among other machines."""


@dataclass(frozen=True, slots=True)
class MachineShare:
    """The share of one answer, or the mean of answers that are numbers.

    Attributes:
        value: The answer; `mean` of numbers.
        apparent: Of what the machine answered.
        corrected: Without the errors of the machine, as people's answers show them; None before there are enough.
    """

    value: str
    apparent: float
    corrected: Interval | None

    @property
    def text(self) -> str:
        """The corrected share with its interval, `23% (14% to 35%)`; that of the machine where there is none."""
        if self.corrected is None:
            return self.apparent_text
        share = self.corrected
        value, low, high = map(self._figure, (share.value, share.low, share.high))
        return f"{value} ({low} to {high})"

    @property
    def apparent_text(self) -> str:
        """The figure of what the machine answered."""
        return self._figure(self.apparent)

    def _figure(self, value: float) -> str:
        """Returns a share in percent, a mean with two decimals."""
        return number_format.with_minus(f"{value:.2f}" if self.value == MEAN else f"{value:.0%}")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What people's answers say of those of a machine.

    Attributes:
        by: Name of the machine.
        conversations: Number of those that it answered.
        drawn, answered: Number of conversations that were drawn to check it, and of those that people answered.
        same: Number of those with the same answer.
        shares: One of each answer; of a yes-no question that of yes, of numbers their mean.
        more: Number of further answers that would halve the intervals; None where that is not known.
    """

    by: str
    conversations: int
    drawn: int
    answered: int
    same: int
    shares: tuple[MachineShare, ...]
    more: int | None

    def sentences(self) -> list[str]:
        """Returns the report in sentences."""
        # a probe is fitted anew to every few answers, which its check does not follow
        fit = ", as fitted when they were drawn" if self.by == EXAMPLES else ""
        sentences = [
            f"{self.by}{fit}: right on {self.same} of {self.answered} conversations that people checked,"
            f" of {self.drawn} drawn."
        ]
        known = [share for share in self.shares if share.corrected is not None]
        sentences += [
            f"{share.value}: {share.text}, corrected for its errors; {share.apparent_text} as it answered."
            for share in known
        ]
        if known and self.more:
            sentences.append(f"{self.more:,} more answers would halve the intervals.")
        return sentences


# Triage


@dataclass(frozen=True, slots=True)
class TriageItem:
    """One conversation in the triage queue and the reason why it is in it."""

    conversation_id: int
    why: str


QueueOrder = Literal[
    "trouble",
    "failures",
    "threshold",
    "lowest",
    "informative",
    "disagreement",
    "people",
    "sample",
    "check",
    "answerers",
    "doubtful",
    "list",
]
"""The orders of the triage queue; see `engine.questions.tables.triage_queue`."""

MACHINE_ORDERS: frozenset[QueueOrder] = frozenset(("check", "answerers", "doubtful"))
"""Orders of what machines answered."""


@dataclass(frozen=True, slots=True)
class TriagePage:
    """The first items of a queue in its order; `total` is the number of all conversations in it."""

    items: tuple[TriageItem, ...]
    total: int


@dataclass(frozen=True, slots=True)
class TriagePlace:
    """The place of a person in triage, stored so that it can be resumed.

    Attributes:
        question: Name of the question that is answered.
        order: Which conversations come first.
        filter: The filter as text.
        conversation: Id of the current conversation; None if there is none.
        skipped: Ids of skipped conversations, in order; they come again at the end of the queue.
        chosen: Whether the person chose the order.
    """

    order: QueueOrder = "threshold"
    filter: str = ""
    conversation: int | None = None
    skipped: tuple[int, ...] = ()
    question: str = SUCCEEDED
    chosen: bool = False


# Calibration

CHANCE = 0.5
"""AUROC of scores that know nothing."""

MIN_VERDICTS = 40
"""Smallest number of verdicts, `yes` and `no` together, on scored conversations that suggest a threshold."""

MIN_OF_EACH = 5
"""Smallest number of verdicts `yes`, and of verdicts `no`, on scored conversations that suggest a threshold."""


@dataclass(frozen=True, slots=True)
class CompletionRate:
    """The share of conversations that ended, by the scores, and the share that succeeded, by verdicts.

    Attributes:
        conversations, scored: Number of conversations, and of those that have a score.
        apparent: The share of the scored ones at or above the threshold (`StateCounts.rate`); None without scores.
        corrected: The share that succeeded: by verdicts drawn at random, or `apparent` without the errors that the
            scores make against verdicts; None if it is unknown.
        why: Why `corrected` is unknown.
        low, high: The 95% Wilson interval of `apparent`; None without scores.
        borderline: Number of scored ones so near the threshold that they are borderline.
        drawn: Number of verdicts, drawn at random, that alone give `corrected`; 0 where the scores without their errors
            do.
    """

    conversations: int
    scored: int
    apparent: float | None
    corrected: Interval | None
    why: str = ""
    low: float | None = None
    high: float | None = None
    borderline: int = 0
    drawn: int = 0

    @property
    def above(self) -> int:
        """Number of scored conversations at or above the threshold."""
        return round((self.apparent or 0.0) * self.scored)

    @property
    def corrected_text(self) -> str:
        """The corrected share with its interval and basis, `70% (61.2% to 77.8%), by 40 drawn at random`, or why there
        is none."""
        if self.corrected is None:
            return one_line(self.why) or "–"
        low_high = number_format.percent_range(self.corrected.low, self.corrected.high)
        basis = f"by {self.drawn:,} drawn at random" if self.drawn else "errors corrected"
        return f"{self.corrected.value:.0%} ({low_high}), {basis}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A threshold that the verdicts suggest, and what it would do to the share of conversations called complete.

    Attributes:
        rule: The decision rule with that threshold.
        now, then: Rate of complete conversations by the rule in force, and by the proposed one.
    """

    rule: DecisionRule
    now: float
    then: float


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The verdicts against the scores: threshold, corrected rate, agreement.

    Attributes:
        rule: The current decision rule.
        complete, incomplete: Number of verdicts yes, and of verdicts no, on scored conversations.
        why: Why there is no threshold.
        best: The threshold with the largest sensitivity + specificity - 1 (Youden's J); None if there is none.
        proposal: The best threshold, where it is another than that in force and the verdicts support it; else None.
        not_proposed: Why the best threshold is not suggested; empty if it is, and if there is none.
        auroc: P(the score of one judged complete is above that of one judged incomplete), whatever the threshold; None
            without verdicts of both kinds.
        covered: Share of the scored conversations whose score is in a decile that has a verdict.
        rate: Completion rate of the project, or of the conversations that a filter matches.
        model: Agreement of the verdicts with the states by the scores in force.
        itself: Agreement of first verdicts with blind repeats.
    """

    rule: DecisionRule
    complete: int
    incomplete: int
    why: str
    best: float | None
    proposal: Proposal | None
    not_proposed: str
    auroc: Interval | None
    covered: float
    rate: CompletionRate
    model: Agreement
    itself: Agreement

    @property
    def verdicts(self) -> int:
        """Number of verdicts that are used to calibrate."""
        return self.complete + self.incomplete

    @property
    def no_proposal(self) -> str:
        """Why no other threshold is suggested; empty if one is."""
        if self.proposal is not None:
            return ""
        return self.why or self.not_proposed or "the threshold in force is the best one"

    def facts(self) -> list[tuple[str, str]]:
        """Returns what the verdicts say of the scores, as names and texts that are safe to show."""
        facts = [
            (
                "verdicts",
                f"{self.complete:,} yes, {self.incomplete:,} no, spread over {self.covered:.0%} of the scores",
            )
        ]
        if self.auroc is not None:
            low_high = number_format.figure_range(self.auroc.low, self.auroc.high)
            area = f"{number_format.figure(self.auroc.value)} ({low_high})"
            doubt = doubt_about(self.auroc)
            facts.append(("AUROC", f"{area}: {doubt}" if doubt else area))
        facts.append(("threshold", f"{format_threshold(self.rule)} in force ({self.rule.source})"))
        if self.proposal is None:
            facts.append(("not suggested", one_line(self.no_proposal)))
        else:
            now, then = self.proposal.now, self.proposal.then
            suggested = format_threshold(self.proposal.rule)
            facts.append(("suggested", f"{suggested}: {now:.0%} → {then:.0%} ended"))
        if self.model.n:
            facts.append(("agreement", f"{self.model.text} · ended, by the scores, with succeeded"))
        if self.itself.n:
            facts.append(("agreement", f"{self.itself.text} · you with yourself, blind"))
        rate = self.rate
        facts.append(("succeeded", rate.corrected_text))
        if rate.apparent is not None:
            ended = number_format.rate(rate.above, rate.scored)
            facts.append(("ended", f"{ended} of {rate.scored:,} scored of {rate.conversations:,}"))
        return facts


def doubt_about(area: Interval) -> str:
    """Returns why an AUROC of the scores against verdicts gives no threshold; empty where it is above chance."""
    if area.high < CHANCE:
        return "it points the other way, what succeeded has the lower scores"
    return "no better than chance" if area.low <= CHANCE else ""


def format_threshold(rule: DecisionRule) -> str:
    """Returns the threshold of a rule; near the ends with a digit more, because scores crowd there."""
    threshold = rule.threshold
    return number_format.probability(threshold, 2 if 0.05 <= threshold <= 0.95 else 3)


# Example probes

MIN_EXAMPLES_OF_EACH = 3
"""Fewest examples of either kind with which the figures of a probe say something. Figures begin with two of either
kind; until there are so many they are shown with a doubt, and its probabilities are not used."""

MIN_DRAWN = 10
"""Smallest number of answers on conversations drawn at random from which the share among all is told."""

YES_FROM = 0.5
"""Probability from which on a probe predicts yes."""


def likely_success(p: float) -> str:
    """Returns the probability of success of a conversation in words."""
    return f"{p:.0%} likely to have succeeded"


@dataclass(frozen=True, slots=True)
class ExampleProbeTest:
    """How well a probe predicts a person's examples, by regressions that did not see the conversation.

    Attributes:
        positive, negative: Number of examples of either kind.
        auroc: P(a positive one has a higher probability than a negative one); chance is .5.
        agreement: Share of the examples that lie on their side of `YES_FROM`.
        precision: Share of the examples at or above `YES_FROM` that are positive; None if there is none.
        above: Number of conversations at or above it, of `conversations` with a probability.
        proposed: Those of them that are no examples.
        rate: Share of positive ones among all, by the examples that were drawn at random.
        drawn: Number of those examples.
    """

    positive: int
    negative: int
    auroc: Interval
    agreement: Share
    precision: Share | None
    above: int
    conversations: int
    proposed: int
    rate: CompletionRate
    drawn: int = 0

    @property
    def enough(self) -> bool:
        """Whether there are examples enough for its figures to say something; `ExampleProbe.facts` says where not."""
        return min(self.positive, self.negative) >= MIN_EXAMPLES_OF_EACH

    @property
    def tells(self) -> bool:
        """Whether its probabilities mean anything: there are examples enough, and the interval of the AUROC is above
        chance."""
        return self.enough and self.auroc.low > CHANCE


def explain_no_share(drawn: int) -> str:
    """Returns why the share among all conversations is not told by so many answers on drawn ones."""
    return (
        f"{drawn} of the answers are on conversations drawn at random, {MIN_DRAWN} are needed:"
        " “calibration sample” (O in triage) draws"
    )


@dataclass(frozen=True, slots=True)
class ExampleProbe:
    """A probe for one subject.

    Attributes:
        subject: Name of the question.
        marks: Number of examples that it was fitted to.
        test: None before there are two groups of examples of either kind; nearly equal conversations are one group.
    """

    subject: str
    marks: int
    test: ExampleProbeTest | None

    @property
    def tells(self) -> bool:
        """Whether its probabilities mean anything."""
        return self.test is not None and self.test.tells

    @property
    def basis(self) -> str:
        """On what its probabilities rest, in words."""
        example = "verdict" if self.subject == SUCCEEDED else "answer"
        return f"fitted to {number_format.counted(self.marks, example)} yes or no"

    def facts(self) -> list[tuple[str, str]]:
        """Returns how well it tells its examples apart, as names and texts that are safe to show."""
        test = self.test
        if test is None:
            return [("examples", f"{self.marks}; two yes and two no are needed")]
        area = test.auroc
        low_high = number_format.figure_range(area.low, area.high)
        doubt = f"; fewer than {MIN_EXAMPLES_OF_EACH} of a kind, so this says little"
        facts = [
            ("examples", f"{test.positive} yes, {test.negative} no"),
            (
                "told apart",
                f"AUROC {number_format.figure(area.value)} ({low_high}), each by a probe that did"
                f" not see it{'' if test.enough else doubt}",
            ),
            (
                "agreement",
                f"{test.agreement.part} of {test.agreement.of} examples at threshold"
                f" {number_format.figure(YES_FROM)}",
            ),
        ]
        if test.precision is not None:
            low_high = number_format.percent_range(test.precision.low, test.precision.high)
            facts.append(
                ("precision", f"{test.precision.part} of {test.precision.of} ({low_high})")
            )
        facts.append(("predicted yes", self._predicted_text(test)))
        if self.subject != SUCCEEDED:  # of which the report of the verdicts says it
            facts.append(("share of all", test.rate.corrected_text))
        if self.subject == SUCCEEDED and self.tells:
            facts.append(("in force", "the success column, `success<.3` and `--sort success`"))
        elif self.subject == SUCCEEDED:
            why = "no list shows these probabilities until more verdicts tell the two apart"
            facts.append(("at chance", why))
        return facts

    def _predicted_text(self, test: ExampleProbeTest) -> str:
        """Returns how many conversations it predicts yes for, or why that is not told."""
        rate, above = test.rate.corrected, test.above / test.conversations
        if rate is not None and not rate.low <= above <= rate.high:
            return f"not told: it would be {above:.0%}, which the share of those drawn at random contradicts"
        if rate is None and self.subject == SUCCEEDED:
            # With 40 verdicts by most trouble 45% were predicted to succeed where 93% did (docs/lab/verdicts.md).
            return "not told: verdicts that were picked, not drawn at random, give a wrong share"
        return (
            f"{test.above:,} of {test.conversations:,}; {test.proposed:,} of them not examples yet"
        )
