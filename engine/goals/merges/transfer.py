"""Transfers decisions to a new clustering by the members of their groups.

The same cluster number means another cluster in another clustering, so groups are matched by their members. Among the
conversations that are in both clusterings:

- A new group is *in* an old one when more than half of it lies there. A new group is the *home* of an old one when it
  holds more than half of it.
- A merge is transferred by merging all new groups that are in the merged one, if together they hold more than half of
  it; otherwise the merges that it was made from are tried.
- An *apart* or *never* is transferred to every pair of a new group that is in, or the home of, the first group and one
  that is in, or the home of, the second. An *apart* is transferred only if both are current groups, a *never* always.
- Names, pins and moved conversations go to the home.
- A split needs no decision if its parts have different homes.

Only decisions of people are transferred, because automatic rules can decide again. Decisions that cannot be transferred
are returned with the reason, so that they can be reported and tried on a later clustering.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from engine.base.errors import UsageError
from engine.goals.merges.merge_state import Group, MergeState
from engine.goals.records import DecisionKind, GoalDecision, Ids

SHARE = 0.5
"""A share above this is a majority."""

SPREAD = "its members are spread over several groups now"
GONE = "none of its members are known now"
TOGETHER = "its sides lie in one group now"
PARTS_TOGETHER = "its parts lie in one group now"

Transfer = Generator[GoalDecision, None, dict[int, str]]
"""Yields decisions for the new state; the caller must apply each before it asks for the next. Returns the reasons why
decisions could not be transferred, by id."""


def transfer_decisions(
    old: MergeState, decisions: Iterable[GoalDecision], new: MergeState
) -> Transfer:
    """Transfers decisions from an old state to a new one.

    Args:
        old: The state after all its active decisions.
        decisions: The decisions to transfer, in order.
        new: The state to which the caller applies the yielded decisions.
    """
    wanted = {d.id: d for d in decisions if d.author == "human"}
    transfer = _Transfer(old, new, wanted, {})
    yield from transfer.merges()
    for step in (transfer.names, transfer.pins, transfer.moves, transfer.refusals):
        yield from step()
    transfer.splits()
    return transfer.unplaced


def places(old: MergeState, new: MergeState, groups: Iterable[str]) -> dict[str, list[str]]:
    """The new groups that are in, or the home of, each of these current groups of the old state; the home first, then
    the one with most of its members."""
    transfer = _Transfer(old, new, {}, {})
    return {group: transfer.places(old.members(group)) for group in groups}


@dataclass(slots=True)
class _Transfer:
    old: MergeState
    new: MergeState
    wanted: dict[int, GoalDecision]
    unplaced: dict[int, str]

    def merges(self) -> Generator[GoalDecision]:
        left = [self.old.groups[key] for key in self.old.current]
        while left:
            group = left.pop(0)
            made_by = group.made_by
            if made_by is None or made_by.kind != "merge":
                continue
            below = [self.old.groups[key] for key in group.made_of]
            if made_by.id not in self.wanted:
                left += below
                continue
            pieces, covered = self.inside(self.old.members(group.id))
            if covered <= SHARE:
                self.leave_out(made_by, self.why(self.old.members(group.id)))
                left += below
                continue
            yield from self.join(group, made_by, pieces)

    def join(
        self, group: Group, made_by: GoalDecision, pieces: Sequence[str]
    ) -> Generator[GoalDecision]:
        """Yields merges of new groups into one with the label of the old one."""
        name = (group.label, group.description)
        so_far = pieces[0]
        if len(pieces) == 1:
            if group.label and name[0] != self.new.group(so_far).label:
                yield _transferred(made_by, "rename", (so_far,), (name,))
            return
        for piece in pieces[1:]:
            yield _transferred(made_by, "merge", (so_far, piece), (name,))
            so_far = next(
                k for k in reversed(self.new.current) if piece in self.new.groups[k].made_of
            )

    def names(self) -> Generator[GoalDecision]:
        for group in self.groups_by_people():
            decision = group.named_by
            if decision is None or decision.kind != "rename" or decision.id not in self.wanted:
                continue
            members = self.old.members(group.id)
            home = self.home(members)
            if home is None:
                self.leave_out(decision, self.why(members))
            elif self.new.group(home).label != group.label:
                yield _transferred(decision, "rename", (home,), ((group.label, group.description),))

    def pins(self) -> Generator[GoalDecision]:
        for group in self.groups_by_people():
            decision = group.pinned_by
            if decision is None or decision.id not in self.wanted:
                continue
            members = self.old.members(group.id)
            home = self.home(members)
            if home is None:
                self.leave_out(decision, self.why(members))
            elif not self.new.group(home).pinned:
                yield _transferred(decision, "pin", (home,))

    def moves(self) -> Generator[GoalDecision]:
        for decision in self.of("move"):
            ids = np.asarray(decision.parts[0], np.int64)
            to = self.old.current_of(decision.sides[0]) if decision.sides else None
            where = self.old.members(to) if to else self.old.outliers
            known = np.intersect1d(np.intersect1d(ids, where), self.new.conversation_ids)
            home = self.home(self.old.members(to)) if to else None
            if to and home is None:
                self.leave_out(decision, self.why(where))
                continue
            left = np.setdiff1d(known, self.new.members(home))
            if not len(left):
                continue
            part = (array("q", left.tolist()),)
            try:
                # tried on a copy, because it may fail
                self.new.copy().apply(
                    _transferred(decision, "move", (home,) if home else (), parts=part)
                )
            except UsageError as error:
                self.leave_out(decision, error.message)
                continue
            yield _transferred(decision, "move", (home,) if home else (), parts=part)

    def refusals(self) -> Generator[GoalDecision]:
        current = {group.id for group in self.groups_by_people()}
        for decision in (*self.of("apart"), *self.of("never")):
            if decision.kind == "apart" and not current.issuperset(decision.sides):
                continue
            sides = [self.old.members(side) for side in decision.sides]
            first, second = map(self.places, sides)
            pairs = [(a, b) for a in first for b in second if a != b]
            if not pairs:
                missing = next(
                    (s for s, found in zip(sides, (first, second), strict=True) if not found), None
                )
                self.leave_out(decision, TOGETHER if missing is None else self.why(missing))
            for a, b in pairs:
                if decision.kind == "never" or not self.new.decided(a, b):
                    if tuple(sorted((a, b))) in self.new.forbidden:
                        continue
                    yield _transferred(decision, decision.kind, (a, b))

    def splits(self) -> None:
        for decision in self.of("split"):
            made = [
                g for g in self.old.groups.values() if g.made_by and g.made_by.id == decision.id
            ]
            homes = [self.home(self.old.members(group.id)) for group in made]
            if any(a is not None and a == b for a, b in combinations(homes, 2)):
                self.leave_out(decision, PARTS_TOGETHER)

    def of(self, kind: DecisionKind) -> list[GoalDecision]:
        return [decision for decision in self.wanted.values() if decision.kind == kind]

    def leave_out(self, decision: GoalDecision, reason: str) -> None:
        self.unplaced[decision.id] = reason

    def why(self, members: Ids) -> str:
        """The reason why a group has no home."""
        return SPREAD if np.isin(members, self.new.conversation_ids).any() else GONE

    def groups_by_people(self) -> list[Group]:
        """The current groups of the old state, those that a rule merged replaced by the groups they were made of."""
        found = []
        left = list(self.old.current)
        while left:
            group = self.old.groups[left.pop(0)]
            made_by = group.made_by
            if made_by is not None and made_by.kind == "merge" and made_by.author != "human":
                left += group.made_of
            else:
                found.append(group)
        return found

    def inside(self, members: Ids) -> tuple[list[str], float]:
        """(new groups that are in an old one, the one with most of its members first; the share of it that they
        hold)."""
        held, known, total = self.shares(members)
        pieces = [key for key in held if held[key] > SHARE * known[key]]
        pieces.sort(key=lambda key: (-held[key], key))
        return pieces, sum(held[key] for key in pieces) / total if total else 0.0

    def home(self, members: Ids) -> str | None:
        held, _, total = self.shares(members)
        return next((key for key in held if held[key] > SHARE * total), None)

    def places(self, members: Ids) -> list[str]:
        """The new groups that are in an old one or are its home."""
        pieces, _ = self.inside(members)
        home = self.home(members)
        return pieces if home is None or home in pieces else [home, *pieces]

    def shares(self, members: Ids) -> tuple[dict[str, int], dict[str, int], int]:
        """(members of an old group in each new group; members of each new group that are in the old clustering; number
        of members of the old group that are in the new clustering)."""
        keys = list(self.new.current)
        ids, places = self.new.numbers(keys)
        known = np.isin(ids, self.old.conversation_ids, assume_unique=True)
        mine = known & np.isin(ids, members, assume_unique=True)
        of_all = np.bincount(places[known & (places >= 0)], minlength=len(keys))
        of_mine = np.bincount(places[mine & (places >= 0)], minlength=len(keys))
        held = {key: int(n) for key, n in zip(keys, of_mine, strict=True) if n}
        return held, dict(zip(keys, of_all.tolist(), strict=True)), int(mine.sum())


def _transferred(
    decision: GoalDecision,
    kind: DecisionKind,
    sides: tuple[str, ...],
    names: tuple[tuple[str, str], ...] = (),
    parts: tuple[array[int], ...] = (),
) -> GoalDecision:
    """A decision on the new state, copied from one on the old state."""
    return replace(
        decision, kind=kind, sides=sides, names=names, parts=parts, source_id=decision.id,
        labels=(), evidence=None, id=0, act=0, given_at="",
    )  # fmt: skip
