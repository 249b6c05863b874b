"""What decisions make of clusters, for the fake of the port `Goals`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.records.goals import GoalDecision


@dataclass
class Group:
    label: str
    members: list[int]
    made_of: tuple[str, ...] = ()
    made_by: int | None = None
    pinned: bool = False


@dataclass
class Desk:
    """What decisions made of the clusters."""

    groups: dict[str, Group]
    gone: dict[str, Group] = field(default_factory=dict)
    refused: set[frozenset[str]] = field(default_factory=set)

    def apply(
        self,
        given: GoalDecision,
        parts: Sequence[Sequence[int]],
        moved: tuple[Sequence[int], str | None],
    ) -> None:
        """Does what a decision says; `parts` are those of a split, `moved` who goes where."""
        groups = self.groups
        if given.kind == "merge":
            sides = [groups[side] for side in given.sides]
            self.gone |= {side: groups.pop(side) for side in given.sides}
            members = sorted(member for side in sides for member in side.members)
            groups[given.made[0]] = Group(given.text, members, given.sides, given.id)
        elif given.kind in ("apart", "never"):
            self.refused.add(frozenset(given.sides))
        elif given.kind == "split":
            whole = groups.pop(given.sides[0])
            self.gone[given.sides[0]] = whole
            for name, part in zip(given.made, parts, strict=True):
                groups[name] = Group(whole.label, sorted(part), given.sides, given.id)
        elif given.kind == "move":
            who, to = moved
            for group in groups.values():
                group.members = [member for member in group.members if member not in who]
            if to is not None:
                groups[to].members += who
        elif given.kind == "rename":
            groups[given.sides[0]].label = given.text
        else:
            groups[given.sides[0]].pinned = given.kind == "pin"


def likeness(one: str, other: str) -> float:
    """Share of the words of the shorter label that stand in the other."""
    a, b = set(one.lower().split()), set(other.lower().split())
    return len(a & b) / max(1, min(len(a), len(b)))


def hash_of(text: str) -> int:
    """The same number for the same text in every process."""
    return sum(ord(character) * (at + 1) for at, character in enumerate(text))
