"""What the goal screens need of the rest of the program: clusterings, the desk on which they are merged, and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.records.goals import (
    ClusteringRow,
    GoalDecision,
    GoalGroup,
    GoalRequest,
    GroupPeriod,
    MapPoint,
    MemberOrder,
    MemberRow,
    MergeOrder,
    Pair,
    Proposal,
    ReviewProgress,
    SettleCandidate,
    SplitPart,
)
from engine.records.runs import Estimate


class Goals(Protocol):
    """The clustering that is shown, and what was decided on it. Methods that write raise ProjectReadOnly, and
    UsageError for a group that is no longer there."""

    # Looking

    def clusterings(self) -> list[ClusteringRow]:
        """Quick. All that were made, oldest first."""

    def shown(self) -> ClusteringRow | None:
        """Quick. The one that is shown; None before any was made."""

    def show(self, clustering_id: int) -> None:
        """Shows another one."""

    def groups(self) -> list[GoalGroup]:
        """The groups as they stand, largest first."""

    def group(self, group_id: str) -> GoalGroup | None:
        """One group, also one that was merged away; None if there never was one of this id."""

    def members(
        self, group_id: str | None, order: MemberOrder = "central", limit: int | None = None
    ) -> list[MemberRow]:
        """Members of a group; None gives the outliers."""

    def more_like(self, conversation_id: int, limit: int = 50) -> list[MemberRow]:
        """The conversations whose vectors are nearest, nearest first; `distance` is to the given one."""

    def map(self, most: int = 5000) -> list[MapPoint]:
        """A seeded sample of the vectors in two dimensions."""

    def periods(self, by: str = "month") -> list[GroupPeriod]:
        """Shares of the groups by `month` or by `import`, oldest first."""

    # The desk

    def proposal(self, passed: Sequence[Pair] = ()) -> Proposal | None:
        """The next pair to decide on that was not passed over; None when none is left. Does not wait for the model:
        what was not asked yet is None in the evidence and is asked in the background."""

    def pair(self, a: str, b: str) -> Proposal:
        """Any two groups as a proposal."""

    def above(self, probability: float) -> list[Proposal]:
        """Undecided pairs that are at least so probable, most probable first."""

    def below(self, probability: float) -> list[Proposal]:
        """Undecided pairs that are less probable than that, most probable first."""

    def progress(self) -> ReviewProgress:
        """How far the work is."""

    def merge(self, shown: Proposal, label: str | None = None) -> GoalDecision:
        """Makes one group of the two of a proposal and stores the proposal as it was shown. None as the label takes the
        proposed one, or that of the larger group."""

    def apart(self, shown: Proposal, *, never: bool = False) -> GoalDecision:
        """Refuses a pair and stores the proposal as it was shown; `never` refuses it in later clusterings too."""

    def merge_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """Merges the pairs of a list, which `above` gave for this probability, as one act, and returns how many. Where
        the list has both A with B and B with C, all three become one; pairs decided meanwhile are left out."""

    def refuse_all(self, shown: Sequence[Proposal], probability: float) -> int:
        """Refuses the pairs of a list, which `below` gave for this probability, as one act, and returns how many. Pairs
        decided meanwhile are left out."""

    def settle_preview(self) -> list[SettleCandidate]:
        """What `settle` would move: the groups that draw conversations, the one that draws most first. Not quick."""

    def settle(self) -> int:
        """Moves conversations to the group of most of their nearest neighbours, as one act; returns how many."""

    def split_preview(self, group_id: str, parts: int = 2) -> list[SplitPart]:
        """How k-means inside a group would part it."""

    def split(self, group_id: str, parts: Sequence[Sequence[int]]) -> GoalDecision:
        """Parts a group by conversation ids; members that none of the parts names make one more part."""

    def move(self, conversation_ids: Sequence[int], group_id: str | None) -> GoalDecision:
        """Moves conversations to a group; None makes them outliers."""

    def rename(self, group_id: str, label: str) -> GoalDecision:
        """Gives a group another label."""

    def pin(self, group_id: str, *, on: bool) -> GoalDecision:
        """A pinned group is not proposed for a merge and keeps its label."""

    def undo(self) -> GoalDecision | None:
        """Takes back the newest act that stands; None when nothing is left."""

    def redo(self) -> GoalDecision | None:
        """Gives again what the newest undo took back; None when nothing was undone since the last act."""

    def history(self) -> list[GoalDecision]:
        """All acts on the clustering that is shown, newest first."""

    def set_order(self, order: MergeOrder) -> None:
        """Chooses which proposal comes first."""

    def set_floor(self, floor: float) -> None:
        """Sets the description similarity below which nothing is proposed."""

    # Jobs

    def estimate(self, wish: GoalRequest) -> Estimate:
        """How many conversations a run would work on and how long it takes where that is known."""

    def start(self, wish: GoalRequest) -> int:
        """Clusters in the background, from texts to labels and proposals; returns the job id."""

    def start_asking(self) -> int | None:
        """Asks the model about the undecided pairs in the background; None when there is nothing to ask."""

    def start_assign(self) -> int:
        """Assigns conversations that came later to the groups; returns the job id."""

    def start_stability(self) -> int:
        """Measures how stable the clusters are; returns the job id."""
