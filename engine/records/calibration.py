"""Results of calibrating the scores against the verdicts, as frozen rows without arrays."""

from __future__ import annotations

from dataclasses import dataclass

from engine.records.interval import Interval
from engine.records.scores import DecisionRule

ENOUGH = 40
"""Verdicts complete or incomplete, on scored conversations, from which a threshold is calibrated."""
LEAST_OF_EACH = 5
"""Of them at least so many complete and so many incomplete."""


@dataclass(frozen=True, slots=True)
class Share:
    """A plain count with its Wilson interval; `of` is not 0."""

    part: int
    of: int
    low: float
    high: float


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
        same: None where there was nothing to compare.
        kappa: Cohen's; None where chance alone would always agree.
    """

    n: int
    same: Share | None = None
    kappa: float | None = None


@dataclass(frozen=True, slots=True)
class CompletionRate:
    """The share of complete conversations.

    Attributes:
        conversations, scored: How many match, and how many of them have a score.
        apparent: Share of the scored ones at or above the threshold; None without scores.
        corrected: The share corrected for the errors of the classifier; None if it is unknown.
        why: Why it is unknown.
    """

    conversations: int
    scored: int
    apparent: float | None
    corrected: Interval | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of a threshold as a classifier of complete and incomplete conversations.

    Attributes:
        sensitivity: Share of complete conversations that are found (recall), as it is for all scored conversations.
        specificity: The same of incomplete ones.
        precision: Share of the conversations classified as complete that are; None also where there is none.
        raw_sensitivity, raw_specificity, raw_precision: The same over the verdicts alone.
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
    """The rate of what a saved filter matches."""

    name: str
    filter: str
    rate: CompletionRate


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The verdicts against the scores: threshold, accuracy, reliability, rates, agreement.

    Attributes:
        rule: In force now.
        complete, incomplete: Verdicts on scored conversations.
        enough: Whether there are enough of them for a threshold.
        why: Why there is no threshold.
        best: The threshold with the largest sensitivity + specificity - 1; None where there is none.
        accuracy: At the threshold that a person pinned, else at the best one.
        covered: Share of the scored conversations that lie in a tenth of the scores with a verdict in it.
        bins, calibration_error: Reliability of the score as a probability.
        rate: Of the project, or of what the asked filter matches.
        filters: Of each saved filter.
        model: Verdicts against the states that the rule decides.
        itself: First verdicts against those given again blind.
    """

    rule: DecisionRule
    complete: int
    incomplete: int
    enough: bool
    why: str
    best: float | None
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
        """Verdicts that calibrate."""
        return self.complete + self.incomplete
