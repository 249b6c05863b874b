"""The groups after a sequence of decisions, as a pure function of the clusters and the decisions.

Every conversation of the clustering is always in exactly one group or is an outlier. A state starts from the clusters
(`of_clusters`) and applies decisions in the order in which they were given (`apply`). To undo a decision, the others
are replayed. Former groups, which were merged or split, are kept with the group that they became.

- *merge* makes a new group of two. An *apart* with one of them does not hold for the new group, because that is another
  question; a *never* with one of them does.
- *apart* refuses a pair until one of the two is merged or split; *never* also holds for the groups made from them.
- *split* makes a new group of each set of members that it names, and one more of the other members.
- *move* changes members but not groups; it cannot empty a group.
- *theme* puts a group under a theme, where the group that it is merged into, and its parts, stay.
- *pin* takes a group out of the proposals; a merge with a pinned group is pinned.

No two current groups have one label: where an act gives a label that another group has, `end_act` numbers it.

Latecomers are conversations that were imported after the clustering and assigned to groups. `latecomers` has those that
a decision moved; the others are in the group that `current_of` gives for their assignment.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from itertools import count, groupby

import numpy as np
import numpy.typing as npt

from engine.base.errors import NotFound, NotYet, UsageError
from engine.goals.records import GoalDecision, Ids, Pair, Support, part_ids

_NUMBER = re.compile(r" \(\d\d?\)$")
"""The number at the end of a label that tells it from the same label of another group."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """A current or former group.

    Attributes:
        id: `c12` for cluster 12; for a group that a decision made, as in `GoalDecision.made_groups`.
        label, description: A few words, and one sentence; either may be empty.
        support: Of the label; None where it was not counted.
        size: Number of members.
        lowest_id: Lowest conversation id of a member.
        own_members: Conversation ids of the members, ascending; None if the members are those of `made_of`.
        made_of: Ids of the groups that it was merged or split from; empty for a cluster.
        made_by: The decision that merged or split groups into it; None for a cluster.
        named_by, pinned_by, themed_by: The decisions that named it, pinned it, and put it under a theme; None if there
            is none.
    """

    id: str
    label: str
    description: str
    size: int
    lowest_id: int
    own_members: Ids | None
    made_of: tuple[str, ...] = ()
    made_by: GoalDecision | None = None
    support: Support | None = None
    named_by: GoalDecision | None = None
    pinned_by: GoalDecision | None = None
    themed_by: GoalDecision | None = None

    @property
    def theme(self) -> str:
        """Label of its theme; empty where it is in none."""
        return self.themed_by.names[0][0] if self.themed_by else ""

    @property
    def themed_by_person(self) -> bool:
        """Whether a person said which theme it is in."""
        return self.themed_by is not None and self.themed_by.author == "human"

    @property
    def pinned(self) -> bool:
        """Whether the group is excluded from merge proposals."""
        return self.pinned_by is not None

    @property
    def is_rest(self) -> bool:
        """Whether the rule named it as one whose members have no request in common."""
        return self.named_by is not None and bool((self.named_by.evidence or {}).get("rest"))

    @property
    def settled_by_person(self) -> bool:
        """Whether a person looked at its members: it is pinned, or a part of a split by a person."""
        made_by = self.made_by
        return self.pinned or (
            made_by is not None and made_by.kind == "split" and made_by.author == "human"
        )


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
        changed_by_moves: Ids of groups whose members a move changed.
        latecomers: Group of each latecomer that a decision moved, by conversation id; None is no group.
        digests: Cache of hashes of members, by group.
        label_counts: Number of current groups with each label.
        just_named: Ids of the groups that the decisions of the present act named, in order.
    """

    groups: dict[str, Group]
    current: dict[str, None]
    outliers: Ids
    conversation_ids: Ids
    successor: dict[str, str] = field(default_factory=dict)
    refused: dict[Pair, GoalDecision] = field(default_factory=dict)
    forbidden: dict[Pair, GoalDecision] = field(default_factory=dict)
    changed_by_moves: set[str] = field(default_factory=set)
    latecomers: dict[int, str | None] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    label_counts: Counter[str] = field(default_factory=Counter)
    just_named: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of_clusters(
        cls, members: Mapping[int, Iterable[int]], outliers: Iterable[int] = ()
    ) -> MergeState:
        """Returns the state before any decision, in which group `c12` is cluster 12."""
        members_by_group = {f"c{number}": _sorted_ids(ids) for number, ids in members.items()}
        groups = {
            key: Group(key, "", "", size=len(ids), lowest_id=int(ids[0]), own_members=ids)
            for key, ids in members_by_group.items()
        }
        sorted_outliers = _sorted_ids(outliers)
        conversation_ids = np.sort(np.concatenate([sorted_outliers, *members_by_group.values()]))
        return cls(groups, dict.fromkeys(groups), sorted_outliers, conversation_ids)

    def named(self, names: Mapping[str, tuple[str, str, Support | None]]) -> MergeState:
        """Returns a copy in which groups have these labels, descriptions and supports."""
        state = self.copy()
        for key, (label, description, support) in names.items():
            state.groups[key] = replace(
                state.groups[key], label=label, description=description, support=support
            )
        state.label_counts = Counter(state.groups[key].label for key in state.current)
        return state

    def copy(self) -> MergeState:
        """Returns an independent copy."""
        return MergeState(**{each.name: copy(getattr(self, each.name)) for each in fields(self)})

    # Queries

    def group(self, key: str) -> Group:
        """Returns a current group.

        Raises:
            NotFound: It is not a current group; the advice names the group that it became.
        """
        if key not in self.current:
            became = self.current_of(key)
            advice = f"It became “{self.groups[became].label or became}”." if became else ""
            raise NotFound(f"There is no group {key} any more.", advice)
        return self.groups[key]

    def members(self, key: str | None) -> Ids:
        """Returns the conversation ids of a current or former group, ascending; those of the outliers for None."""
        if key is None:
            return self.outliers
        parts = [part.own_members for part in self.parts(key) if part.own_members is not None]
        return np.sort(np.concatenate(parts)) if len(parts) > 1 else parts[0]

    def parts(self, key: str) -> list[Group]:
        """Returns the groups with members of their own (`Group.own_members`) that a group was merged from; the group
        itself if it was not merged."""
        parts: list[Group] = []
        remaining = [key]
        while remaining:
            group = self.groups[remaining.pop()]
            if group.own_members is None:
                remaining += group.made_of
            else:
                parts.append(group)
        return parts

    def current_of(self, key: str) -> str | None:
        """Returns the id of the current group that a group is or became; None if there never was a group of this id."""
        while key in self.successor:
            key = self.successor[key]
        return key if key in self.current else None

    def group_indices(self, ids: Sequence[str]) -> tuple[Ids, npt.NDArray[np.int32]]:
        """Returns all conversation ids, ascending, and for each the index of its group in `ids`; -1 for one in none of
        them. Both have the shape (conversations,)."""
        group_indices = np.full(len(self.conversation_ids), -1, dtype=np.int32)
        for index, key in enumerate(ids):
            group_indices[np.searchsorted(self.conversation_ids, self.members(key))] = index
        return self.conversation_ids, group_indices

    def is_kept_apart(self, a: str, b: str) -> bool:
        """Returns whether an *apart* or a *never* holds for a pair."""
        pair = pair_of(a, b)
        return pair in self.refused or pair in self.forbidden

    def open_pairs(self) -> list[Pair]:
        """Returns the undecided pairs of current groups that are not pinned, and not the rest."""
        groups = [self.groups[key] for key in sorted(self.current)]
        unpinned = [group.id for group in groups if not group.pinned and not group.is_rest]
        return [
            (a, b)
            for index, a in enumerate(unpinned)
            for b in unpinned[index + 1 :]
            if not self.is_kept_apart(a, b)
        ]

    def sides(self, a: str, b: str) -> tuple[Group, Group]:
        """Returns both groups, the larger first; of equal sizes the one with the lowest conversation id first."""
        first, second = self.group(a), self.group(b)
        larger = (-first.size, first.lowest_id) <= (-second.size, second.lowest_id)
        return (first, second) if larger else (second, first)

    def sides_key(self, a: str, b: str) -> str:
        """Returns a hash of the members of a pair of groups, 32 hex digits, the same for both orders."""
        digests = b"".join(self._digest(group.id) for group in self.sides(a, b))
        return hashlib.sha256(digests).hexdigest()[:32]

    def _digest(self, key: str) -> bytes:
        """Returns the SHA-256 of the members of a group, from the cache if it is there."""
        digest = self.digests.get(key)
        if digest is None:
            digest = hashlib.sha256(self.members(key).astype("<i8").tobytes()).digest()
            self.digests[key] = digest
        return digest

    # Changes

    def apply(self, decision: GoalDecision) -> None:
        """Applies a decision: each kind has a method.

        Raises:
            UsageError: It cannot be applied to the current groups; the state is unchanged.
        """
        if decision.kind == "agree":
            return  # it changes who answers for a decision, not the groups
        {
            "merge": self._merge,
            "apart": self._refuse,
            "never": self._refuse,
            "split": self._split,
            "move": self._move,
            "rename": self._rename,
            "pin": self._pin,
            "unpin": self._pin,
            "theme": self._theme,
        }[decision.kind](decision)

    def end_act(self) -> None:
        """Numbers each label that the act gave and that another current group has."""
        for key in reversed(self.just_named):
            group = self.groups[key]
            if key in self.current and group.label and self.label_counts[group.label] > 1:
                (label,) = free_labels([group.label], self.label_counts)
                self._rewrite(replace(group, label=label))
        self.just_named.clear()

    def complete(self, decision: GoalDecision) -> GoalDecision:
        """Returns the decision with the current labels of its groups and a name for each group that it makes: for a
        merge the name of the pinned or else the larger group, for parts of a split the name of the group with a
        number. What a person makes gets a label that no other group has."""
        labels = tuple(self.groups[key].label for key in decision.sides if key in self.groups)
        names = decision.names
        if decision.kind == "merge" and not names:
            first, _ = sorted(
                self._pair(decision), key=lambda group: (not group.pinned, -group.size, group.id)
            )
            names = ((first.label, first.description),)
        elif decision.kind == "split":
            group = self._single(decision)
            _, parts = self._parts(decision, group)
            unnamed_parts = range(len(names), len(parts))
            numbered_labels = (f"{group.label} ({index + 1})".strip() for index in unnamed_parts)
            # Latecomers in none of the parts stay with the largest: a name of theirs is dropped.
            names = names[: len(parts)] + tuple(
                (label, group.description) for label in numbered_labels
            )
        if decision.kind in ("merge", "split") and decision.author == "human":
            free = free_labels([label for label, _ in names], self.label_counts - Counter(labels))
            names = tuple((label, text) for label, (_, text) in zip(free, names, strict=True))
        return replace(decision, labels=labels, names=names)

    def _pair(self, decision: GoalDecision) -> tuple[Group, Group]:
        """Returns the two groups of a decision; raises UsageError if it does not have two different ones."""
        if len(decision.sides) != 2 or len(set(decision.sides)) != 2:
            raise UsageError("That takes two different groups.", "Choose another one.")
        first, second = decision.sides
        return self.group(first), self.group(second)

    def _single(self, decision: GoalDecision) -> Group:
        """Returns the group of a decision; raises UsageError if it does not have exactly one."""
        if len(decision.sides) != 1:
            raise UsageError("That takes one group.")
        (side,) = decision.sides
        return self.group(side)

    def _merge(self, decision: GoalDecision) -> None:
        """Replaces two groups by one with all their members.

        Raises:
            UsageError: A person pinned one of the groups or keeps them apart, and the decision is not of a person.
        """
        a, b = self._pair(decision)
        if decision.author != "human" and (a.pinned or b.pinned or self.is_kept_apart(a.id, b.id)):
            raise UsageError("A person decided otherwise on these groups.")
        label, description = self.complete(decision).names[0]
        (made_id,) = decision.made_groups
        made = Group(
            id=made_id,
            label=label,
            description=description,
            size=a.size + b.size,
            lowest_id=min(a.lowest_id, b.lowest_id),
            own_members=None,
            made_of=(a.id, b.id),
            made_by=decision,
            named_by=decision,
            pinned_by=a.pinned_by or b.pinned_by,
            themed_by=max(a, b, key=lambda group: (group.themed_by_person, group.size)).themed_by,
        )
        self._replace((a.id, b.id), (made,))

    def _refuse(self, decision: GoalDecision) -> None:
        """Notes an *apart* or a *never* on a pair of groups.

        Raises:
            UsageError: The pair is refused or forbidden already.
        """
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
        """Replaces a group by one group for each part; latecomers named in a part go to its group."""
        group = self._single(decision)
        named_parts, parts = self._parts(decision, group)
        names = self.complete(decision).names
        made = [
            Group(
                id=key,
                label=label,
                description=description,
                size=len(part),
                lowest_id=int(part[0]),
                own_members=part,
                made_of=(group.id,),
                made_by=decision,
                named_by=decision,
                themed_by=group.themed_by,
            )
            for key, (label, description), part in zip(
                part_ids(decision.id, len(parts)), names, parts, strict=True
            )
        ]
        # Not strict: the part of the members that no part names, which comes last, has no latecomers.
        for part, target in zip(named_parts, made, strict=False):
            for latecomer in np.setdiff1d(part, self.conversation_ids, assume_unique=True).tolist():
                self.latecomers[latecomer] = target.id
        self._replace((group.id,), made)

    def _parts(self, decision: GoalDecision, group: Group) -> tuple[list[Ids], list[Ids]]:
        """Returns the parts as the split names them, latecomers included, and the members of the groups that it makes.

        Raises:
            UsageError: The parts overlap, name a conversation of another group, are empty, or are not at least two.
        """
        members = self.members(group.id)
        named_parts = [np.unique(_sorted_ids(part)) for part in decision.parts]
        named = np.concatenate([np.empty(0, np.int64), *named_parts])
        if len(np.unique(named)) < len(named):
            raise UsageError("A conversation cannot be in two parts.")
        member_parts = [part[np.isin(part, members, assume_unique=True)] for part in named_parts]
        strangers = np.setdiff1d(named, members, assume_unique=True)
        if np.isin(strangers, self.conversation_ids).any():
            raise UsageError(
                "A part has a conversation that is not in the group.", "Look at its members again."
            )
        if any(not len(part) for part in member_parts):
            raise UsageError("A part needs a member of the group.", "Look at its members again.")
        unnamed = np.setdiff1d(members, named, assume_unique=True)
        parts = [*member_parts, unnamed] if len(unnamed) else member_parts
        if len(parts) < 2:
            raise UsageError("A split takes two parts.", "Choose some of the members, not all.")
        return named_parts, parts

    def _move(self, decision: GoalDecision) -> None:
        """Moves conversations to a group or, without one, to the outliers; latecomers are only noted.

        Raises:
            NotYet: No conversation is named.
            UsageError: A group would be left without members, or all are there already.
        """
        target = self._single(decision) if decision.sides else None
        if len(decision.parts) != 1 or not all(map(len, decision.parts)):
            raise NotYet("There is no conversation to move.")
        (part,) = decision.parts
        named_ids = np.unique(_sorted_ids(part))
        clustered_ids = named_ids[np.isin(named_ids, self.conversation_ids, assume_unique=True)]
        changed: dict[str, Ids] = {}
        for key in self.current:
            members = self.members(key)
            staying = members[~np.isin(members, clustered_ids, assume_unique=True)]
            if target is not None and key == target.id:
                if len(grown := np.union1d(members, clustered_ids)) > len(members):
                    changed[key] = grown
            elif len(staying) < len(members):
                changed[key] = staying
        if any(not len(members) for members in changed.values()):
            raise UsageError(
                "That would leave a group without members.", "Merge it instead of moving them all."
            )
        outliers = np.setdiff1d(self.outliers, clustered_ids, assume_unique=True)
        outliers = outliers if target is not None else np.union1d(outliers, clustered_ids)
        if not changed and len(clustered_ids) == len(named_ids):
            raise UsageError("They are there already.")
        self.outliers = outliers
        for key, members in changed.items():
            self.groups[key] = replace(
                self.groups[key], own_members=members, size=len(members), lowest_id=int(members[0])
            )
            self.changed_by_moves.add(key)
            self.digests.pop(key, None)
        for latecomer in np.setdiff1d(named_ids, clustered_ids, assume_unique=True).tolist():
            self.latecomers[latecomer] = None if target is None else target.id

    def _rename(self, decision: GoalDecision) -> None:
        """Gives a group the label and the description of the decision.

        Raises:
            UsageError: The label is empty.
        """
        group = self._single(decision)
        label, description = decision.names[0] if decision.names else ("", "")
        if not label.strip():
            raise UsageError("A group needs a name.", "Write a few words.")
        self._rewrite(
            replace(
                group,
                label=label,
                description=description,
                support=decision.support,
                named_by=decision,
            )
        )

    def _pin(self, decision: GoalDecision) -> None:
        """Pins or unpins a group.

        Raises:
            UsageError: The group is pinned, or not pinned, already.
        """
        group = self._single(decision)
        pins = decision.kind == "pin"
        if group.pinned == pins:
            raise UsageError("It is pinned already." if pins else "It is not pinned.")
        # A pinned group keeps the label that it had when it was pinned.
        label = decision.labels[0] if decision.labels and pins else group.label
        self._rewrite(replace(group, label=label, pinned_by=decision if pins else None))

    def _theme(self, decision: GoalDecision) -> None:
        """Puts a group under the theme of the decision, or under none.

        Raises:
            UsageError: The theme has no name.
        """
        group = self._single(decision)
        if not decision.names:
            raise UsageError("A theme needs a name.", "Write a few words.")
        self.groups[group.id] = replace(group, themed_by=decision)

    def _rewrite(self, group: Group) -> None:
        """Stores a current group that may have another label than before."""
        before = self.groups[group.id].label
        self.groups[group.id] = group
        if group.label != before:
            self.label_counts[before] -= 1
            self.label_counts[group.label] += 1
            self.just_named[group.id] = None

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
            self.label_counts[self.groups[key].label] -= 1
        for group in new:
            self.groups[group.id] = group
            self.current[group.id] = self.just_named[group.id] = None
            self.label_counts[group.label] += 1


