"""Transfers decisions to a new clustering by the members of their groups.

The same cluster number means another cluster in another clustering, so groups are matched by their members. Among the
conversations that are in both clusterings:

- A new group is *in* an old one when more than half of it lies there. A new group is the *home* of an old one when it
  holds more than half of it.
- A merge is transferred by merging all new groups that are in the merged one, if together they hold more than half of
  it; otherwise the merges that it was made from are tried.
- An *apart* or *never* is transferred to every pair of a new group that is in, or the home of, the first group and one
  that is in, or the home of, the second. An *apart* is transferred only if both are current groups, a *never* always.
- Names, pins, themes and moved conversations go to the home.
- A split needs no decision if its parts have different homes.

An *apart* keeps two groups apart until one of them is merged or split, a *never* also keeps the groups made from them
apart, a *pin* takes a group out of the merge proposals, and outliers are the conversations in no group.

Only decisions of people are transferred, because automatic rules can decide again. Decisions that cannot be transferred
are returned with the reason, so that they can be reported and tried on a later clustering.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from engine.base.errors import UsageError
from engine.goals.merges.merge_state import Group, MergeState, pair_of
from engine.goals.records import DecisionKind, GoalDecision, Ids

MAJORITY = 0.5
"""A share of members above this is a majority."""

SPREAD = "its members are spread over several groups now"
"""Reason: the members of the group are in several new groups, none of which holds most of them."""
GONE = "none of its members are known now"
"""Reason: no member of the group is in the new clustering."""
TOGETHER = "its sides lie in one group now"
"""Reason: both groups of an *apart* or *never* became one group."""
PARTS_TOGETHER = "its parts lie in one group now"
"""Reason: at least two parts of a split became one group."""

Transfer = Generator[GoalDecision, None, dict[int, str]]
"""Yields decisions for the new state; the caller must apply each before it asks for the next. Returns the reasons why
decisions could not be transferred, by id."""


def transfer_decisions(
    old: MergeState, decisions: Iterable[GoalDecision], new: MergeState
) -> Transfer:
    """Yields the decisions for the new state that transfer the decisions of people on an old one.

    Args:
        old: The state after all its active decisions.
        decisions: The decisions to transfer, in order.
        new: The state to which the caller applies the yielded decisions.
    """
    decisions_by_people = {d.id: d for d in decisions if d.decided_by == "human"}
    transfer = _Transfer(old, new, decisions_by_people, {})
    yield from transfer.transfer_merges()
    yield from transfer.transfer_to_homes()
    yield from transfer.transfer_moves()
    yield from transfer.transfer_refusals()
    transfer.report_lost_splits()
    return transfer.unplaced


class _Overlap(NamedTuple):
    """The members that an old group has in common with the new groups.

    Attributes:
        counts: Number of members of the old group in each new group that has any.
        sizes: Number of members of each new group that are also in the old clustering.
        total: Number of members of the old group that are in the new clustering, outliers included.
    """

    counts: dict[str, int]
    sizes: dict[str, int]
    total: int


@dataclass(slots=True)
class _Transfer:
    """Transfers the decisions of people (by id) from the old state to the new one; `unplaced` collects the reasons why
    some could not be transferred, by id of the decision."""

    old: MergeState
    new: MergeState
    decisions: dict[int, GoalDecision]
    unplaced: dict[int, str]

    def transfer_merges(self) -> Generator[GoalDecision]:
        """Yields merges of the new groups that lie in each merged group; a merged group without such groups is taken
        apart into the two that it was made from, which are tried in turn."""
        groups = [self.old.groups[key] for key in self.old.current]
        while groups:
            group = groups.pop(0)
            made_by = group.made_by
            if made_by is None or made_by.kind != "merge":
                continue
            parts = [self.old.groups[key] for key in group.made_of]
            if made_by.id not in self.decisions:
                groups += parts
                continue
            pieces, covered = self.pieces_inside(self.old.members(group.id))
            if covered <= MAJORITY:
                self.leave_out(made_by, self.reason_without_home(self.old.members(group.id)))
                groups += parts
                continue
            yield from self.join(group, made_by, pieces)

    def join(
        self, group: Group, made_by: GoalDecision, pieces: Sequence[str]
    ) -> Generator[GoalDecision]:
        """Yields the merges, one after another, of new groups into one with the label of the old group; for a single
        new group yields a rename if its label differs."""
        label_and_description = (group.label, group.description)
        merged, *others = pieces
        if not others:
            if group.label and group.label != self.new.group(merged).label:
                yield _copy_for_new(made_by, "rename", (merged,), (label_and_description,))
            return
        for piece in others:
            yield _copy_for_new(made_by, "merge", (merged, piece), (label_and_description,))
            # the group that this merge has just made, after the caller applied it
            merged = next(
                key for key in reversed(self.new.current) if piece in self.new.groups[key].made_of
            )

    def transfer_to_homes(self) -> Generator[GoalDecision]:
        """Yields the names, then the pins, then the themes that people gave to groups, each for the home of its
        group."""
        kinds: tuple[DecisionKind, ...] = ("rename", "pin", "theme")
        for kind in kinds:
            for group in self.groups_by_people():
                decision = {
                    "rename": group.named_by,
                    "pin": group.pinned_by,
                    "theme": group.themed_by,
                }[kind]
                # a group may be named by the merge that made it, which is no name of its own
                if decision is None or decision.kind != kind or decision.id not in self.decisions:
                    continue
                members = self.old.members(group.id)
                home = self.home(members)
                if home is None:
                    self.leave_out(decision, self.reason_without_home(members))
                    continue
                names, new_group = decision.names, self.new.group(home)
                if kind == "rename":
                    names = ((group.label, group.description),)
                is_named_so = kind == "rename" and new_group.label == group.label
                is_pinned = kind == "pin" and new_group.pinned
                if not is_named_so and not is_pinned:
                    yield _copy_for_new(decision, kind, (home,), names)

    def transfer_moves(self) -> Generator[GoalDecision]:
        """Yields the moves by people, each to the home of its old target group, or to the outliers, of the
        conversations that are still there in the old state, are in both clusterings, and are not there yet in the new
        one."""
        for decision in self.decisions_of("move"):
            (part,) = decision.parts
            ids = np.asarray(part, np.int64)
            old_target = self.old.current_of(decision.sides[0]) if decision.sides else None
            old_members = self.old.members(old_target) if old_target else self.old.outliers
            shared_ids = np.intersect1d(np.intersect1d(ids, old_members), self.new.conversation_ids)
            home = self.home(self.old.members(old_target)) if old_target else None
            if old_target and home is None:
                self.leave_out(decision, self.reason_without_home(old_members))
                continue
            unmoved_ids = np.setdiff1d(shared_ids, self.new.members(home))
            if not len(unmoved_ids):
                continue
            moved_part = array("q", unmoved_ids.tolist())
            move = _copy_for_new(decision, "move", (home,) if home else (), parts=(moved_part,))
            try:
                # tried on a copy, because it may fail
                self.new.copy().apply(move)
            except UsageError as error:
                self.leave_out(decision, error.message)
                continue
            yield move

    def transfer_refusals(self) -> Generator[GoalDecision]:
        """Yields *apart* and *never* decisions for all pairs of a new group of the first side and one of the second."""
        current = {group.id for group in self.groups_by_people()}
        for decision in (*self.decisions_of("apart"), *self.decisions_of("never")):
            if decision.kind == "apart" and not current.issuperset(decision.sides):
                continue
            sides = [self.old.members(side) for side in decision.sides]
            first_places, second_places = map(self.find_places, sides)
            pairs = [(a, b) for a in first_places for b in second_places if a != b]
            if not pairs:
                homeless = [
                    members
                    for members, places in zip(sides, (first_places, second_places), strict=True)
                    if not places
                ]
                self.leave_out(
                    decision, self.reason_without_home(homeless[0]) if homeless else TOGETHER
                )
            for a, b in pairs:
                # an *apart* may become a *never*, but neither is noted twice
                is_forbidden = pair_of(a, b) in self.new.forbidden
                is_noted = self.new.is_kept_apart(a, b) and decision.kind == "apart"
                if not is_forbidden and not is_noted:
                    yield _copy_for_new(decision, decision.kind, (a, b))

    def report_lost_splits(self) -> None:
        """Notes each split whose parts lie in one new group; a split is never repeated."""
        for decision in self.decisions_of("split"):
            parts = [
                group
                for group in self.old.groups.values()
                if group.made_by and group.made_by.id == decision.id
            ]
            homes = [self.home(self.old.members(group.id)) for group in parts]
            if any(a is not None and a == b for a, b in combinations(homes, 2)):
                self.leave_out(decision, PARTS_TOGETHER)

    def decisions_of(self, kind: DecisionKind) -> list[GoalDecision]:
        """Returns the decisions of a kind, in the order in which they were given."""
        return [decision for decision in self.decisions.values() if decision.kind == kind]

    def leave_out(self, decision: GoalDecision, reason: str) -> None:
        """Notes the reason why a decision cannot be transferred."""
        self.unplaced[decision.id] = reason

    def reason_without_home(self, members: Ids) -> str:
        """Returns the reason why a group has no home."""
        return SPREAD if np.isin(members, self.new.conversation_ids).any() else GONE

    def groups_by_people(self) -> list[Group]:
        """Returns the current groups of the old state, with those that a rule merged replaced by the groups they were
        made of."""
        groups = []
        remaining = list(self.old.current)
        while remaining:
            group = self.old.groups[remaining.pop(0)]
            made_by = group.made_by
            if made_by is not None and made_by.kind == "merge" and made_by.decided_by != "human":
                remaining += group.made_of
            else:
                groups.append(group)
        return groups

    def pieces_inside(self, members: Ids) -> tuple[list[str], float]:
        """Returns the new groups that are in an old one, the one with most of its members first, and the share of the
        old group, 0–1, that they hold together."""
        overlap = self.overlap_with(members)
        counts = overlap.counts
        pieces = [key for key in counts if counts[key] > MAJORITY * overlap.sizes[key]]
        pieces.sort(key=lambda key: (-counts[key], key))
        share = sum(counts[key] for key in pieces) / overlap.total if overlap.total else 0.0
        return pieces, share

    def home(self, members: Ids) -> str | None:
        """Returns the new group that holds most of an old one; None if no group does."""
        overlap = self.overlap_with(members)
        return next(
            (key for key, count in overlap.counts.items() if count > MAJORITY * overlap.total), None
        )

    def find_places(self, members: Ids) -> list[str]:
        """Returns the new groups that are in an old one or are its home, the home first if it is not in the old one."""
        pieces, _ = self.pieces_inside(members)
        home = self.home(members)
        return pieces if home is None or home in pieces else [home, *pieces]

    def overlap_with(self, members: Ids) -> _Overlap:
        """Returns how the members of an old group are spread over the new groups."""
        keys = list(self.new.current)
        ids, group_indices = self.new.group_indices(keys)
        in_old = np.isin(ids, self.old.conversation_ids, assume_unique=True)
        in_group = in_old & np.isin(ids, members, assume_unique=True)
        all_counts = np.bincount(group_indices[in_old & (group_indices >= 0)], minlength=len(keys))
        group_counts = np.bincount(
            group_indices[in_group & (group_indices >= 0)], minlength=len(keys)
        )
        counts = {key: int(n) for key, n in zip(keys, group_counts, strict=True) if n}
        sizes = dict(zip(keys, all_counts.tolist(), strict=True))
        return _Overlap(counts, sizes, total=int(in_group.sum()))


def _copy_for_new(
    decision: GoalDecision,
    kind: DecisionKind,
    sides: tuple[str, ...],
    names: tuple[tuple[str, str], ...] = (),
    parts: tuple[array[int], ...] = (),
) -> GoalDecision:
    """Returns a decision on the new state, copied from one on the old state."""
    return replace(
        decision, kind=kind, sides=sides, names=names, parts=parts, source_id=decision.id,
        labels=(), evidence=None, id=0, act=0, given_at="", author="human", agreed=False, reviewed=None,
    )  # fmt: skip
