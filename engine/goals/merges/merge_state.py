"""The groups after a sequence of decisions, as a pure function of the clusters and the decisions.

Every conversation of the clustering is always in exactly one group or is an outlier. A state starts from the clusters
(`of_clusters`) and applies decisions in the order in which they were given (`apply`). To undo a decision, the others
are replayed. Former groups, which were merged or split, are kept with the group that they became.

- *merge* makes a new group of two. An *apart* with one of them does not hold for the new group, because that is another
  question; a *never* with one of them does.
- *apart* refuses a pair until one of the two is merged or split; *never* also holds for the groups made from them.
- *split* makes a new group of each set of members that it names, and one more of the other members.
- *move* changes members but not groups; it cannot empty a group.
- *pin* takes a group out of the proposals; a merge with a pinned group is pinned.

Latecomers are conversations that were imported after the clustering and assigned to groups. `latecomers` has those that
a decision moved; the others are in the group that `current_of` gives for their assignment.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotFound, NotYet, UsageError
from engine.goals.records import GoalDecision, Ids, Pair, part_ids


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A current or former group.

    Attributes:
        lowest: Lowest conversation id.
        own: Conversation ids, ascending; None if the members are those of `made_of`.
        made_by: The decision that made it; None for a cluster.
        named_by, pinned_by: The decisions that named and pinned it.
    """

    id: str
    label: str
    description: str
    size: int
    lowest: int
    own: Ids | None
    made_of: tuple[str, ...] = ()
    made_by: GoalDecision | None = None
    named_by: GoalDecision | None = None
    pinned_by: GoalDecision | None = None

    @property
    def pinned(self) -> bool:
        """Whether it is excluded from merge proposals."""
        return self.pinned_by is not None


