"""Decisions in words, and as screens see them."""

from __future__ import annotations

from engine.goals.merges.merge_state import made_ids
from engine.records.goals import DeskDecision, GoalDecision

NAMELESS = "a group without a label"


def decision_row(decision: DeskDecision, stands: bool = True, count: int = 1) -> GoalDecision:
    """A decision as it is shown; `count` is how many its act has, where it stands for all of them."""
    return GoalDecision(
        id=decision.id,
        kind=decision.kind,
        sides=decision.sides,
        labels=decision.labels,
        made=made_ids(decision),
        text=words(decision),
        author=decision.author,
        model=decision.model,
        probability=decision.probability,
        given_at=decision.given_at,
        carried=decision.carried is not None,
        stands=stands,
        act=decision.act,
        count=count,
    )


def words(decision: DeskDecision) -> str:
    """What a decision did, as one line: `merged “pay a bill” and “pay rent” into “pay”`."""
    sides = [_quoted(label) for label in decision.labels] or [NAMELESS]
    both = " and ".join(sides)
    made = _quoted(decision.names[0][0]) if decision.names else NAMELESS
    moved = sum(map(len, decision.parts))
    return {
        "merge": f"merged {both} into {made}",
        "apart": f"kept {both} apart",
        "never": f"kept {both} apart for good",
        "split": f"split {both} into {len(decision.names)}",
        "move": f"moved {moved:,} conversation{'' if moved == 1 else 's'} to "
        + (both if decision.sides else "the outliers"),
        "rename": f"renamed {both} to {made}",
        "pin": f"pinned {both}",
        "unpin": f"unpinned {both}",
    }[decision.kind]


def _quoted(label: str) -> str:
    return f"“{label}”" if label else NAMELESS
