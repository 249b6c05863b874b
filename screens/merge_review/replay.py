"""The groups after each decision, computed from the groups that exist now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.goals.records import GoalDecision, GoalGroup


@dataclass(frozen=True, slots=True)
class ReplayedState:
    """The groups after a decision.

    Attributes:
        labels: By id, as they were then.
        touched: Ids of the groups that the decision made, or changed where it made none.
    """

    labels: Mapping[str, str]
    touched: frozenset[str]


def replay(groups: Sequence[GoalGroup], history: Sequence[GoalDecision]) -> list[ReplayedState]:
    """The groups after each decision, in the order of `history`, which is newest first.

    Goes backwards from `groups`: removes what a decision made and restores what it was made of, with the labels that
    the decision stores. Decisions that were undone changed nothing.
    """
    labels = {group.id: group.label for group in groups}
    found = []
    for given in history:
        touched = frozenset(given.made or given.sides) & labels.keys()
        found.append(
            ReplayedState(dict(labels), frozenset(touched) if given.active else frozenset())
        )
        if not given.active:
            continue
        if given.made:
            for made in given.made:
                labels.pop(made, None)
            labels |= dict(zip(given.sides, given.labels, strict=False))
        elif given.kind == "rename":
            labels |= dict(zip(given.sides, given.labels, strict=False))
    return found
