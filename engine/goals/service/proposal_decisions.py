"""Decisions on pairs of groups, with the proposal that the person saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from engine.goals.merges.merge_state import MergeState
from engine.goals.records import GoalDecision, Proposal, model_says_yes
from engine.goals.views.decision_log import Plan


def merge(shown: Proposal, label: str | None = None) -> GoalDecision:
    """The decision to merge a pair; without a label it takes the proposed one, unless a side is pinned."""
    pinned = shown.a.pinned or shown.b.pinned
    name = " ".join((label or ("" if pinned else shown.evidence.answer.label)).split())
    description = shown.evidence.answer.description or shown.a.description
    names = ((name, description),) if name else ()
    return _with_evidence(GoalDecision("merge", shown.pair, names), shown)


def refusal(shown: Proposal, *, never: bool = False) -> GoalDecision:
    """The decision to keep a pair apart, with `never` in later clusterings too."""
    return _with_evidence(GoalDecision("never" if never else "apart", shown.pair), shown)


def merge_all(shown: Sequence[Proposal], probability: float) -> Plan:
    """Plans the merges of the pairs on a list, all of which have at least this merge probability. Where the list has
    both A with B and B with C, all three become one; pairs decided meanwhile are left out."""
    listed = [_as_listed(merge(one), probability) for one in shown]

    def plan(state: MergeState) -> Iterator[GoalDecision]:
        for decision in listed:
            first, second = (state.current_of(key) for key in decision.sides)
            if first and second and first != second and not state.decided(first, second):
                yield replace(decision, sides=(first, second))

    return plan


def refuse_all(shown: Sequence[Proposal], probability: float) -> Plan:
    """Plans the refusals of the pairs on a list, all of which have a lower merge probability than this; pairs decided
    meanwhile are left out."""
    listed = [_as_listed(refusal(one), probability) for one in shown]

    def plan(state: MergeState) -> Iterator[GoalDecision]:
        for decision in listed:
            both = all(key in state.current for key in decision.sides)
            if both and not state.decided(*decision.sides):
                yield decision

    return plan


def model_and_person(decisions: Sequence[GoalDecision]) -> list[tuple[bool, bool]]:
    """(model says yes, person merged) for each pair that the model answered on and a person decided; pairs that were
    decided as a list are left out, because nobody looked at them."""
    found = []
    for decision in decisions:
        evidence = decision.evidence or {}
        answer = model_says_yes(evidence.get("yes"), evidence.get("yes_reversed"))
        by_person = decision.author == "human" and decision.kind in ("merge", "apart", "never")
        if answer is not None and by_person and "at_once" not in evidence:
            found.append((answer, decision.kind == "merge"))
    return found


def _as_listed(decision: GoalDecision, probability: float) -> GoalDecision:
    """The decision as one on a list of pairs that a person decided at once, above or below a merge probability. It has
    no features: nobody looked at the pair itself, so the merge probability would learn from itself."""
    evidence = {key: value for key, value in (decision.evidence or {}).items() if key != "features"}
    return replace(decision, evidence={**evidence, "at_once": probability})


def _with_evidence(decision: GoalDecision, shown: Proposal) -> GoalDecision:
    evidence = shown.evidence
    return replace(
        decision,
        model=evidence.answer.model,
        probability=evidence.probability,
        evidence=evidence.as_json(),
    )
