"""What goes with one of two sides of a project's conversations, as frozen rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engine.base.statistics.intervals import Interval
from engine.conversations.filters import Filter, Term

if TYPE_CHECKING:  # numpy takes long, and screens wait for these rows
    from engine.results.comparison.differences import SignChange

FALSE_DISCOVERY_RATE = 0.03
"""Largest expected share of false associations among those that are listed. It is .03 because at .05 more than 5 of 100
random splits into halves listed something."""

Speaker = Literal["system", "user", "assistant", "tool"]
"""Who says a word; `tool` stands for the results of tools."""

Place = Literal["anywhere", "first", "last"]
"""In which messages of the speaker a word stands: in any, in the first one, in the last one."""

MOST_TROUBLE = "the most trouble"
"""Name of the first side where no failures are known: the conversations with the most signs of trouble stand for
them."""

PROBABLE_FAILURE = "probable failure"
"""Name of the first side where verdicts are few, but a probe that was fitted to them tells failures."""


@dataclass(frozen=True, slots=True)
class WordFeature:
    """A word, or a phrase of several, in the messages of a speaker."""

    speaker: Speaker
    place: Place
    text: str


Feature = WordFeature | Term
"""What a conversation has or has not: words, or any term of a filter that holds."""


@dataclass(frozen=True, slots=True)
class Split:
    """Two sides that conversations are on.

    Attributes:
        first, second: Filters of the sides; an empty second one stands for all conversations that are not on the first.
        outcome: What the first side is called in a heading, such as `failure`; empty where it has no such name.
        verbs: What the conversations of each side did, such as `failed` and `succeeded` with an outcome; without one
            which side they are in.
        shortage: A sentence on a better known outcome that too few conversations have; empty where there is none.
    """

    first: Filter
    second: Filter
    outcome: str = ""
    verbs: tuple[str, str] = ("are in A", "are in B")
    shortage: str = ""


@dataclass(frozen=True, slots=True)
class Association:
    """A feature that goes with one side.

    Attributes:
        feature: The feature.
        side: 0 where it goes with the first side, 1 with the second.
        counts: Number of conversations of the first and of the second side that have it.
        shares: Share of each side that has it, of the conversations in goals with both sides. That of the second side
            is standardized by goal: as if its goals were as frequent as on the first.
        odds: The odds of being on `side` with the feature divided by those without it, above 1, with a 95% interval.
        p: The p value of the hypothesis that it goes with neither side, corrected for all features by Benjamini and
            Hochberg.
        near_equal: Further features that nearly the same conversations have, and the same words in other messages of
            the speaker.
        ids: Ids of the conversations of `side` that have it, ascending.
    """

    feature: Feature
    side: int
    counts: tuple[int, int]
    shares: tuple[float, float]
    odds: Interval
    p: float
    near_equal: tuple[Feature, ...]
    ids: tuple[int, ...]

    @property
    def may_be_chance(self) -> bool:
        """Whether the interval of the odds includes even odds, though the p value is small."""
        return self.odds.low <= 1


@dataclass(frozen=True, slots=True)
class Associations:
    """What goes with one of two sides.

    Attributes:
        split: The sides.
        sizes: Number of conversations of each.
        goals: Number of goals within which the sides were compared; 0 where goals were left out of account.
        one_sided: Number of conversations in goals that are on one side only, which say nothing within goals.
        first_only: Label and number of conversations of each goal that is on the first side only, the largest first.
        tested: Number of features.
        significant: Number of those that go with a side, near-equal ones included.
        rows: These, but of near-equal ones only the clearest, which names the others; those of the first side come
            first, the clearest on top.
        sign_changes: How many conversations of B, then of A, show each sign of trouble, without regard to goals, as
            comparisons test it; empty where the sides are chosen by what signs say too.
    """

    split: Split
    sizes: tuple[int, int]
    goals: int
    one_sided: int
    first_only: tuple[tuple[str, int], ...]
    tested: int
    significant: int
    rows: tuple[Association, ...]
    sign_changes: tuple[SignChange, ...] = ()
