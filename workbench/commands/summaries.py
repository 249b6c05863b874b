"""What several commands end with: the counts of a project and its sets of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from engine.base.number_format import counted, probability
from engine.completeness.records import DecisionRule, ScoreSet
from engine.completeness.service.sets import ScoreSets, in_force, name_of, reliability
from engine.opener.conversations import Counts
from workbench.narration import narrate


def headline(counts: Counts, rule: DecisionRule) -> str:
    """Returns the counts, and on a second line where there are scores `rate_line`."""
    text = (
        f"{counted(counts.conversations, 'conversation')}, {counted(counts.messages, 'message')},"
        f" {counted(counts.duplicates, 'duplicate')}, {counts.quarantined:,} quarantined"
    )
    return f"{text}\n{rate_line(counts, rule)}" if counts.scored else text


def rate_line(counts: Counts, rule: DecisionRule) -> str:
    """Returns the rate of ended conversations with its interval, what counts as one, how many are near it, and
    coverage.
    """
    rate = counts.rate
    if rate is None:
        return "nothing is scored"
    near = f"; {counts.borderline:,} within {probability(rule.band)} of it" * bool(rule.band)
    return (
        f"{rate.value:.0%} ended ({rate.low:.0%} to {rate.high:.0%}): {rate.part:,} of {rate.of:,}"
        f" have a score of {probability(rule.threshold)} or more{near}"
        f" ({counts.scored / counts.conversations:.0%} scored)"
    )


def counts_json(counts: Counts, rule: DecisionRule) -> dict[str, Any]:
    """Returns the counts as JSON, with the coverage of the scores, the rate of ended conversations and the rule
    behind it.
    """
    coverage = counts.scored / counts.conversations if counts.conversations else None
    rate = counts.rate
    return {
        "counts": asdict(counts),
        "scored": counts.scored,
        "coverage": coverage,
        "rate": rate and {"value": rate.value, "low": rate.low, "high": rate.high},
        "rule": asdict(rule),
    }


def set_text(score_set: ScoreSet, sets: Sequence[ScoreSet]) -> str:
    """Returns one set: its name, how much it scores and how far it can be relied on."""
    scored = counted(score_set.scored, "conversation")
    return f"{name_of(score_set)}, {scored}; {reliability(score_set, sets).test}"


def set_lines(sets: Sequence[ScoreSet]) -> list[str]:
    """Returns the set in force, what is doubtful about it and what would help, and how many others there are."""
    set_in_force = in_force(sets)
    if set_in_force is None:
        return []
    judgment = reliability(set_in_force, sets)
    lines = [f"scores in force: set {set_in_force.number}, {set_text(set_in_force, sets)}"]
    lines += [f"  {kind}" for kind in judgment.kinds]
    lines += [f"  {judgment.doubt}"] if judgment.doubt else []
    lines += [f"  what would help: {judgment.remedy}"] if judgment.remedy else []
    others = len(sets) - 1
    if others:
        lines.append(f"  {counted(others, 'other set')} (`workbench scores PROJECT`)")
    return lines


def narrate_set(score_sets: ScoreSets) -> None:
    """Says on standard error which set of scores states and probabilities come from; nothing without scores."""
    set_in_force = in_force(score_sets.all())
    if set_in_force is not None:
        narrate(f"Scores of set {set_in_force.number}, {name_of(set_in_force)}.")


def set_json(score_set: ScoreSet, sets: Sequence[ScoreSet]) -> dict[str, Any]:
    """Returns a set as JSON, with what is doubtful about it and what would help."""
    judgment = reliability(score_set, sets)
    return {
        **asdict(score_set),
        "doubt": judgment.doubt or None,
        "remedy": judgment.remedy or None,
    }


def sets_json(sets: Sequence[ScoreSet]) -> dict[str, Any]:
    """Returns the set in force as JSON, and the number of sets."""
    set_in_force = in_force(sets)
    return {"in_force": set_in_force and set_json(set_in_force, sets), "score_sets": len(sets)}
