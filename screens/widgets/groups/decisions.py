"""Decisions on goal groups as text, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.base.text import one_line
from engine.goals.records import DecisionKind, GoalDecision

SENTENCE_CHARACTERS = 300

GLYPHS: Mapping[DecisionKind, str] = {
    "merge": "⋈",
    "apart": "≠",
    "never": "⊘",
    "split": "⋔",
    "move": "→",
    "rename": "✎",
    "pin": "◉",
    "unpin": "◌",
}
"""A sign for each kind of decision."""
BULK: Mapping[DecisionKind, str] = {
    "merge": "merged {} pairs at once",
    "apart": "kept {} pairs apart at once",
}
"""What was done to a list of pairs in one act, by the kind of its decisions."""


def folded(history: Sequence[GoalDecision]) -> list[GoalDecision]:
    """A history with one line for each list of pairs that was refused at once: the first of them, with their count."""
    found: list[GoalDecision] = []
    for decision in history:
        last = found[-1] if found else None
        if last and (last.act, last.kind) == (decision.act, "apart") and not decision.transferred:
            found[-1] = replace(decision, count=last.count + 1)
        else:
            found.append(decision)
    return found


def decision_text(decision: GoalDecision) -> str:
    """Returns what a decision did, `merged “A” and “B” into “C”`; if it is shown for a whole act, what the act did."""
    if decision.count > 1 and decision.transferred:
        return f"took over {decision.count:,} decisions from an earlier clustering"
    if decision.count > 1 and decision.kind in BULK:
        return BULK[decision.kind].format(f"{decision.count:,}")
    return one_line(decision.text, SENTENCE_CHARACTERS)
