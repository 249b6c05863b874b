"""What the program knows about goals, as screens and commands see it: frozen rows, no arrays, no SQL."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.records.calibration import Agreement
from engine.records.scores import State

GoalText = Literal["first-user", "all-user", "all", "summary"]
"""What stands for a conversation's goal: its first user message, all of them, what user and assistant wrote, or a
summary that a model wrote."""

USUAL_TEXT: GoalText = "all"
"""Nothing else told goals apart as well on public data; see docs/decisions/0016."""

Decide = Literal["ask", "auto", "llm", "none"]
"""Who decides on proposals: a person, the merge probability, the model's word alone (the paper), or nobody."""

Author = Literal["human", "auto", "llm"]

DecisionKind = Literal["merge", "apart", "never", "split", "move", "rename", "pin", "unpin"]
"""What can be done on the desk. `apart` refuses a pair; `never` also forbids it in later clusterings."""

MergeOrder = Literal["similarity", "probability", "teaching"]
"""Which proposal comes first: the most similar (the paper), the most probable, or whose answer teaches most."""

MemberOrder = Literal["central", "doubtful", "name"]

NAMELESS = "a group without a label"

LIKELY = 0.05
"""Merge probability from which a pair is worth a person's time before the others."""

Pair = tuple[str, str]
"""Ids of two groups, in order."""


@dataclass(frozen=True, slots=True)
class ClusteringRow:
    """One run of the clustering, which decisions build on.

    Attributes:
        config_hash: Of texts, vectors and clustering.
        k: Clusters asked for, an overestimate.
        groups: Clusters that stand now.
        outliers: Conversations that belong to none.
        without: Conversations that have no text to go by; `export` says why.
        novel: Conversations assigned later that are in no cluster.
    """

    id: int
    config_hash: str
    run_id: int
    created_at: str
    text: GoalText
    embedder: str
    k: int
    seed: int
    conversations: int
    groups: int
    outliers: int
    without: int
    novel: int


@dataclass(frozen=True, slots=True)
class GroupStates:
    """How many members are in each state."""

    complete: int = 0
    incomplete: int = 0
    borderline: int = 0
    unscored: int = 0

    @property
    def scored(self) -> int:
        """Members that have a score."""
        return self.complete + self.incomplete + self.borderline


