"""Where a person is on the merge desk: what is in front, what comes after it, what was passed over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.errors import UsageError
from engine.records.goals import (
    ClusteringRow,
    GoalDecision,
    MemberRow,
    Pair,
    Proposal,
    ReviewProgress,
)
from engine.services.goals.port import Goals
from screens.goals.formatting import folded

AHEAD = 3
"""Pairs that are read ahead, so that the next is there when a key is pressed."""
MEMBERS = 24
"""Members of a side that are read in either order: what `swap evidence` goes through."""
RECENT = 12


@dataclass(frozen=True, slots=True)
class Side:
    """Members of one side of a proposal, the most central and the most doubtful."""

    central: tuple[MemberRow, ...]
    doubtful: tuple[MemberRow, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A proposal with the members that are its evidence."""

    proposal: Proposal
    a: Side
    b: Side

    def touches(self, pair: Pair) -> bool:
        """Whether one of these groups is part of it, so that it is gone when they are merged."""
        return bool({*self.proposal.pair} & {*pair})


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the desk.

    Attributes:
        front: None when nothing is left.
        ahead: What comes when the front is refused or skipped, in order.
        again: The skipped pairs begin again, because only they are left.
        recent: The newest acts.
    """

    shown: ClusteringRow | None = None
    progress: ReviewProgress | None = None
    front: Page | None = None
    ahead: tuple[Page, ...] = ()
    again: bool = False
    recent: tuple[GoalDecision, ...] = ()


@dataclass
class ReviewCursor:
    """Goes on at once to what was read ahead, where that still stands.

    Attributes:
        label: What the person wrote for the pair in front; None leaves it to the proposal.
        turn: Goes up whenever something else is in front; an answer to an older one is not shown.
    """

    front: Page | None = None
    ahead: tuple[Page, ...] = ()
    passed: list[Pair] = field(default_factory=list)
    label: str | None = None
    turn: int = 0

    @property
    def pair(self) -> Pair | None:
        """Ids of what is in front."""
        return None if self.front is None else self.front.proposal.pair

    def put(self, page: Page | None) -> None:
        """Puts something in front; nothing moves when it is there already."""
        if page is None or self.front is None or self.pair != page.proposal.pair:
            self.turn += 1
            self.label = None
        else:  # why it came first does not change while it is looked at
            why = self.front.proposal.why
            page = replace(page, proposal=replace(page.proposal, why=why))
        self.front = page

    def decide(self, *, merged: bool) -> None:
        """The pair in front is decided: a merge takes its two groups out of what comes next."""
        ahead = list(self.ahead)
        if merged and self.pair is not None:
            ahead = [page for page in ahead if not page.touches(self.pair)]
        following = ahead.pop(0) if ahead else None
        self.ahead = tuple(ahead)
        self.put(following)

    def skip(self) -> None:
        """Passes over the pair in front until nothing else is left."""
        if self.pair is not None:
            self.passed.append(self.pair)
            self.decide(merged=False)


def read_desk(goals: Goals, passed: Sequence[Pair], wanted: Pair | None) -> Reading:
    """Reads the desk with `wanted` in front as long as it stands, else the next; takes its time."""
    shown = goals.shown()
    if shown is None:
        return Reading()
    again = False
    proposal = _standing(goals, wanted)
    if proposal is None:
        proposal = goals.proposal(passed)
        if proposal is None and passed:
            again, passed = True, ()
            proposal = goals.proposal(())
    members: dict[str, Side] = {}
    pages: list[Page] = []
    asked = list(passed)
    while proposal is not None and len(pages) <= AHEAD:
        pages.append(read_page(goals, proposal, members))
        asked.append(proposal.pair)
        proposal = goals.proposal(asked)
    recent = tuple(folded(goals.history())[:RECENT])
    front = pages[0] if pages else None
    return Reading(
        shown, goals.progress(), front, tuple(pages[1:]), again and front is not None, recent
    )


def read_page(goals: Goals, proposal: Proposal, known: dict[str, Side]) -> Page:
    """The members of both sides; those in `known` are not read again."""
    for group in (proposal.a, proposal.b):
        if group.id not in known:
            known[group.id] = Side(
                tuple(goals.members(group.id, "central", MEMBERS)),
                tuple(goals.members(group.id, "doubtful", MEMBERS)),
            )
    return Page(proposal, known[proposal.a.id], known[proposal.b.id])


def _standing(goals: Goals, wanted: Pair | None) -> Proposal | None:
    """A pair that is asked for, unless one of its groups is gone."""
    if wanted is None:
        return None
    try:
        return goals.pair(*wanted)
    except UsageError:
        return None
