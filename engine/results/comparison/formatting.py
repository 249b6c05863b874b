"""Comparisons as lines of text and as blocks of a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from engine.base.number_format import counted, is_few
from engine.base.number_format import rate as format_rate
from engine.base.report_table import ReportTable, text_table
from engine.base.text import one_line
from engine.questions.records import CompletionRate
from engine.results.comparison.records import (
    Breakdown,
    ClusteringComparison,
    Comparison,
    Difference,
    Measure,
    Part,
    Side,
)
from engine.results.document import Block, Paragraph, Ranges, ValueRange

MAX_GOALS_IN_TEXT = 8
"""Most differences of goals that a text lists, those without a significant one; significant ones are all listed."""

MAX_GOALS_IN_DOCUMENT = 12
"""The same in a document."""

MAX_EXAMPLES = 4
"""Most differences of which conversations are listed."""

MAX_CHART_ROWS = 20
"""Most changes that a chart shows."""

_SHARES: tuple[Measure, ...] = ("completion", "share of goal", "completion in goal")
"""Measures that are shares of conversations; the others are means."""

ENDED = "Ended: a score at or above the threshold; an open one counts on its side of it."
"""Explains the word to a reader of a rate."""

_MEASURE_NAMES: Mapping[Measure, str] = {
    "completion": "ended",
    "share of goal": "share of",
    "completion in goal": "ended in",
    "trouble in goal": "trouble in",
}
"""How measures are called where that differs from their value in JSON; those of a goal are followed by its label."""

_SIDE_NAME_CELLS = 60
"""Most cells of the terminal for the name of a side."""

_VALUE_CELLS = 28
"""Width of the column of values of a field in text, in cells; the head of the column is padded to it too."""

_MAX_FLOWS = 3
"""Most groups of the other clustering that are listed for one group."""

_DIGITS = {
    "trouble": 2,
    "trouble in goal": 2,
    "success": 2,
    "characters": 0,
    "turns": 1,
    "leaves": 1,
    "entropy": 2,
}
"""Decimals of the means."""


# Cells, which text, screens and documents arrange each in their own way


def difference_cells(difference: Difference) -> tuple[str, str, str, str, str, str]:
    """Returns the name of a difference, its values on both sides, the change with its interval, p, and the cases that
    each side would need (empty where that is not said)."""
    return (
        difference_name(difference),
        _value(difference, 0),
        _value(difference, 1),
        _change(difference),
        _p(difference),
        "" if difference.needed is None else f"{difference.needed:,}",
    )


def completion_cells(part: Part) -> tuple[str, str, str, str, str, str, str]:
    """Returns a value of a field, its numbers of conversations and of scored ones, the share that ended, the corrected
    rate, the change and its p; the last two are empty where nothing was tested."""
    return (
        part.value,
        f"{part.rate.conversations:,}",
        f"{part.rate.scored:,}",
        *_rates(part.rate),
        *_change_and_p(part.change),
    )


def entropy_cells(part: Part) -> tuple[str, str, str, str, str]:
    """Returns a value of a field, its number of conversations with a tree, their mean entropy in bits (a dash where
    there is none), the change and its p."""
    entropy = "–" if part.entropy is None else f"{part.entropy:.2f}"
    return part.value, f"{part.trees:,}", entropy, *_change_and_p(part.entropy_change)


def difference_name(difference: Difference) -> str:
    """Returns the measure, with the label of the goal where it is one of a goal."""
    if difference.goal is None:
        return _MEASURE_NAMES.get(difference.measure, difference.measure)
    return f"{_MEASURE_NAMES[difference.measure]} “{difference.goal}”"


def side_text(side: Side) -> str:
    """Returns a side with its numbers of conversations and the share that ended."""
    rate = side.rate
    apparent, corrected = _rates(rate)
    counts = f"{counted(rate.conversations, 'conversation')}, {rate.scored:,} scored"
    ended = f", {apparent} ended" if rate.apparent is not None else ""
    correction = f", corrected {corrected}" if rate.corrected is not None else ""
    return f"{one_line(side.name, _SIDE_NAME_CELLS)}: {counts}{ended}{correction}"


def has_trees(breakdown: Breakdown) -> bool:
    """Whether any of the values has conversations with a response tree."""
    return any(part.trees for part in breakdown.parts)


def _value(difference: Difference, side: int) -> str:
    """Returns a measure on one side (0 or 1): a percentage, or a mean with its decimals."""
    value = difference.values[side]
    if difference.measure in _SHARES:
        return f"{100 * value:.1f}%"
    return f"{value:,.{_DIGITS[difference.measure]}f}"


def _change(difference: Difference) -> str:
    """Returns a change with its 95% interval in brackets; of shares in points of percent."""
    change = difference.change
    if difference.measure in _SHARES:
        return f"{_points(change.value)} ({_points(change.low)} to {_points(change.high)})"
    digits = _DIGITS[difference.measure]
    value, low, high = (
        f"{number:+,.{digits}f}".replace("-", "−")
        for number in (change.value, change.low, change.high)
    )
    return f"{value} ({low} to {high})"


def _p(difference: Difference) -> str:
    """Returns the corrected p value, `<.001` or `.034`, with a star where the difference is significant."""
    corrected = difference.corrected
    p = "<.001" if corrected < 0.001 else f"{corrected:.3f}".removeprefix("0")
    return f"{p}*" if difference.significant else p


def _change_and_p(change: Difference | None) -> tuple[str, str]:
    """Returns a change and its p; two empty texts where nothing was tested."""
    return ("", "") if change is None else (_change(change), _p(change))


def _points(share: float) -> str:
    """Returns a difference of shares in points of percent with its sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def _rates(rate: CompletionRate) -> tuple[str, str]:
    """Returns the rate of ended conversations, and the corrected one with its interval; a dash where there is
    none."""
    apparent = format_rate(rate.above, rate.scored)
    if rate.corrected is None:
        return apparent, "–"
    corrected = rate.corrected
    return (
        apparent,
        f"{100 * corrected.value:.0f}% ({100 * corrected.low:.0f} to {100 * corrected.high:.0f})",
    )