@dataclass(frozen=True, slots=True)
class GoalGroup:
    """A cluster as it stands: one of the clustering, or what decisions made of some.

    Attributes:
        id: `c12` from the clustering, `d40` made by decision 40, `d40.1` its second part.
        number: A rank by size from 1, as lists show it.
        label, description: Short name, one sentence; a group without a label is named after its commonest words.
        share: Of all conversations with a text.
        spread: Mean cosine distance of members to the centre.
        leaves: Median leaves of its response trees; None where there is none.
        stability: Mean Jaccard under resampling, in [0, 1]; None before it was measured.
        made_of: Ids of the groups that a decision made it of; empty for one of the clustering.
        made_by: Decision that made it.
    """

    id: str
    number: int
    label: str
    description: str
    size: int
    share: float
    states: GroupStates
    spread: float
    leaves: float | None
    stability: float | None
    pinned: bool
    made_of: tuple[str, ...] = ()
    made_by: int | None = None


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A conversation in a group.

    Attributes:
        text: What stands for its goal.
        distance: Cosine distance to the centre of the group.
        doubt: Distance to its own centre divided by that to the nearest other; near or above 1 is doubtful.
        other: Label of that nearest other group.
    """

    conversation_id: int
    external_id: str
    text: str
    distance: float
    doubt: float
    other: str
    state: State


def model_says_yes(yes: float | None, yes_reversed: float | None) -> bool | None:
    """The model's word: whether its yes is the likelier answer, over both orders; None where it was not asked."""
    if yes is None or yes_reversed is None:
        return None
    return yes + yes_reversed > 1


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for and against merging two groups.

    Attributes:
        probability: Of a merge, all of it combined and calibrated on the decisions so far.
        description_similarity, member_similarity: Cosines of the descriptions' and of the centres' vectors.
        overlap: Share of members whose nearest neighbours lie in the other group.
        likelihood_ratio: How much likelier one side's texts are after the other's than after mixed ones, nats a token,
            mean of both ways; None before it was asked.
        yes, yes_reversed: Probability of the model's yes, with A first and with B first; None before it was asked.
        reason: The model's, may be empty.
        label, description: The model's, of the merged group; may be empty.
        model: Name of the model that answered; empty before it was asked.
        features: Inputs of the merge probability by name, None for those not known; the probability learns from them
            once the pair is decided.
    """

    probability: float
    description_similarity: float
    member_similarity: float
    overlap: float
    likelihood_ratio: float | None = None
    yes: float | None = None
    yes_reversed: float | None = None
    reason: str = ""
    label: str = ""
    description: str = ""
    model: str = ""
    features: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Two groups that may be one.

    Attributes:
        a, b: The larger first.
        near_a, near_b: Other groups nearest to each: (label, cosine), nearest first.
        after: The states of the members of both.
        why: What makes it the next, in words.
    """

    a: GoalGroup
    b: GoalGroup
    evidence: Evidence
    near_a: tuple[tuple[str, float], ...]
    near_b: tuple[tuple[str, float], ...]
    after: GroupStates
    why: str

    @property
    def pair(self) -> Pair:
        """Ids of both."""
        return (self.a.id, self.b.id)


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How far the work on the desk is.

    Attributes:
        merged, refused: Decisions of a person or a rule that stand.
        left: Undecided pairs above the floor.
        likely: Of them, those whose merge probability is at least `LIKELY`.
        unasked: Of the likely, those that the model was not asked about yet.
        calls: Model calls that those need; the others can be refused without asking.
        seconds: What they take, from calls measured so far; None where none was.
        agreement: Of the model's word with the person.
        learned_from: Decisions that the merge probability is fitted on; 0 is the prior alone.
        floor: Description similarity below which a pair is not proposed.
        finished: Every current pair was refused or lies below the floor.
        asking: Proposals are being computed now.
    """

    merged: int
    refused: int
    left: int
    likely: int
    unasked: int
    calls: int
    seconds: float | None
    agreement: Agreement
    learned_from: int
    floor: float
    order: MergeOrder
    finished: bool
    asking: bool


@dataclass(frozen=True, slots=True)
class GoalDecision:
    """One decision on the groups of a clustering. Decisions are appended, never changed; replaying those that stand on
    the clusters gives the groups.

    Attributes:
        sides: Ids of the groups it concerns: both of a pair, the one that is split, renamed or pinned, or the one that
            conversations move to; empty when they become outliers.
        names: (label, description) of each group that a merge or split makes, or of a renamed group.
        parts: Conversation ids: of each part of a split, or of what moves.
        probability: Merge probability as the person saw it; None where none was shown.
        evidence: What the person saw, by field of `Evidence`; None where nothing was shown. `at_once` is the merge
            probability above or below which a whole list was decided as one.
        source_id: Id of the decision on an earlier clustering that this one repeats.
        labels: Labels of `sides` when it was given.
        id: Makes the group ids `d40` and `d40.1`; 0 before it is stored.
        act: Id of the first decision of its act. The decisions of an act are given as one and undone as one.
        given_at: ISO 8601 time; empty before it is stored.
        stands: It was not undone.
        count: Number of decisions of its act, where it is listed for all of them.
    """

    kind: DecisionKind
    sides: tuple[str, ...]
    names: tuple[tuple[str, str], ...] = ()
    parts: tuple[array[int], ...] = ()
    author: Author = "human"
    model: str = ""
    probability: float | None = None
    evidence: dict[str, Any] | None = None
    source_id: int | None = None
    labels: tuple[str, ...] = ()
    id: int = 0
    act: int = 0
    given_at: str = ""
    stands: bool = True
    count: int = 1

    @property
    def carried(self) -> bool:
        """Whether it was taken over from an earlier clustering."""
        return self.source_id is not None

    @property
    def made(self) -> tuple[str, ...]:
        """Ids of the groups that it makes."""
        if self.kind == "merge":
            return (f"d{self.id}",)
        return part_ids(self.id, len(self.names)) if self.kind == "split" else ()

    @property
    def text(self) -> str:
        """What it did, as one line: `merged “pay a bill” and “pay rent” into “pay”`."""
        sides = " and ".join(_quoted(label) for label in self.labels) or NAMELESS
        made = _quoted(self.names[0][0]) if self.names else NAMELESS
        moved = sum(map(len, self.parts))
        return {
            "merge": f"merged {sides}" + (f" into {made}" if self.names else ""),
            "apart": f"kept {sides} apart",
            "never": f"kept {sides} apart for good",
            "split": f"split {sides} into {len(self.names)}",
            "move": f"moved {moved:,} conversation{'' if moved == 1 else 's'} to "
            + (sides if self.sides else "the outliers"),
            "rename": f"renamed {sides} to {made}",
            "pin": f"pinned {sides}",
            "unpin": f"unpinned {sides}",
        }[self.kind]


def part_ids(decision_id: int, count: int) -> tuple[str, ...]:
    """Ids of the groups that a split makes: `d40`, `d40.1`, `d40.2` and so on."""
    return tuple(f"d{decision_id}.{n}" if n else f"d{decision_id}" for n in range(count))


def _quoted(label: str) -> str:
    return f"“{label}”" if label else NAMELESS


@dataclass(frozen=True, slots=True)
class SettleCandidate:
    """A group that settling would give conversations.

    Attributes:
        count: How many.
        outliers: How many of them are in no group now.
    """

    label: str
    size: int
    count: int
    outliers: int


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One part of a split as it would be, most central members first."""

    words: tuple[str, ...]
    size: int
    members: tuple[MemberRow, ...]
    conversation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MapPoint:
    """A conversation on the map of the vectors, by its first two principal components."""

    conversation_id: int
    x: float
    y: float
    group: str | None


@dataclass(frozen=True, slots=True)
class GroupPeriod:
    """The share of a group in one import or one month, and what is known of its conversations there."""

    period: str
    group: str
    size: int
    share: float
    states: GroupStates
