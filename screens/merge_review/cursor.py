"""Which merge proposal is shown, which come next, and which were skipped. Pure functions, without Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.base.errors import UsageError
from engine.goals.records import (
    ClusteringSummary,
    GoalDecision,
    GroupExamples,
    Pair,
    Proposal,
    ReviewProgress,
)
from engine.goals.service.merge_review import MergeReviewService
from screens.widgets.groups import folded

AHEAD = 3
"""Proposals that are read in advance, so that the next one is shown at once after a key."""
MAX_MEMBERS = 24
"""Most members of a group that are read, of each kind; space shows the next ones."""
MAX_RECENT = 12
"""Most decisions that are shown beside the proposal on a wide terminal."""


@dataclass(frozen=True, slots=True)
class ShownProposal:
    """A proposal with the members of both groups that are shown beside it."""

    proposal: Proposal
    a: GroupExamples
    b: GroupExamples

    def shares_group(self, pair: Pair) -> bool:
        """Returns whether one of its groups is in `pair`. Such a proposal is void once the pair is merged."""
        return bool({*self.proposal.pair} & {*pair})


@dataclass(frozen=True, slots=True)
class ReviewSnapshot:
    """The state of the merge desk when it was read.

    Attributes:
        front: The proposal to show; None when none is left.
        ahead: What follows when the front is refused or skipped, in order.
        starts_over: The skipped pairs start over, because only they are left.
        recent: The latest decisions, newest first.
    """

    clustering: ClusteringSummary | None = None
    progress: ReviewProgress | None = None
    front: ShownProposal | None = None
    ahead: tuple[ShownProposal, ...] = ()
    starts_over: bool = False
    recent: tuple[GoalDecision, ...] = ()


@dataclass
class ReviewCursor:
    """The proposal that is shown and those that follow, so that a key shows the next one at once.

    Attributes:
        skipped: The pairs that the person skipped.
        label: The label that the person wrote for the pair in front; None leaves the proposed one.
        turn: Rises whenever another pair comes to the front; a snapshot read in an older turn is not shown.
    """

    front: ShownProposal | None = None
    ahead: tuple[ShownProposal, ...] = ()
    skipped: list[Pair] = field(default_factory=list)
    label: str | None = None
    turn: int = 0

    @property
    def pair(self) -> Pair | None:
        """Ids of the two groups in front."""
        return None if self.front is None else self.front.proposal.pair

    def put(self, shown: ShownProposal | None) -> None:
        """Shows a proposal. A pair that is shown already keeps its label and the reason why it was proposed."""
        if shown is None or self.front is None or self.pair != shown.proposal.pair:
            self.turn += 1
            self.label = None
        else:
            why = self.front.proposal.why
            shown = replace(shown, proposal=replace(shown.proposal, why=why))
        self.front = shown

    def decide(self, *, merged: bool) -> None:
        """Shows the next proposal after a decision; a merge drops the later ones that share a group with it."""
        ahead = list(self.ahead)
        if merged and self.pair is not None:
            ahead = [shown for shown in ahead if not shown.shares_group(self.pair)]
        following = ahead.pop(0) if ahead else None
        self.ahead = tuple(ahead)
        self.put(following)

    def skip(self) -> None:
        """Skips the pair in front; it comes again when only skipped pairs are left."""
        if self.pair is not None:
            self.skipped.append(self.pair)
            self.decide(merged=False)


def read_review(
    review: MergeReviewService, skipped: Sequence[Pair], preferred: Pair | None
) -> ReviewSnapshot:
    """Returns the state of the merge desk; not quick.

    Args:
        skipped: Pairs that come only when no other is left.
        preferred: The pair to put in front, as long as both of its groups exist; the largest part takes the place of a
            group that was split.
    """
    goals = review.goals
    clustering = goals.shown()
    if clustering is None:
        return ReviewSnapshot()
    starts_over = False
    proposal = _proposal_of(review, preferred)
    if proposal is None:
        proposal = review.proposal(skipped)
        if proposal is None and skipped:
            starts_over, skipped = True, ()
            proposal = review.proposal(())
    examples: dict[str, GroupExamples] = {}
    shown: list[ShownProposal] = []
    left_out = list(skipped)
    while proposal is not None and len(shown) <= AHEAD:
        for key in proposal.pair:
            if key not in examples:
                examples[key] = goals.examples(key, MAX_MEMBERS)
        shown.append(ShownProposal(proposal, *(examples[key] for key in proposal.pair)))
        left_out.append(proposal.pair)
        proposal = review.proposal(left_out)
    return ReviewSnapshot(
        clustering,
        review.progress(),
        shown[0] if shown else None,
        tuple(shown[1:]),
        starts_over and bool(shown),
        tuple(folded(review.history())[:MAX_RECENT]),
    )


def _proposal_of(review: MergeReviewService, pair: Pair | None) -> Proposal | None:
    """Returns the proposal of a pair, with the largest part in place of a group that was split; None where a group no
    longer exists.
    """
    if pair is None:
        return None
    a, b = (review.largest_part(key) for key in pair)
    try:
        return review.pair(a, b)
    except UsageError:
        return None