@dataclass(slots=True, eq=False)
class MergeState:
    """The groups after the decisions so far. `apply` changes it, so copy a state that others read.

    Attributes:
        groups: All current and former groups by id.
        current: Ids of the current groups, as an ordered set.
        outliers: Conversation ids, ascending.
        conversation_ids: Conversation ids of the clustering, ascending.
        successor: The group that each former group became; for a split one its largest part.
        refused, forbidden: Sorted pairs with the *apart* and the *never* decision on them.
        touched: Ids of groups whose members a move changed.
        latecomers: Group of each latecomer that a decision moved, by conversation id; None is no group.
        digests: Cache of hashes of members, by group.
    """

    groups: dict[str, Group]
    current: dict[str, None]
    outliers: Ids
    conversation_ids: Ids
    successor: dict[str, str] = field(default_factory=dict)
    refused: dict[Pair, GoalDecision] = field(default_factory=dict)
    forbidden: dict[Pair, GoalDecision] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)
    latecomers: dict[int, str | None] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of_clusters(
        cls, members: Mapping[int, Iterable[int]], outliers: Iterable[int] = ()
    ) -> MergeState:
        """The state before any decision: group `c12` is cluster 12."""
        groups = {}
        for number, ids in members.items():
            own = _ids(ids)
            groups[f"c{number}"] = Group(f"c{number}", "", "", len(own), int(own[0]), own)
        outside = _ids(outliers)
        conversation_ids = np.sort(
            np.concatenate([outside, *(g.own for g in groups.values() if g.own is not None)])
        )
        return cls(groups, dict.fromkeys(groups), outside, conversation_ids)

    def named(self, names: Mapping[str, tuple[str, str]]) -> MergeState:
        """A copy in which groups have these labels and descriptions."""
        found = self.copy()
        for key, (label, description) in names.items():
            found.groups[key] = replace(found.groups[key], label=label, description=description)
        return found

    def copy(self) -> MergeState:
        """An independent copy."""
        return MergeState(
            dict(self.groups),
            dict(self.current),
            self.outliers,
            self.conversation_ids,
            dict(self.successor),
            dict(self.refused),
            dict(self.forbidden),
            set(self.touched),
            dict(self.latecomers),
            dict(self.digests),
        )

    # Queries

    def group(self, key: str) -> Group:
        """A current group.

        Raises:
            UsageError: It is not a current group; the advice names the group that it became.
        """
        if key not in self.current:
            became = self.current_of(key)
            advice = f"It became “{self.groups[became].label or became}”." if became else ""
            raise NotFound(f"There is no group {key} any more.", advice)
        return self.groups[key]

    def members(self, key: str | None) -> Ids:
        """Conversation ids of a current or former group, ascending; None gives the outliers."""
        if key is None:
            return self.outliers
        found = [part.own for part in self.parts(key) if part.own is not None]
        return found[0] if len(found) == 1 else np.sort(np.concatenate(found))

    def parts(self, key: str) -> list[Group]:
        """The groups with members of their own (`Group.own`) that a group was merged from; itself if it was not."""
        found: list[Group] = []
        left = [key]
        while left:
            group = self.groups[left.pop()]
            if group.own is None:
                left += group.made_of
            else:
                found.append(group)
        return found

    def current_of(self, key: str) -> str | None:
        """Id of the current group that a group is or became; None if there never was a group of this id."""
        while key in self.successor:
            key = self.successor[key]
        return key if key in self.current else None

    def numbers(self, ids: Sequence[str]) -> tuple[Ids, npt.NDArray[np.int32]]:
        """All conversation ids, ascending, and for each the index of its group in `ids`; -1 for an outlier."""
        found = np.full(len(self.conversation_ids), -1, dtype=np.int32)
        for place, key in enumerate(ids):
            found[np.searchsorted(self.conversation_ids, self.members(key))] = place
        return self.conversation_ids, found

    def decided(self, a: str, b: str) -> bool:
        """Whether an *apart* or a *never* holds for a pair."""
        pair = pair_of(a, b)
        return pair in self.refused or pair in self.forbidden

    def open_pairs(self) -> list[Pair]:
        """Undecided pairs of current groups that are not pinned."""
        free = sorted(key for key in self.current if not self.groups[key].pinned)
        return [
            (a, b) for at, a in enumerate(free) for b in free[at + 1 :] if not self.decided(a, b)
        ]

    def sides(self, a: str, b: str) -> tuple[Group, Group]:
        """Both groups, the larger first; of equal sizes the one with the lowest conversation id first."""
        first, second = self.group(a), self.group(b)
        larger = (-first.size, first.lowest) <= (-second.size, second.lowest)
        return (first, second) if larger else (second, first)

    def sides_key(self, a: str, b: str) -> str:
        """Hash of the members of a pair of groups, 32 hex digits."""
        both = b"".join(self._digest(group.id) for group in self.sides(a, b))
        return hashlib.sha256(both).hexdigest()[:32]

    def _digest(self, key: str) -> bytes:
        found = self.digests.get(key)
        if found is None:
            found = hashlib.sha256(self.members(key).astype("<i8").tobytes()).digest()
            self.digests[key] = found
        return found

    # Changes

    def apply(self, decision: GoalDecision) -> None:
        """Applies a decision.

        Raises:
            UsageError: It cannot be applied to the current groups; the state is unchanged.
        """
        {
            "merge": self._merge,
            "apart": self._refuse,
            "never": self._refuse,
            "split": self._split,
            "move": self._move,
            "rename": self._rename,
            "pin": self._pin,
            "unpin": self._pin,
        }[decision.kind](decision)

    def complete(self, decision: GoalDecision) -> GoalDecision:
        """Returns the decision with the current labels of its groups and a name for each group that it makes: for a
        merge the name of the pinned or else the larger group, for parts of a split the name of the group with a
        number."""
        labels = tuple(self.groups[key].label for key in decision.sides if key in self.groups)
        names = decision.names
        if decision.kind == "merge" and not names:
            both = sorted(self._pair(decision), key=lambda g: (not g.pinned, -g.size, g.id))
            names = ((both[0].label, both[0].description),)
        elif decision.kind == "split":
            group = self._one(decision)
            _, parts = self._parts(decision, group)
            more = range(len(names), len(parts))
            own = (f"{group.label} ({n + 1})".strip() for n in more)
            names += tuple((label, group.description) for label in own)
        return replace(decision, labels=labels, names=names)

    def _pair(self, decision: GoalDecision) -> tuple[Group, Group]:
        if len(decision.sides) != 2 or decision.sides[0] == decision.sides[1]:
            raise UsageError("That takes two different groups.", "Choose another one.")
        return self.group(decision.sides[0]), self.group(decision.sides[1])

    def _one(self, decision: GoalDecision) -> Group:
        if len(decision.sides) != 1:
            raise UsageError("That takes one group.")
        return self.group(decision.sides[0])

    def _merge(self, decision: GoalDecision) -> None:
        a, b = self._pair(decision)
        if decision.author != "human" and (a.pinned or b.pinned or self.decided(a.id, b.id)):
            raise UsageError("A person decided otherwise on these groups.")
        label, description = self.complete(decision).names[0]
        made = Group(
            decision.made[0],
            label,
            description,
            a.size + b.size,
            min(a.lowest, b.lowest),
            None,
            (a.id, b.id),
            decision,
            decision,
            a.pinned_by or b.pinned_by,
        )
        self._replace((a.id, b.id), (made,))

    def _refuse(self, decision: GoalDecision) -> None:
        a, b = self._pair(decision)
        pair = pair_of(a.id, b.id)
        if pair in self.forbidden:
            raise UsageError("These groups are never to be merged already.")
        if decision.kind == "never":
            self.forbidden[pair] = decision
        elif pair in self.refused:
            raise UsageError("These groups are kept apart already.")
        else:
            self.refused[pair] = decision

    def _split(self, decision: GoalDecision) -> None:
        group = self._one(decision)
        wanted, parts = self._parts(decision, group)
        names = self.complete(decision).names
        made = [
            Group(key, *name, len(part), int(part[0]), part, (group.id,), decision, decision)
            for key, name, part in zip(part_ids(decision.id, len(parts)), names, parts, strict=True)
        ]
        for part, to in zip(wanted, made, strict=False):
            for latecomer in np.setdiff1d(part, self.conversation_ids, assume_unique=True).tolist():
                self.latecomers[latecomer] = to.id
        self._replace((group.id,), made)

    def _parts(self, decision: GoalDecision, group: Group) -> tuple[list[Ids], list[Ids]]:
        """(parts as the split names them, latecomers included; members of the groups that it makes)."""
        members = self.members(group.id)
        wanted = [np.unique(_ids(part)) for part in decision.parts]
        named = np.concatenate([np.empty(0, np.int64), *wanted])
        if len(np.unique(named)) < len(named):
            raise UsageError("A conversation cannot be in two parts.")
        inside = [part[np.isin(part, members, assume_unique=True)] for part in wanted]
        strangers = np.setdiff1d(named, members, assume_unique=True)
        if np.isin(strangers, self.conversation_ids).any():
            raise UsageError(
                "A part has a conversation that is not in the group.", "Look at its members again."
            )
        if any(not len(part) for part in inside):
            raise UsageError("A part needs a member of the group.", "Look at its members again.")
        rest = np.setdiff1d(members, named, assume_unique=True)
        parts = [*inside, rest] if len(rest) else inside
        if len(parts) < 2:
            raise UsageError("A split takes two parts.", "Choose some of the members, not all.")
        return wanted, parts

    def _move(self, decision: GoalDecision) -> None:
        target = self._one(decision) if decision.sides else None
        if len(decision.parts) != 1 or not len(decision.parts[0]):
            raise NotYet("There is no conversation to move.")
        wanted = np.unique(_ids(decision.parts[0]))
        moved = wanted[np.isin(wanted, self.conversation_ids, assume_unique=True)]
        changed: dict[str, Ids] = {}
        for key in self.current:
            members = self.members(key)
            stay = members[~np.isin(members, moved, assume_unique=True)]
            if target is not None and key == target.id:
                if len(joined := np.union1d(members, moved)) > len(members):
                    changed[key] = joined
            elif len(stay) < len(members):
                changed[key] = stay
        if any(not len(members) for members in changed.values()):
            raise UsageError(
                "That would leave a group without members.", "Merge it instead of moving them all."
            )
        outside = np.setdiff1d(self.outliers, moved, assume_unique=True)
        outside = outside if target is not None else np.union1d(outside, moved)
        if not changed and len(moved) == len(wanted):
            raise UsageError("They are there already.")
        self.outliers = outside
        for key, members in changed.items():
            self.groups[key] = replace(
                self.groups[key], own=members, size=len(members), lowest=int(members[0])
            )
            self.touched.add(key)
            self.digests.pop(key, None)
        for latecomer in np.setdiff1d(wanted, moved, assume_unique=True).tolist():
            self.latecomers[latecomer] = None if target is None else target.id

    def _rename(self, decision: GoalDecision) -> None:
        group = self._one(decision)
        if not decision.names or not decision.names[0][0].strip():
            raise UsageError("A group needs a name.", "Write a few words.")
        label, description = decision.names[0]
        self.groups[group.id] = replace(
            group, label=label, description=description, named_by=decision
        )

    def _pin(self, decision: GoalDecision) -> None:
        group = self._one(decision)
        on = decision.kind == "pin"
        if group.pinned == on:
            raise UsageError("It is pinned already." if on else "It is not pinned.")
        label = decision.labels[0] if decision.labels and on else group.label
        self.groups[group.id] = replace(group, label=label, pinned_by=decision if on else None)

    def _replace(self, old: Sequence[str], new: Sequence[Group]) -> None:
        """Replaces groups by new ones, which inherit their *never* decisions."""
        for (a, b), decision in list(self.forbidden.items()):
            for key, other in ((a, b), (b, a)):
                if key in old and other not in old:
                    for group in new:
                        self.forbidden.setdefault(pair_of(group.id, other), decision)
        largest = max(new, key=lambda group: group.size)
        for key in old:
            del self.current[key]
            self.successor[key] = largest.id
        for group in new:
            self.groups[group.id] = group
            self.current[group.id] = None


def pair_of(a: str, b: str) -> Pair:
    """The ids of two groups, sorted."""
    return (a, b) if a <= b else (b, a)


def replay(base: MergeState, decisions: Iterable[GoalDecision]) -> MergeState:
    """The state after decisions, in order; `base` is not changed."""
    state = base.copy()
    for decision in decisions:
        state.apply(decision)
    return state


def _ids(ids: Iterable[int]) -> Ids:
    if isinstance(ids, array | np.ndarray):
        return np.sort(np.asarray(ids, dtype=np.int64))
    return np.sort(np.fromiter(ids, dtype=np.int64))