# Lines of text


def comparison_lines(comparison: Comparison) -> list[str]:
    """Returns both sides, then every measure with its change, its interval and its p, significant goals first."""
    lines = [
        f"{letter}  {side_text(side)}" for letter, side in zip("AB", comparison.sides, strict=True)
    ]
    if comparison.corrected_change is not None:
        change = comparison.corrected_change
        lines.append(
            f"   ended, without the errors of the scores: {_points(change.value)}"
            f" ({_points(change.low)} to {_points(change.high)}) points from A to B"
        )
    overall, significant, others = _split_differences(comparison)
    goals = len(significant) + len(others)
    lines += ["", *map(_difference_line, overall)]
    if goals:
        lines += [
            "",
            f"{counted(len(significant), 'difference')} of goals found among {goals} tested",
        ]
    listed = [*significant, *others[: max(0, MAX_GOALS_IN_TEXT - len(significant))]]
    lines += map(_difference_line, listed)
    if goals > len(listed):
        lines.append(f"... {goals - len(listed)} more without one (all with --json)")
    if comparison.untested:
        lines.append(
            f"{counted(comparison.untested, 'goal')} with too few conversations for a test"
        )
    return [*lines, "", *comparison_notes(comparison)]


def comparison_notes(comparison: Comparison) -> list[str]:
    """Returns how the table is to be read, and what so many conversations can show."""
    lines = [
        "Intervals 95%. p by Holm's method over all tests of the table; * below .05."
        " Conversations count as independent."
    ]
    if comparison.least is not None:
        lines.append(
            "With so many conversations a change of the share that ended is found with 80% probability"
            f" from {100 * comparison.least:.1f} points on."
        )
    return [*lines, ENDED]


def breakdown_lines(breakdown: Breakdown) -> list[str]:
    """Returns the values of a field, each with the share that ended and its change; then, where there are response
    trees, each with its entropy."""
    field = f"{'by ' + breakdown.field:<{_VALUE_CELLS}}"
    lines = [
        f"{field} {'conv.':>8} {'scored':>8}  ended             corrected         change in points",
        *map(_completion_line, breakdown.parts),
    ]
    if has_trees(breakdown):
        lines += ["", f"{field} {'trees':>8} {'entropy':>8}  change in bits"]
        lines += map(_entropy_line, breakdown.parts)
    return [*lines, *breakdown_notes(breakdown)]


