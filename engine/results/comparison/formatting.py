"""Comparisons as text."""

from __future__ import annotations

from engine.base.number_format import counted
from engine.base.text import one_line
from engine.questions.records.calibration import CompletionRate
from engine.results.comparison.records import (
    Breakdown,
    ClusteringComparison,
    Comparison,
    Difference,
    Measure,
    Part,
    Side,
)

MOST_GOALS = 8
"""Goals that a text lists without a significant difference; those with one are all listed."""
_SHARES: tuple[Measure, ...] = ("completion", "share of goal", "completion in goal")
COMPLETE = "Complete: a score at or above the threshold; a borderline one counts on its side of it."
_DIGITS = {"success": 2, "characters": 0, "turns": 1, "leaves": 1, "entropy": 2}


def comparison_lines(found: Comparison) -> list[str]:
    """Both sides, then every measure with its change, its interval and its p value, significant goals first."""
    lines = [f"{letter}  {side_text(side)}" for letter, side in zip("AB", found.sides, strict=True)]
    if found.corrected_change is not None:
        change = found.corrected_change
        lines.append(
            f"   completion without the errors of the scores: {points(change.value)}"
            f" ({points(change.low)} to {points(change.high)}) points from A to B"
        )
    lines.append("")
    overall = [one for one in found.differences if one.goal is None]
    goals = [one for one in found.differences if one.goal is not None]
    lines += [_line(one.measure, one) for one in overall]
    told = [one for one in goals if one.significant]
    rest = [one for one in goals if not one.significant]
    if goals:
        lines += [
            "",
            f"{counted(len(told), 'difference')} of goals found among {len(goals)} tested",
        ]
    lines += [_line(goal_name(one), one) for one in told + rest[: max(0, MOST_GOALS - len(told))]]
    if len(goals) > max(MOST_GOALS, len(told)):
        lines.append(
            f"... {len(goals) - max(MOST_GOALS, len(told))} more without one (all with --json)"
        )
    if found.untested:
        lines.append(f"{counted(found.untested, 'goal')} with too few conversations for a test")
    return [*lines, "", *notes(found)]


def notes(found: Comparison) -> list[str]:
    """How the table is to be read, and what so many conversations can show."""
    lines = [
        "Intervals 95%. p by Holm's method over all tests of the table; * below .05."
        " Conversations count as independent."
    ]
    if found.least is not None:
        lines.append(
            f"So many conversations show a change of the completion rate of {100 * found.least:.1f}"
            " points or more with 80% probability."
        )
    return [*lines, COMPLETE]


def breakdown_lines(found: Breakdown) -> list[str]:
    """The values of a field, each with its completion rate and its change; where there are response trees, then each
    with its entropy."""
    lines = [
        f"{'by ' + found.field:<28} {'conv.':>8} {'scored':>8}  complete          corrected         change in points"
    ]
    lines += [_part(part) for part in found.parts]
    if has_trees(found):
        lines += ["", f"{'by ' + found.field:<28} {'trees':>8} {'entropy':>8}  change in bits"]
        lines += [_entropy(part) for part in found.parts]
    return [*lines, *breakdown_notes(found)]


def breakdown_notes(found: Breakdown) -> list[str]:
    """What is not listed, and how the table is to be read."""
    lines = []
    values, conversations = found.left_out
    if values:
        lines.append(
            f"... {counted(values, 'further value')} with {counted(conversations, 'conversation')}"
        )
    if found.without:
        lines.append(f"{counted(found.without, 'conversation')} without a {found.field}")
    against = {part.against for part in found.parts if part.change is not None}
    if against:
        what = next(iter(against)) if len(against) == 1 else "the one before"
        lines.append(
            f"Change: against {what}. Intervals 95%; p by Holm's method over all rows; * below .05."
        )
    return [*lines, COMPLETE]


def has_trees(found: Breakdown) -> bool:
    """Whether any of the values has conversations with a response tree."""
    return any(part.trees for part in found.parts)


def entropy_text(part: Part) -> str:
    """The mean entropy in bits; a dash where there is none."""
    return "–" if part.entropy is None else f"{part.entropy:.2f}"


