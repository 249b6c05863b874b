"""What stood after each act on the desk, told from what stands now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.records.goals import GoalDecision, GoalGroup


@dataclass(frozen=True, slots=True)
class ReplayedState:
    """The groups after one act: their labels then, by id, and which of them the act made or concerned."""

    labels: Mapping[str, str]
    touched: frozenset[str]


def replay(groups: Sequence[GoalGroup], history: Sequence[GoalDecision]) -> list[ReplayedState]:
    """What stood after each act, in the order of `history`, which is newest first.

    Undone acts changed nothing of what stands now, so they leave the groups as they are. Goes backwards: takes away
    what an act made and puts back what it was made of, under the labels that the act remembers.
    """
    labels = {group.id: group.label for group in groups}
    found = []
    for given in history:
        touched = frozenset(given.made or given.sides) & labels.keys()
        found.append(
            ReplayedState(dict(labels), frozenset(touched) if given.stands else frozenset())
        )
        if not given.stands:
            continue
        if given.made:
            for made in given.made:
                labels.pop(made, None)
            labels |= dict(zip(given.sides, given.labels, strict=False))
        elif given.kind == "rename":
            labels |= dict(zip(given.sides, given.labels, strict=False))
    return found