def breakdown_notes(breakdown: Breakdown) -> list[str]:
    """Returns what is not listed, and how the table is to be read."""
    lines = []
    values, conversations = breakdown.left_out
    if values:
        lines.append(
            f"... {counted(values, 'further value')} with {counted(conversations, 'conversation')}"
        )
    if breakdown.without:
        lines.append(f"{counted(breakdown.without, 'conversation')} without a {breakdown.field}")
    against = {part.against for part in breakdown.parts if part.change is not None}
    if against:
        against_name = next(iter(against)) if len(against) == 1 else "the one before"
        lines.append(
            f"Change: against {against_name}. Intervals 95%; p by Holm's method over all rows; * below .05."
        )
    return [*lines, ENDED]


def clustering_lines(comparison: ClusteringComparison) -> list[str]:
    """Returns the groups of the first clustering with what became of their conversations in the second."""
    lines = [
        f"clusterings {comparison.first} and {comparison.second}:"
        f" {counted(comparison.conversations, 'conversation')}"
        f" in both, adjusted Rand index {comparison.adjusted_rand:.2f}",
        f"{'group':<32} {'size':>7} {'Jaccard':>7}  flows to",
    ]
    for group in comparison.groups:
        flows = [
            f"{one_line(label, 28) if label else 'no group'} {count:,}"
            for label, count in group.flows[:_MAX_FLOWS]
        ]
        more = len(group.flows) - len(flows)
        lines.append(
            f"{one_line(group.label, 32):<32} {group.size:>7,} {group.jaccard:>7.2f}"
            f"  {' · '.join(flows)}" + (f" · {more} more" if more > 0 else "")
        )
    return lines


def _split_differences(
    comparison: Comparison,
) -> tuple[list[Difference], list[Difference], list[Difference]]:
    """Returns the differences over all conversations, the significant ones of goals, and the other ones of goals."""
    goals = [difference for difference in comparison.differences if difference.goal is not None]
    return (
        [difference for difference in comparison.differences if difference.goal is None],
        [difference for difference in goals if difference.significant],
        [difference for difference in goals if not difference.significant],
    )


def _difference_line(difference: Difference) -> str:
    """Returns a difference as a line of the table in text."""
    name, first, second, change, p, needed = difference_cells(difference)
    needs = f"; needs {needed} on each side" if needed else ""
    return f"{one_line(name, 44):<44} {first:>8} {second:>8}  {change:<28} p {p}{needs}"


def _completion_line(part: Part) -> str:
    """Returns the share that ended of a value of a field as a line of the table in text."""
    value, conversations, scored, apparent, corrected, change, p = completion_cells(part)
    tested = f"{change}  p {p}" if change else ""
    return (
        f"{one_line(value, _VALUE_CELLS):<{_VALUE_CELLS}} {conversations:>8} {scored:>8}"
        f"  {apparent:<16}  {corrected:<16}  {tested}"
    ).rstrip()


def _entropy_line(part: Part) -> str:
    """Returns the entropy of a value of a field as a line of the table in text."""
    value, trees, entropy, change, p = entropy_cells(part)
    tested = f"{change}  p {p}" if change else ""
    return f"{one_line(value, _VALUE_CELLS):<{_VALUE_CELLS}} {trees:>8} {entropy:>8}  {tested}".rstrip()


# Blocks of a document


