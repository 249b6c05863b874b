"""Results of calibrating the scores against the verdicts, as frozen rows without arrays."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.statistics.intervals import Interval, Share
from engine.completeness.records import DecisionRule

MIN_VERDICTS = 40
"""Least number of verdicts `complete` or `incomplete` on scored conversations for calibrating a threshold."""
MIN_OF_EACH = 5
"""Least number of verdicts of each of the two kinds among them."""


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Judged conversations whose score lies in [low, high): mean score, and what share was complete."""

    low: float
    high: float
    predicted: float
    observed: Share


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


@dataclass(frozen=True, slots=True)
class CompletionRate:
    """The rate of complete conversations, as it is and without the errors of the scores.

    Attributes:
        conversations, scored: Number of matching conversations, and of those that have a score.
        apparent: `StateCounts.rate`: the share of the scored ones at or above the threshold; None without scores.
        corrected: The share corrected for the errors of the classifier; None if it is unknown.
        why: Why `corrected` is unknown.
        low, high: The 95% Wilson interval of `apparent`; None without scores, and in what an earlier version stored.
        borderline: Number of scored ones so near the threshold that they are borderline.
    """

    conversations: int
    scored: int
    apparent: float | None
    corrected: Interval | None
    why: str = ""
    low: float | None = None
    high: float | None = None
    borderline: int = 0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of a threshold as a classifier of complete and incomplete conversations.

    Attributes:
        sensitivity: Share of complete conversations classified as complete (recall), estimated for all scored ones.
        specificity: Share of incomplete conversations classified as incomplete, estimated likewise.
        precision: Share of the conversations classified as complete that are complete; None also if there is none.
        raw_sensitivity, raw_specificity, raw_precision: The same shares over the judged conversations alone.
        why: Why the first three are None.
    """

    threshold: float
    sensitivity: Interval | None
    specificity: Interval | None
    precision: Interval | None
    raw_sensitivity: Share
    raw_specificity: Share
    raw_precision: Share | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class FilterRate:
    """The completion rate of the conversations that a saved filter matches."""

    name: str
    filter: str
    rate: CompletionRate


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
    """The verdicts against the scores: threshold, accuracy, reliability, rates, agreement.

    Attributes:
        rule: The current decision rule.
        complete, incomplete: Number of verdicts of each kind on scored conversations.
        enough: Whether there are enough of them for a threshold.
        why: Why there is no threshold.
        best: The threshold with the largest sensitivity + specificity - 1 (Youden's J); None if there is none.
        proposal: The best threshold, where it is another than that in force and the verdicts support it; else None.
        not_proposed: Why the best threshold is not suggested; empty if it is, and if there is none.
        accuracy: Accuracy at the threshold in force.
        covered: Share of the scored conversations whose score is in a decile that has a verdict.
        bins, calibration_error: Reliability of the score as a probability.
        rate: Completion rate of the project, or of the conversations that a filter matches.
        filters: Completion rate of each saved filter.
        model: Agreement of the verdicts with the states.
        itself: Agreement of first verdicts with blind repeats.
    """

    rule: DecisionRule
    complete: int
    incomplete: int
    enough: bool
    why: str
    best: float | None
    proposal: Proposal | None
    not_proposed: str
    accuracy: Accuracy | None
    covered: float
    bins: tuple[ReliabilityBin, ...]
    calibration_error: float | None
    rate: CompletionRate
    filters: tuple[FilterRate, ...]
    model: Agreement
    itself: Agreement

    @property
    def verdicts(self) -> int:
        """Number of verdicts that are used to calibrate."""
        return self.complete + self.incomplete
