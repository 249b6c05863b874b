"""Results of comparing two parts of a project, or two projects, as frozen rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.base.statistics.intervals import Interval
from engine.questions.records import CompletionRate, MachineShare

Measure = Literal[
    "completion",
    "share of goal",
    "completion in goal",
    "trouble",
    "trouble in goal",
    "success",
    "turns",
    "characters",
    "entropy",
    "leaves",
]
"""What is compared: a share of conversations for the first three, a mean over conversations for the others; `trouble`
is the sum of standard scores of signs, `success` the probability of success that is fitted to verdicts."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two parts that are compared.

    Attributes:
        name: What it is called.
        filter: The filter that selects its conversations; empty for all of a project; None where no filter does.
        rate: Its number of conversations, and the share of them that is complete.
    """

    name: str
    filter: str | None
    rate: CompletionRate


@dataclass(frozen=True, slots=True)
class Difference:
    """How one measure differs between the two sides.

    Attributes:
        measure: What is compared.
        goal: Label of the goal; None for a measure over all conversations.
        values: The measure on the first and on the second side.
        cases: Number of conversations behind each value.
        change: The second value minus the first, with its 95% interval.
        p: The p value of the hypothesis that there is no difference.
        corrected: The same by Holm's method over the further tests of the comparison; the completion rate over all
            conversations is what a comparison asks first, and is tested alone.
        examples: Ids, on the side `examples_in`, of conversations to read.
        examples_in: 0 for the first side, 1 for the second.
    """

    measure: Measure
    goal: str | None
    values: tuple[float, float]
    cases: tuple[int, int]
    change: Interval
    p: float
    corrected: float = 1.0
    examples: tuple[int, ...] = ()
    examples_in: int = 1

    @property
    def significant(self) -> bool:
        """Whether it is found at the 5% level, corrected."""
        return self.corrected < 0.05


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """How often one answer to a question was given on the two sides.

    Attributes:
        by: What answered: a machine, whose newest answers count.
        value: The answer; `mean` of numbers.
        shares: The share, or mean, on the first and on the second side: without the errors of the machine where people
            checked enough on both sides, else as it answered.
        change: The second minus the first with its 95% interval; None while nothing corrects for the errors.
    """

    question: str
    by: str
    value: str
    shares: tuple[MachineShare, MachineShare]
    change: Interval | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and how they differ.

    Attributes:
        sides: The first and the second side.
        corrected_change: Change of the completion rate without the errors of the classifier; None if unknown.
        least: The smallest change of the completion rate that so many conversations show with 80% probability; None
            where a side has no scores.
        differences: What was tested: measures over all conversations first, then goals by p value.
        untested: Number of goals with too few conversations for a test.
        answer_changes: How often machines gave each answer on both sides.
    """

    sides: tuple[Side, Side]
    corrected_change: Interval | None
    least: float | None
    differences: tuple[Difference, ...]
    untested: int
    answer_changes: tuple[AnswerChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """The conversations with one value of a field.

    Attributes:
        value: The value.
        filter: The filter that selects them.
        rate: Their number, and the share of them that is complete.
        against: What they are compared with: the value before, or `the others`; empty where there is none.
        change: Difference of the completion rate to it; None where a side has no scores.
        trees: Number of its conversations with a response tree.
        entropy: Their mean entropy in bits; None where there is none.
        entropy_change: Difference of the mean entropy to what it is compared with; None where a side has fewer than two
            conversations with a tree, or nothing varies.
    """

    value: str
    filter: str
    rate: CompletionRate
    against: str
    change: Difference | None
    trees: int = 0
    entropy: float | None = None
    entropy_change: Difference | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A project by the values of one field.

    Attributes:
        parts: In the order of time for a field of time, otherwise the most frequent value first.
        without: Number of conversations without a value.
        left_out: Number of further values that are not listed, and of their conversations.
    """

    field: str
    parts: tuple[Part, ...]
    without: int
    left_out: tuple[int, int] = (0, 0)