def comparison_blocks(comparison: Comparison, *, projects: bool) -> Iterator[Block]:
    """Yields the sides, and what differs with intervals and tests, as a table and a chart.

    Args:
        projects: Whether the sides are two projects; they are then named without their folders, which a reader of the
            document does not know.
    """
    for letter, side in zip("AB", comparison.sides, strict=True):
        shown = Side(Path(side.name).name, side.filter, side.rate) if projects else side
        yield Paragraph(f"{letter}: {side_text(shown)}.")
    if comparison.corrected_change is not None:
        change = comparison.corrected_change
        yield Paragraph(
            f"Ended, without the errors of the scores: {_points(change.value)} points from A to B"
            f" (95% interval {_points(change.low)} to {_points(change.high)})."
        )
    overall, significant, others = _split_differences(comparison)
    goals = len(significant) + len(others)
    room = max(0, MAX_GOALS_IN_DOCUMENT - len(significant))
    listed = [*overall, *significant, *others[:room]]
    yield text_table(
        "What differs between A and B; changes of shares in points, p corrected for all tests",
        ("what", "A", "B", "change (95% interval)", "p", "needed on each side"),
        tuple(map(difference_cells, listed)),
        (1, 2, 3, 4, 5),
        [
            (row, 1 + side)
            for row, difference in enumerate(listed)
            for side in (0, 1)
            if is_few(difference.cases[side])
        ],
    )
    yield from _chart(
        "Changes from A to B in points, with 95% intervals",
        ((difference_name(difference), difference) for difference in listed),
    )
    if goals:
        unlisted = len(others) - len(others[:room])
        sentences = [
            f"{counted(len(significant), 'difference')} of goals found among {goals:,} tested."
        ]
        if unlisted:
            sentences.append(f"{unlisted:,} more tests are not listed.")
        if comparison.untested:
            sentences.append(
                f"{counted(comparison.untested, 'goal')} with too few conversations for a test."
            )
        yield Paragraph(" ".join(sentences))
    yield from map(Paragraph, comparison_notes(comparison))


def breakdown_blocks(breakdown: Breakdown) -> Iterator[Block]:
    """Yields the values of a field with what differs, as tables and a chart."""
    yield from breakdown_tables(breakdown, f"by {breakdown.field}; p corrected for all tests")
    yield from _chart(
        f"Changes of the share that ended by {breakdown.field} in points, with 95% intervals",
        ((part.value, part.change) for part in breakdown.parts if part.change is not None),
    )
    yield from map(Paragraph, breakdown_notes(breakdown))


def breakdown_tables(breakdown: Breakdown, caption: str) -> Iterator[Block]:
    """Yields the values of a field with the share that ended, and with uncertainty where there are response trees, each
    with the changes."""
    field = breakdown.field
    yield _table(
        f"Ended {caption}",
        (field, "conversations", "scored", "ended", "corrected", "change in points", "p"),
        map(completion_cells, breakdown.parts),
        [(row, 3) for row, part in enumerate(breakdown.parts) if is_few(part.rate.scored)],
    )
    if has_trees(breakdown):
        yield _table(
            f"Uncertainty {caption}",
            (field, "with a response tree", "mean entropy in bits", "change in bits", "p"),
            map(entropy_cells, breakdown.parts),
        )


def clear_examples(comparison: Comparison | Breakdown) -> list[tuple[str, Difference]]:
    """Returns the clearest significant differences that have conversations to read, each with what they are called."""
    if isinstance(comparison, Breakdown):
        labelled = [
            (part.value if part.change.examples_in else part.against, part.change)
            for part in comparison.parts
            if part.change is not None
        ]
    else:
        labelled = [
            (f"{difference_name(difference)}, {'AB'[difference.examples_in]}", difference)
            for difference in comparison.differences
        ]
    clear = [
        (label, difference)
        for label, difference in labelled
        if difference.significant and difference.examples
    ]

    def by_p(labelled_difference: tuple[str, Difference]) -> float:
        """Returns the p value, by which the clearest come first."""
        _, difference = labelled_difference
        return difference.p

    return sorted(clear, key=by_p)[:MAX_EXAMPLES]


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[tuple[str, ...]],
    faint: Sequence[tuple[int, int]] = (),
) -> ReportTable:
    """Returns a table in which all columns but the first are numbers; `faint` as in `text_table`."""
    return text_table(caption, heads, rows, range(1, len(heads)), faint)


def _chart(title: str, labelled: Iterable[tuple[str, Difference]]) -> Iterator[Block]:
    """Yields the changes of shares as a chart, in points of percent; measures of other units would need other axes.

    Args:
        labelled: Differences with the label that each has in the chart.
    """
    share_changes = [
        (label, difference.change)
        for label, difference in labelled
        if difference.measure in _SHARES
    ]
    if share_changes:
        yield Ranges(
            title,
            tuple(
                ValueRange(
                    label,
                    low=100 * change.low,
                    value=100 * change.value,
                    high=100 * change.high,
                    text=_points(change.value),
                )
                for label, change in share_changes[:MAX_CHART_ROWS]
            ),
        )
