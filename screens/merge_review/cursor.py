"""Which merge proposal is shown, which come next, and which were skipped. Pure functions, without Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.base.errors import UsageError
from engine.goals.records import (
    ClusteringSummary,
    GoalDecision,
    MemberRow,
    Pair,
    Proposal,
    ReviewProgress,
)
from engine.goals.service.merge_review import MergeReviewService
from screens.widgets.groups import folded

AHEAD = 3
"""Proposals that are read in advance, so that the next one is shown at once after a key."""
MEMBERS = 24
"""Members of a group that are read, of each kind; space shows the next ones."""
RECENT = 12
"""Decisions that are shown beside the proposal on a wide terminal."""


@dataclass(frozen=True, slots=True)
class SideMembers:
    """Members of one group of a proposal: the most central and the most doubtful."""

    central: tuple[MemberRow, ...]
    doubtful: tuple[MemberRow, ...]


@dataclass(frozen=True, slots=True)
class ShownProposal:
    """A proposal with the members of both groups that are shown beside it."""

    proposal: Proposal
    a: SideMembers
    b: SideMembers

    def shares_group(self, pair: Pair) -> bool:
        """Returns whether one of its groups is in `pair`. Such a proposal is void once the pair is merged."""
        return bool({*self.proposal.pair} & {*pair})


@dataclass(frozen=True, slots=True)
class ReviewSnapshot:
    """The state of the merge desk when it was read.

    Attributes:
        front: The proposal to show; None when none is left.
        ahead: What follows when the front is refused or skipped, in order.
        again: The skipped pairs start over, because only they are left.
        recent: The latest decisions, newest first.
    """

    clustering: ClusteringSummary | None = None
    progress: ReviewProgress | None = None
    front: ShownProposal | None = None
    ahead: tuple[ShownProposal, ...] = ()
    again: bool = False
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
    review: MergeReviewService, skipped: Sequence[Pair], wanted: Pair | None
) -> ReviewSnapshot:
    """Reads the merge desk.

    Args:
        skipped: Pairs that come only when no other is left.
        wanted: The pair to put in front, as long as both of its groups exist; the largest part takes the place of a
            group that was split.
    """
    goals = review.goals
    clustering = goals.shown()
    if clustering is None:
        return ReviewSnapshot()
    again = False
    proposal = _proposal_of(review, wanted)
    if proposal is None:
        proposal = review.proposal(skipped)
        if proposal is None and skipped:
            again, skipped = True, ()
            proposal = review.proposal(())
    members: dict[str, SideMembers] = {}
    found: list[ShownProposal] = []
    left_out = list(skipped)
    while proposal is not None and len(found) <= AHEAD:
        for group in (proposal.a, proposal.b):
            if group.id not in members:
                members[group.id] = SideMembers(
                    tuple(goals.members(group.id, "central", MEMBERS)),
                    tuple(goals.members(group.id, "doubtful", MEMBERS)),
                )
        found.append(ShownProposal(proposal, members[proposal.a.id], members[proposal.b.id]))
        left_out.append(proposal.pair)
        proposal = review.proposal(left_out)
    return ReviewSnapshot(
        clustering,
        review.progress(),
        found[0] if found else None,
        tuple(found[1:]),
        again and bool(found),
        tuple(folded(review.history())[:RECENT]),
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
