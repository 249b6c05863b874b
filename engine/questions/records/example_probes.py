"""Probes fitted to a person's examples, and how well they predict."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.statistics.intervals import Interval, Share
from engine.questions.records.calibration import CompletionRate

SUCCESS = ""
"""The subject whose examples are verdicts; every other subject is the name of a tag."""

NOT = "not-"
"""Beginning of the tag that says that a conversation does not deserve the rest of it as a tag."""

LEAST_OF_EACH = 10
"""Fewest examples of either kind with which the result is shown as a figure; docs/lab/verdicts.md says why."""

CHANCE = 0.5
"""AUROC of a probe that knows nothing."""


@dataclass(frozen=True, slots=True)
class ExampleProbeTest:
    """How well a probe predicts a person's examples, by regressions that did not see the conversation.

    Attributes:
        positive, negative: Number of examples of either kind whose hidden states are kept.
        auroc: P(a positive one has a higher probability than a negative one); chance is .5.
        agreement: Share of the examples that lie on their side of the threshold.
        precision: Share of the examples at or above the threshold that are positive; None if there is none.
        above: Number of conversations at or above the threshold, of `conversations` with a probability.
        proposed: Those of them that are no examples.
        rate: Share of positive ones among all, corrected for the probe's errors.
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

    @property
    def enough(self) -> bool:
        """Whether there are examples enough for its figures to be shown."""
        return min(self.positive, self.negative) >= LEAST_OF_EACH

    @property
    def tells(self) -> bool:
        """Whether its probabilities mean anything: there are examples enough, and the interval of the AUROC is above
        chance."""
        return self.enough and self.auroc.low > CHANCE


@dataclass(frozen=True, slots=True)
class ExampleProbe:
    """A probe for one subject.

    Attributes:
        subject: A tag, or `SUCCESS`.
        threshold: Probability from which a conversation is proposed.
        marks: Number of examples that it was fitted to.
        test: None before there are examples of both kinds.
    """

    subject: str
    threshold: float
    marks: int
    test: ExampleProbeTest | None

    @property
    def tells(self) -> bool:
        """Whether its probabilities mean anything."""
        return self.test is not None and self.test.tells


@dataclass(frozen=True, slots=True)
class ExampleProbeChange:
    """What a newer probe would change, to be taken over or not.

    Attributes:
        now, then: The probe in force and the newer one.
        up, down: Number of conversations that would come to lie above the threshold, and below it.
    """

    now: ExampleProbe
    then: ExampleProbe
    up: int
    down: int


@dataclass(frozen=True, slots=True)
class Proposed:
    """A conversation with its probability under a probe; `marked` says what a person said of it, None for nothing."""

    conversation_id: int
    external_id: str
    source: str
    p: float
    marked: bool | None
    proposed: bool