def pair_of(a: str, b: str) -> Pair:
    """Returns the ids of two groups, sorted."""
    return (a, b) if a <= b else (b, a)


def after_reviews(decisions: Iterable[GoalDecision]) -> list[GoalDecision]:
    """Returns decisions, oldest first, with what the active reviews among them make of the others: a decision of a
    model that a person agreed with is the person's, too; one that a person replaced is not active. Nor is a decision on
    a group whose making is not active."""
    history = list(decisions)
    reviews = {d.reviewed: d for d in history if d.active and d.reviewed is not None}
    lost_groups: set[str] = set()
    reviewed_history = []
    for decision in history:
        review = reviews.get(decision.id)
        agreed = review is not None and review.kind == "agree"
        replaced = (review and not agreed) or not lost_groups.isdisjoint(decision.sides)
        if replaced or not decision.active:
            lost_groups.update(decision.made_groups)
            reviewed_history.append(replace(decision, active=False))
        else:
            reviewed_history.append(replace(decision, agreed=True) if agreed else decision)
    return reviewed_history


def replay(base: MergeState, decisions: Iterable[GoalDecision]) -> MergeState:
    """Returns the state after decisions, in order; `base` is not changed."""
    state = base.copy()
    for _, act in groupby(decisions, key=lambda decision: decision.act):
        for decision in act:
            state.apply(decision)
        state.end_act()
    return state


def free_labels(labels: Iterable[str], label_counts: Mapping[str, int]) -> list[str]:
    """Returns labels, each with a number at its end, or another one, where a group or an earlier one of them has it; an
    empty one stays.

    Args:
        label_counts: Number of groups with each label.
    """
    counts, free = Counter(label_counts), []
    for label in labels:
        stem = _NUMBER.sub("", label)
        numbered = (f"{stem} ({number})" for number in count(2))
        free.append(
            label
            if not label or not counts[label]
            else next(other for other in numbered if not counts[other])
        )
        counts[free[-1]] += 1
    return free


def _sorted_ids(ids: Iterable[int]) -> Ids:
    """Returns ids as an array, ascending."""
    if not isinstance(ids, array | np.ndarray):
        ids = np.fromiter(ids, dtype=np.int64)
    return np.sort(np.asarray(ids, dtype=np.int64))
