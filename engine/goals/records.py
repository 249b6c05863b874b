"""Records of clusterings, groups, merge proposals and decisions, as screens and commands read them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from engine.base.conversation import State
from engine.completeness.records import StateCounts
from engine.questions.records import Agreement

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

GoalText: TypeAlias = str
"""The text that a conversation is clustered by. For goals one of `GOAL_TEXTS`: its first user message, all of them,
what user and assistant wrote, or a summary that a model wrote. For reasons `explanation:NAME` (why the question NAME
was answered so), or one of `REASON_TEXTS`: its remaining tasks, or its last exchange where there is trouble."""

GOAL_TEXTS = ("first-user", "all-user", "all", "summary")
"""The texts that can stand for the goal of a conversation."""

REASON_TEXTS = {"remaining": "remaining tasks", "last-exchange": "last exchanges"}
"""What can show why something went wrong, beside explanations, with what it is in words."""

EXPLANATION = "explanation:"
"""Beginning of the text that explains the answers to a question; the name of the question follows."""

DEFAULT_TEXT: GoalText = "all"
"""Default text by which conversations are clustered. It separated goals best on public data; see
docs/decisions/0016."""

Decide = Literal["ask", "auto", "llm", "none"]
"""Who decides on merges: a person, the merge probability, the model alone (as in Soroka et al., "Unsupervised
Evaluation of Multi-Turn Objective-Driven Interactions"), or nobody."""

DECIDE_THRESHOLD = 0.5
"""Merge probability from which `auto` merges."""

Author = Literal["human", "auto", "llm"]
"""Who made a decision: a person, the rule by merge probability, or the model's answer."""

DecisionKind = Literal[
    "merge", "apart", "never", "split", "move", "rename", "pin", "unpin", "theme", "agree"
]
"""The kinds of decisions. `apart` refuses a pair; `never` also forbids it in later clusterings; `theme` puts a goal
under a theme, with an empty label under none; `agree` confirms a decision of a model."""
_ACTS: Mapping[DecisionKind, str] = {
    "merge": "merged {} pairs at once",
    "theme": "put {} groups under themes",
}
"""What an act of several decisions did, by the kind of the first."""

MergeOrder = Literal["similarity", "probability", "informative"]
"""Which pair comes first: the most similar (Soroka et al.), the most probable, or the one whose decision has the
largest expected error reduction (`engine.goals.merges.merge_probability`)."""

MemberOrder = Literal["central", "doubtful"]
"""Which member of a group comes first: the nearest to the center, or the most doubtful (`MemberRow.doubt`)."""

NAMELESS = "a group without a label"
"""Stands for the label of a group that has none."""

LIKELY = 0.05
"""Merge probability from which a pair is shown to a person before the others."""

Ids: TypeAlias = "npt.NDArray[np.int64]"

Pair = tuple[str, str]
"""Ids of two groups."""


def subject_of_reasons(text: GoalText) -> str:
    """Returns what the reasons in a text explain, such as `refused`; empty where the text stands for goals."""
    if text.startswith(EXPLANATION):
        return text.removeprefix(EXPLANATION)
    return REASON_TEXTS.get(text, "")


@dataclass(frozen=True, slots=True)
class Clustering:
    """One clustering as it was made and stored.

    Attributes:
        id: Number of the clustering in the project.
        text, embedder: What stood for a goal, and what made the vectors; see `engine.goals.clustering_request`.
        config_hash: Config hash over texts, vectors and parameters of the clustering.
        run_id: Id of the run that made it.
        created_at: ISO 8601 time.
        k: Number of clusters asked for, an overestimate.
        seed: Seed of all random numbers of the run.
        conversations: Number of conversations with a vector.
        outliers: Number of those that are in no cluster.
        without: Number of conversations without a goal text; `export` gives the reasons.
        vector_config: Config hash of the vectors.
        paper: Whether it was made as Algorithm 1 of Soroka et al.; see `engine.goals.clustering_request`.
        goal_config: Config hash of the summaries; None where no summaries were clustered.
        pair_config: Config hash of the answers on pairs that are shown; None before a model was asked.
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
    outliers: int
    without: int
    paper: bool
    vector_config: str
    goal_config: str | None
    pair_config: str | None

    @property
    def title(self) -> str:
        """What its groups are."""
        subject = subject_of_reasons(self.text)
        return f"reasons: {subject}" if subject else "goals"

    @property
    def noun(self) -> str:
        """What one of its groups is, which is also the field of filters that asks for it."""
        return "reason" if subject_of_reasons(self.text) else "goal"


@dataclass(frozen=True, slots=True)
class ClusteringSummary:
    """A clustering with the counts that change after it was made.

    Attributes:
        clustering: The clustering.
        groups: Number of current groups.
        outliers: Number of conversations of the clustering that are in no group now.
        novel: Number of conversations that were imported later and assigned to no group.
    """

    clustering: Clustering
    groups: int
    outliers: int
    novel: int


@dataclass(frozen=True, slots=True)
class GoalGroup:
    """A current or former group: a cluster of the clustering, or one that decisions made.

    Attributes:
        id: `c12` from the clustering, `d40` made by decision 40, `d40.1` its second part.
        number: Rank by size from 1; 0 for a former group.
        label, description: Short name and one sentence; words in place of a label where there is none.
        size: Number of its conversations.
        share: Size divided by the number of conversations with a text, in [0, 1].
        states: How many of its conversations are complete, incomplete and so on.
        stability: Mean Jaccard similarity under resampling, in [0, 1]; None before it was measured.
        pinned: Whether it is excluded from merge proposals.
        made_of: Ids of the groups that it was made from by a decision; empty for a cluster.
        made_by: Id of the decision that made it; None for a cluster.
        support: Share, in [0, 1], of the members who want what the label says; None where it was not counted.
        members_read: Number of members whose texts were read for that.
        theme: Label of its theme; empty where it is in none.
        failed, with_outcome: Number of its conversations that failed, and of those of which that is known: by a
            verdict, else by the outcome that came with them.
    """

    id: str
    number: int
    label: str
    description: str
    size: int
    share: float
    states: StateCounts
    stability: float | None
    pinned: bool
    made_of: tuple[str, ...] = ()
    made_by: int | None = None
    support: float | None = None
    members_read: int = 0
    theme: str = ""
    failed: int = 0
    with_outcome: int = 0

    @property
    def failures(self) -> str:
        """How many failed, in words; empty where no outcome is known."""
        return f"{self.failed:,} of {self.with_outcome:,}" if self.with_outcome else ""


@dataclass(frozen=True, slots=True)
class Theme:
    """Goals that belong together.

    Attributes:
        label: Its name; that of the goal where it is one that is in no theme.
        goals: The largest first.
    """

    label: str
    goals: tuple[GoalGroup, ...]

    @property
    def single(self) -> bool:
        """Whether it is one goal in no theme."""
        return not self.goals[0].theme

    @property
    def as_group(self) -> GoalGroup:
        """Its figures as those of one group, of which stability is not known."""
        first, *others = self.goals
        if self.single:
            return first
        return replace(
            first,
            id=f"theme:{self.label}",
            label=self.label,
            description=", ".join(goal.label for goal in self.goals),
            size=sum(goal.size for goal in self.goals),
            share=sum(goal.share for goal in self.goals),
            states=sum((goal.states for goal in others), start=first.states),
            stability=None,
            pinned=False,
            made_of=tuple(goal.id for goal in self.goals),
            made_by=None,
            support=None,
            members_read=0,
            failed=sum(goal.failed for goal in self.goals),
            with_outcome=sum(goal.with_outcome for goal in self.goals),
        )


def themes_of(groups: Sequence[GoalGroup]) -> list[Theme]:
    """Returns the themes of the current groups with their goals, and each goal that is in none on its own, the largest
    first."""
    goals_by_theme: dict[str, list[GoalGroup]] = {}
    for group in groups:
        goals_by_theme.setdefault(f"theme:{group.theme}" if group.theme else group.id, []).append(
            group
        )
    themes = [
        Theme(goals[0].theme or goals[0].label, tuple(goals)) for goals in goals_by_theme.values()
    ]
    return sorted(themes, key=lambda theme: -sum(goal.size for goal in theme.goals))


class Support(NamedTuple):
    """How many of the members of a group whose texts were read want what its name says; `read` is at most
    the size of a sample."""

    members: int
    read: int

    @property
    def share(self) -> float:
        """The share of those who were read, in [0, 1]."""
        return self.members / self.read if self.read else 0.0


@dataclass(frozen=True, slots=True)
class ClusterName:
    """The name of a cluster: what a model wrote, or a phrase of its members.

    Attributes:
        label: A few words; empty where there is none.
        description: One sentence; empty if there is none.
        reason: Why a model gave no name that can be used; empty where it gave one, and where none was asked.
        support: How many members want what the label says, or have a word of it; None where they were not counted, and
            where the members have nothing in common.
        by_words: Whether the support is of words that many members have, who have no request in common.
    """

    label: str
    description: str = ""
    reason: str = ""
    support: Support | None = None
    by_words: bool = False


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A conversation in a group.

    Attributes:
        conversation_id: Id of the conversation.
        external_id: Its id in the source.
        text: Its goal text, without sentences of a program that half of the members listed repeat.
        start: Index from which on the text differs from those that begin with the same sentences.
        distance: Cosine distance to the center of the group, in [0, 2].
        doubt: Distance to the center of its group divided by that to the nearest other center; doubtful near 1 or
            above.
        other: Label of that other group; empty if there is none.
        state: Whether it ended.
    """

    conversation_id: int
    external_id: str
    text: str
    start: int
    distance: float
    doubt: float
    other: str
    state: State


@dataclass(frozen=True, slots=True)
class GroupExamples:
    """Members of a group: the most central ones, nearest to the center first, and the most doubtful ones."""

    central: tuple[MemberRow, ...]
    doubtful: tuple[MemberRow, ...]


def model_says_yes(yes: float | None, yes_reversed: float | None) -> bool | None:
    """Returns whether yes is the more probable answer of the model, averaged over the orders in which it was asked;
    None if it was not."""
    if yes is None:
        return None
    return yes + (yes if yes_reversed is None else yes_reversed) > 1  # their mean is above a half


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """The answer of a model on two groups; None or empty for what was not asked.

    Attributes:
        yes, yes_reversed: Probability that the model answers yes to "one goal?", with the larger group first and with
            the smaller one first; the second is None where the first was sure enough.
        reason, reason_against: Why they are one goal, and why they are not; the first is why there is no answer, where
            the model could not be asked or its reply not be read.
        label, description: Of the merged group.
        model: Name of the model.
        prompt: Version of the prompt; see `Prompt.version`.
        spoken: Whether `yes` and `yes_reversed` are what the model said, 1 for yes and 0 for no, because its server
            lists no probabilities.
    """

    yes: float | None = None
    yes_reversed: float | None = None
    reason: str = ""
    label: str = ""
    description: str = ""
    model: str = ""
    prompt: str = ""
    reason_against: str = ""
    spoken: bool = False


NOT_ASKED = PairAnswer()
"""Stands for the answer on a pair that the model was not asked about."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for and against merging two groups.

    Attributes:
        probability: Merge probability: all evidence combined by a model that is fitted to the decisions so far.
        description_similarity, member_similarity: Cosine of the vectors of the descriptions, and of the centers.
        overlap: Share of the nearest neighbors of the members of one group that lie in the other, in [0, 1].
        answer: What a language model said of the pair.
        features: Inputs of the merge probability by name, None if unknown; stored with a decision, they are what the
            merge probability is fitted to.
        member_threshold: Member similarity from which two such groups are more probably one goal than two, as the
            clusters alone tell (`engine.goals.clusters.granularity`).
    """

    probability: float
    description_similarity: float
    member_similarity: float
    overlap: float
    answer: PairAnswer = NOT_ASKED
    features: Mapping[str, float | None] = field(default_factory=dict)
    member_threshold: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Returns the evidence as JSON values in one level, as decisions store it and commands print it."""
        return {
            "probability": self.probability,
            "description_similarity": self.description_similarity,
            "member_similarity": self.member_similarity,
            "overlap": self.overlap,
            **asdict(self.answer),
            "features": dict(self.features),
            "member_threshold": self.member_threshold,
        }

    @classmethod
    def of_decision(cls, decision: GoalDecision) -> Evidence:
        """Returns the evidence that is stored with a decision on a pair."""
        values = decision.evidence or {}
        answer = {field.name for field in fields(PairAnswer)} & values.keys()
        return cls(
            probability=decision.probability or 0.0,
            description_similarity=values.get("description_similarity", 0.0),
            member_similarity=values.get("member_similarity", 0.0),
            overlap=values.get("overlap", 0.0),
            answer=PairAnswer(**{name: values[name] for name in answer}),
            features=values.get("features") or {},
            member_threshold=values.get("member_threshold"),
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A merge proposal: two groups that may be one goal, with the evidence that a person is shown.

    Attributes:
        a, b: The groups, the larger first.
        evidence: What speaks for and against merging the two.
        after: States of the members of the merged group.
        why: The reason why this pair is proposed, as text.
        reviewed_decision: The decision of a model that is to be reviewed; None for a pair that nobody decided on. The
            groups and the evidence are those of then.
    """

    a: GoalGroup
    b: GoalGroup
    evidence: Evidence
    after: StateCounts
    why: str
    reviewed_decision: GoalDecision | None = None

    @property
    def pair(self) -> Pair:
        """Ids of both groups, the larger first."""
        return (self.a.id, self.b.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewProgress:
    """Progress of the review of merge proposals.

    Attributes:
        merged, refused: Number of active decisions of people that merge a pair, and that keep one apart; those of a
            model that they agreed with are among them.
        merged_by_rule, refused_by_rule: The same of the rule.
        merged_by_model, refused_by_model: The same of a model, without those that a person agreed with.
        to_review: Number of decisions of a model on pairs that no person reviewed.
        left: Number of undecided pairs.
        to_merge: How many of them are expected to be one goal, the sum of their merge probabilities.
        likely: Number of those of them whose merge probability is at least `LIKELY`.
        unasked: Number of the likely ones, as in the paper of all, that the model was not asked about.
        can_ask: Whether the model for goals answers on pairs; as in the paper any does, else one that follows
            instructions.
        calls: Number of model calls to ask about those.
        seconds: Estimated time of these calls in seconds, from the calls so far; None if there were none.
        agreement: Agreement of the model's answers with the decisions of the person.
        learned_from: Number of decisions that the merge probability is fitted to; 0 is the prior alone.
        finished: Whether no pair is left: each was refused, and none is to review.
        asking: Whether the model is being asked about pairs now.
    """

    merged: int = 0
    refused: int = 0
    merged_by_rule: int = 0
    refused_by_rule: int = 0
    merged_by_model: int = 0
    refused_by_model: int = 0
    to_review: int = 0
    left: int = 0
    to_merge: float = 0.0
    likely: int = 0
    unasked: int = 0
    can_ask: bool = False
    calls: int = 0
    seconds: float | None = None
    agreement: Agreement
    learned_from: int = 0
    finished: bool = False
    asking: bool = False


@dataclass(frozen=True, slots=True)
class GoalDecision:
    """One decision on the groups of a clustering. Decisions are appended, never changed; the groups are a replay of the
    active decisions on the clusters.

    Attributes:
        kind: What it does.
        sides: Ids of the groups it concerns: both of a pair, the one that is split, renamed or pinned, or the one that
            conversations move to; empty when they become outliers.
        names: (label, description) of each group that a merge or split makes, of a renamed group, or of a theme.
        parts: Conversation ids: of each part of a split, or of what moves.
        author, model: Who made it, and the name of the model if one did; else empty.
        probability: Merge probability that the person was shown; None if none was.
        evidence: The evidence that the person was shown, as `Evidence.as_json` gives it; None if none was.
            `at_once` is the least merge probability of a list that was merged in one act. A rename by the program has
            the `support` of its label, as [members, read], and `rest`: whether the members have no request in common.
            A merge of such groups has `rest` alone.
        source_id: Id of the decision on an earlier clustering that this one repeats.
        reviewed: Id of the decision of a model that this one of a person confirms (`agree`) or replaces.
        labels: Labels of `sides` when it was given.
        id: Part of the group ids that it makes, `d40` and `d40.1`; 0 before it is stored.
        act: Id of the first decision of its act. The decisions of an act are made together and undone together.
        given_at: ISO 8601 time; empty before it is stored.
        active: Whether it is in force: it was not undone, nor replaced in a review.
        agreed: Whether a person agreed with it in a review.
        count: Number of decisions of its act, if a list shows this one in place of all of them.
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
    reviewed: int | None = None
    labels: tuple[str, ...] = ()
    id: int = 0
    act: int = 0
    given_at: str = ""
    active: bool = True
    agreed: bool = False
    count: int = 1

    @property
    def decided_by(self) -> Author:
        """Who answers for it: its author, or the person who agreed with it."""
        return "human" if self.agreed else self.author

    @property
    def transferred(self) -> bool:
        """Whether it was transferred from an earlier clustering."""
        return self.source_id is not None

    @property
    def support(self) -> Support | None:
        """The support of the label that it gives; None where it was not counted."""
        counts = (self.evidence or {}).get("support")
        return None if counts is None else Support(*counts)

    @property
    def made_groups(self) -> tuple[str, ...]:
        """Ids of the groups that it makes."""
        if self.kind == "merge":
            return (f"d{self.id}",)
        return part_ids(self.id, len(self.names)) if self.kind == "split" else ()

    @property
    def text(self) -> str:
        """The decision as one line of text: `merged “pay a bill” and “pay rent” into “pay”`; where it stands for all of
        its act, what the act did: `put 12 groups under themes`.
        """
        if self.count > 1 and self.transferred:
            return f"took over {self.count:,} decisions from an earlier clustering"
        if self.count > 1 and self.kind in _ACTS:
            return _ACTS[self.kind].format(f"{self.count:,}")
        sides = " and ".join(_quoted(label) for label in self.labels) or NAMELESS
        new_label = _quoted(self.names[0][0]) if self.names else NAMELESS
        moved = sum(map(len, self.parts))
        return {
            "merge": f"merged {sides}" + (f" into {new_label}" if self.names else ""),
            "apart": f"kept {sides} apart",
            "never": f"kept {sides} apart for good",
            "split": f"split {sides} into {len(self.names)}",
            "move": f"moved {moved:,} conversation{'' if moved == 1 else 's'} to "
            + (sides if self.sides else "the outliers"),
            "rename": f"renamed {sides} to {new_label}"
            if sides != new_label
            else f"named {new_label}",
            "pin": f"pinned {sides}",
            "unpin": f"unpinned {sides}",
            "theme": f"put {sides} under {new_label}"
            if self.names and self.names[0][0]
            else f"took {sides} out of its theme",
            "agree": f"agreed to {'merge' if self.names else 'keep apart'} {sides}",
        }[self.kind]


def part_ids(decision_id: int, count: int) -> tuple[str, ...]:
    """Returns the ids of the groups that a split makes: `d40`, `d40.1`, `d40.2` and so on."""
    return tuple(f"d{decision_id}.{n}" if n else f"d{decision_id}" for n in range(count))


def _quoted(label: str) -> str:
    """Returns a label in quotation marks, or what stands for none."""
    return f"“{label}”" if label else NAMELESS


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One part of a proposed split.

    Attributes:
        words: Words that tell it from the other parts.
        size: Number of its conversations.
        members: The most central ones of them, the most central first.
        conversation_ids: Ids of all of them.
    """

    words: tuple[str, ...]
    size: int
    members: tuple[MemberRow, ...]
    conversation_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupPeriod:
    """A group in one month.

    Attributes:
        period: The month as "2026-01".
        group: Id of the group.
        size: Number of its conversations there.
        share: `size` as a share of the conversations there, in [0, 1].
        states: Their states.
    """

    period: str
    group: str
    size: int
    share: float
    states: StateCounts