def clustering_lines(found: ClusteringComparison) -> list[str]:
    """The groups of the first clustering with what became of their conversations in the second."""
    lines = [
        f"clusterings {found.first} and {found.second}: {counted(found.conversations, 'conversation')}"
        f" in both, adjusted Rand index {found.adjusted_rand:.2f}",
        f"{'group':<32} {'size':>7} {'Jaccard':>7}  flows to",
    ]
    for group in found.groups:
        flows = [
            f"{one_line(label, 28) if label else 'no group'} {count:,}"
            for label, count in group.flows[:3]
        ]
        more = len(group.flows) - len(flows)
        lines.append(
            f"{one_line(group.label, 32):<32} {group.size:>7,} {group.jaccard:>7.2f}"
            f"  {' · '.join(flows)}" + (f" · {more} more" if more > 0 else "")
        )
    return lines


def goal_name(one: Difference) -> str:
    """A measure of a goal, with its label."""
    kind = "share of" if one.measure == "share of goal" else "completion in"
    return f"{kind} “{one.goal}”"


def value_text(one: Difference, side: int) -> str:
    """The measure on a side: a share in percent, or a mean."""
    value = one.values[side]
    if one.measure in _SHARES:
        return f"{100 * value:.1f}%"
    return f"{value:,.{_DIGITS[one.measure]}f}"


def change_text(one: Difference) -> str:
    """The change with its interval: of a share in points."""
    if one.measure in _SHARES:
        return f"{points(one.change.value)} ({points(one.change.low)} to {points(one.change.high)})"
    digits = _DIGITS[one.measure]
    value, low, high = (
        f"{number:+,.{digits}f}".replace("-", "−")
        for number in (one.change.value, one.change.low, one.change.high)
    )
    return f"{value} ({low} to {high})"


def p_text(one: Difference) -> str:
    """The corrected p value, with a star where the difference is significant."""
    p = "<.001" if one.corrected < 0.001 else f"{one.corrected:.3f}".removeprefix("0")
    return f"{p}*" if one.significant else p


def points(share: float) -> str:
    """A difference of shares in points of percent with its sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def rate_text(rate: CompletionRate) -> tuple[str, str]:
    """The rate of complete conversations, and the corrected one with its interval; a dash where there is none."""
    apparent = "–" if rate.apparent is None else f"{100 * rate.apparent:.1f}%"
    if rate.corrected is None:
        return apparent, "–"
    found = rate.corrected
    return apparent, f"{100 * found.value:.0f}% ({100 * found.low:.0f} to {100 * found.high:.0f})"


def side_text(side: Side) -> str:
    """A side with its numbers of conversations and its completion rate."""
    rate = side.rate
    apparent, corrected = rate_text(rate)
    counts = f"{counted(rate.conversations, 'conversation')}, {rate.scored:,} scored"
    complete = f", {apparent} complete" if rate.apparent is not None else ""
    right = f", corrected {corrected}" if rate.corrected is not None else ""
    return f"{one_line(side.name, 60)}: {counts}{complete}{right}"


def _line(name: str, one: Difference) -> str:
    needed = f"; needs {one.needed:,} on each side" if one.needed is not None else ""
    return (
        f"{one_line(name, 44):<44} {value_text(one, 0):>8} {value_text(one, 1):>8}"
        f"  {change_text(one):<28} p {p_text(one)}{needed}"
    )


def _part(part: Part) -> str:
    apparent, corrected = rate_text(part.rate)
    change = f"{change_text(part.change)}  p {p_text(part.change)}" if part.change else ""
    return (
        f"{one_line(part.value, 28):<28} {part.rate.conversations:>8,} {part.rate.scored:>8,}"
        f"  {apparent:<16}  {corrected:<16}  {change}"
    ).rstrip()


def _entropy(part: Part) -> str:
    change = part.entropy_change
    told = "" if change is None else f"{change_text(change)}  p {p_text(change)}"
    return (
        f"{one_line(part.value, 28):<28} {part.trees:>8,} {entropy_text(part):>8}  {told}".rstrip()
    )
