"""Makes tables and sentences of comparisons and breakdowns, for the command line, screens and documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from engine.base.number_format import counted, is_few, points, with_minus
from engine.base.number_format import rate as format_rate
from engine.base.report_table import ReportColumn, ReportRow, ReportTable
from engine.base.sign import ANY_SIGN, Sign
from engine.base.statistics.ranking import SIGNIFICANCE_LEVEL
from engine.base.text import one_line
from engine.conversations.filters import Filter, parse_filter
from engine.questions.records import MEAN, CompletionRate
from engine.results.comparison.differences import (
    MAIN_QUESTIONS,
    AnswerChange,
    Breakdown,
    Comparison,
    Difference,
    Measure,
    Part,
    PeriodChange,
    Side,
    SignChange,
)

MAX_GOALS_LISTED = 12
"""Most differences of goals that a text lists; all significant ones are listed even if there are more."""

_SHARES: tuple[Measure, ...] = (*MAIN_QUESTIONS, "share of goal", "completion in goal")
"""Measures that are shares of conversations; the others are means."""

ENDED = "Ended: a score at or above the threshold; an open one counts on its side of it."
"""A note that explains the word `ended` below a table."""

FAILED = "Failed: of those whose outcome is known; where people judged the worst first, not the share of all."
"""A note on the column `failed` of a table."""

_MEASURE_NAMES: Mapping[Measure, str] = {
    "succeeded": "succeeded (verdicts)",
    "failed": "failed (imported outcomes)",
    "completion": "ended",
    "share of goal": "share of",
    "completion in goal": "ended in",
    "trouble in goal": "trouble in",
}
"""Names of measures that differ from their names in JSON; the label of the goal follows a name of a measure in
goals."""

_SIDE_NAME_CELLS = 60

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


def difference_cells(difference: Difference) -> tuple[str, str, str, str, str]:
    """Returns the name of a difference, its values on both sides, the change with its interval, and p."""
    return (
        _difference_name(difference),
        _format_value(difference, 0),
        _format_value(difference, 1),
        _format_change(difference),
        _format_p(difference),
    )


def _difference_name(difference: Difference) -> str:
    """Returns the name of the measure, with the label of the goal for a measure in a goal."""
    if difference.goal is None:
        return _MEASURE_NAMES.get(difference.measure, difference.measure)
    return f"{_MEASURE_NAMES[difference.measure]} “{difference.goal}”"


def _side_text(side: Side) -> str:
    """Returns the name of a side with its numbers of conversations and the share that ended."""
    rate = side.rate
    apparent, corrected = _format_rates(rate)
    counts = f"{counted(rate.conversations, 'conversation')}, {rate.scored:,} scored"
    ended = f", {apparent} ended" if rate.apparent is not None else ""
    correction = f", corrected {corrected}" if rate.corrected is not None else ""
    return f"{one_line(side.name, _SIDE_NAME_CELLS)}: {counts}{ended}{correction}"


def _format_value(difference: Difference, side: int) -> str:
    """Returns a measure on one side (0 or 1): a percentage, or a mean with its decimals."""
    value = difference.values[side]
    if difference.measure in _SHARES:
        return f"{100 * value:.1f}%"
    return with_minus(f"{value:,.{_DIGITS[difference.measure]}f}")


def _format_change(difference: Difference) -> str:
    """Returns a change with its 95% interval in brackets; changes of shares are in percentage points."""
    change = difference.change
    if difference.measure in _SHARES:
        return f"{points(change.value)} ({points(change.low)} to {points(change.high)})"
    digits = _DIGITS[difference.measure]
    value, low, high = (
        with_minus(f"{number:+,.{digits}f}") for number in (change.value, change.low, change.high)
    )
    return f"{value} ({low} to {high})"


def _format_p(difference: Difference) -> str:
    """Returns the corrected p value, `<.001` or `.034`, with a star where the difference is significant."""
    corrected = difference.corrected
    p = "<.001" if corrected < 0.001 else f"{corrected:.3f}".removeprefix("0")
    return f"{p}*" if difference.significant else p


def _format_rates(rate: CompletionRate) -> tuple[str, str]:
    """Returns the rate of ended conversations, and the corrected rate with its interval; a dash where it is unknown."""
    apparent = format_rate(rate.above, rate.scored)
    if rate.corrected is None:
        return apparent, "–"
    corrected = rate.corrected
    return (
        apparent,
        f"{100 * corrected.value:.0f}% ({100 * corrected.low:.0f} to {100 * corrected.high:.0f})",
    )


# Tables


def comparison_table(comparison: Comparison, most_goals: int | None = None) -> ReportTable:
    """Returns a table with a row for each difference and for each answer of a machine.

    Differences over all conversations come first, then significant ones of goals, then the other ones of goals. The
    details of a row have the filter that selects its conversations.

    Args:
        most_goals: Most differences of goals that are listed; significant ones always are. None lists all.
    """
    goals = [difference for difference in comparison.differences if difference.goal is not None]
    significant = [difference for difference in goals if difference.significant]
    others = [difference for difference in goals if not difference.significant]
    room = None if most_goals is None else max(0, most_goals - len(significant))
    overall = [difference for difference in comparison.differences if difference.goal is None]
    listed = [*overall, *significant, *others[:room]]
    columns = ("what", "A", "B", "change (95%)", "p")
    return ReportTable(
        "What differs between A and B; changes of shares in points",
        _columns(columns),
        (
            *(_difference_row(difference, comparison) for difference in listed),
            *map(_answer_row, comparison.answer_changes),
        ),
        tuple(_comparison_notes(comparison, len(goals), len(significant), len(others[:room]))),
    )


def _columns(titles: Sequence[str]) -> tuple[ReportColumn, ...]:
    """Returns columns with these titles; the first has texts, all others have figures."""
    return tuple(
        ReportColumn(title, "number" if index else "text") for index, title in enumerate(titles)
    )


def _difference_row(difference: Difference, comparison: Comparison) -> ReportRow:
    """Returns the row of a difference."""
    row_filter = comparison.sides[_side_to_read(difference)].filter
    if row_filter is not None and difference.goal is not None:
        goal = Filter().with_choice("goal", difference.goal)
        row_filter = str(Filter((*parse_filter(row_filter).terms, *goal.terms)))
    faint = tuple(1 + side for side in (0, 1) if is_few(difference.cases[side]))
    return ReportRow(difference_cells(difference), details={"filter": row_filter}, faint=faint)


def _side_to_read(difference: Difference) -> int:
    """Returns the side, 0 or 1, whose conversations show the difference best.

    For a share that succeeded or ended it is the lower side, which shows what went wrong; for the share that failed, or
    of a goal, the higher one; for a mean the second side, whichever is higher.
    """
    if difference.measure in ("failed", "share of goal"):
        return int(difference.change.value > 0)
    if difference.measure in _SHARES:
        return int(difference.change.value < 0)
    return 1


def _answer_row(change: AnswerChange) -> ReportRow:
    """Returns the row on how often an answer was given on both sides, corrected where that is possible on both."""
    first, second = change.shares
    name = f"{change.question}: {change.value} ({change.by}"
    if change.change is None:
        cells = (f"{name}, not corrected)", first.apparent_text, second.apparent_text)
        return ReportRow((*cells, "", ""), details={"filter": None})
    is_mean = change.value == MEAN
    values = (share.text.partition(" ")[0] for share in change.shares)
    ends = change.change.value, change.change.low, change.change.high
    value, low, high = (with_minus(f"{end:+.2f}") if is_mean else points(end) for end in ends)
    text = f"{value} ({low} to {high})"
    return ReportRow((f"{name}, corrected)", *values, text, ""), details={"filter": None})


def _comparison_notes(
    comparison: Comparison, goals: int, significant: int, others: int
) -> Iterator[str]:
    """Yields notes on how many goals were tested, and on how to read the table.

    Args:
        goals: Number of differences of goals.
        significant: Number of the significant ones, which are all listed.
        others: Number of the listed ones that are not significant.
    """
    yield from _doubts(comparison)
    if goals:
        sentence = f"{counted(significant, 'difference')} of goals found among {goals:,} tested"
        hidden = goals - significant - others
        yield f"{sentence}{f', {hidden:,} without one not listed' if hidden else ''}."
    if comparison.untested:
        yield f"{counted(comparison.untested, 'goal')} with too few conversations for a test."
    yield (
        f"Intervals 95%. p of what {_main_questions(comparison)} is that of its test alone,"
        " the others are corrected for the many tests; * below .05. Conversations count as independent."
    )
    if clauses := sign_clauses(comparison.sign_changes):
        yield f"B against A: {'; '.join(clauses)}."
    if comparison.answer_changes:
        yield (
            "Corrected: without the errors of what answered, as people's checks of it on both sides show them"
            " (`workbench ask PROJECT NAME --check`)."
        )
    yield ENDED


def _main_questions(comparison: Comparison) -> str:
    """Returns the verbs of the main questions that a comparison answers; `ended` where it answers none."""
    measures = [each.measure for each in comparison.differences if each.measure in MAIN_QUESTIONS]
    return " and of what ".join(
        "ended" if measure == "completion" else measure for measure in measures or ["completion"]
    )


def _doubts(result: Comparison | Breakdown) -> Iterator[str]:
    """Yields the doubt of the scores as a sentence; nothing where there is none."""
    if result.doubt:
        yield f"What ended: {result.doubt}."


def side_sentences(comparison: Comparison) -> list[str]:
    """Returns a sentence on each side, then one on the corrected change of the share that ended where it is known."""
    sentences = [
        f"{letter}  {_side_text(side)}" for letter, side in zip("AB", comparison.sides, strict=True)
    ]
    if comparison.corrected_change is not None:
        change = comparison.corrected_change
        sentences.append(
            f"Ended, without the errors of the scores: {points(change.value)} points from A to B"
            f" (95% interval {points(change.low)} to {points(change.high)})"
        )
    return sentences


def breakdown_table(
    breakdown: Breakdown, caption: str = "p corrected for all tests"
) -> ReportTable:
    """Returns a table with a row for each value of a field: the share that ended, and its change.

    The details of a row have the filter that selects its conversations.

    Args:
        caption: What the title says of the p values.
    """
    field = breakdown.field
    titles = (
        "conv.",
        "failed",
        "ended",
        "change in points",
        "p",
        "with signs",
        "scored",
        "corrected",
    )
    rows = [_completion_cells(part) for part in breakdown.parts]
    # columns that say nothing of any value are left out
    idle = {
        *(() if any(part.outcomes[1] for part in breakdown.parts) else ("failed",)),
        *(() if any(part.rate.corrected for part in breakdown.parts) else ("corrected",)),
    }
    shown = [title for title in titles if title not in idle]
    ended = 1 + shown.index("ended")
    return ReportTable(
        f"Ended by {field}; {caption}",
        _columns((field, *shown)),
        tuple(
            ReportRow(
                (part.value, *(cells[title] for title in shown)),
                details={"filter": part.filter},
                faint=(ended,) if is_few(part.rate.scored) else (),
            )
            for part, cells in zip(breakdown.parts, rows, strict=True)
        ),
        tuple(_breakdown_notes(breakdown)),
    )


def _completion_cells(part: Part) -> dict[str, str]:
    """Returns the cells of the row of a value of a field by the titles of their columns."""
    ended, corrected = _format_rates(part.rate)
    failed, known = part.outcomes
    return {
        "conv.": f"{part.rate.conversations:,}",
        "failed": f"{failed:,} of {known:,}" if known else "–",
        "ended": ended,
        "change in points": "" if part.change is None else _format_change(part.change),
        "p": "" if part.change is None else _format_p(part.change),
        # the first change is that of any sign; its last two counts are of this value
        "with signs": format_rate(*part.sign_changes[0].counts[2:]) if part.sign_changes else "–",
        "scored": f"{part.rate.scored:,}",
        "corrected": corrected,
    }


def sign_clauses(changes: Sequence[SignChange]) -> list[str]:
    """Returns the signs of trouble that significantly more or fewer conversations of the second side show, each with
    the shares of the second and of the first side."""
    clauses = []
    for change in changes:
        if change.corrected < SIGNIFICANCE_LEVEL:
            first, first_read, second, second_read = change.counts
            name = "signs of trouble" if change.sign == ANY_SIGN else f"“{Sign(change.sign).words}”"
            clauses.append(f"{name} in {second / second_read:.0%} against {first / first_read:.0%}")
    return clauses


def change_clauses(change: PeriodChange) -> list[str]:
    """Returns what differs between two periods: the significant differences, then the signs of trouble."""
    signs = sign_clauses(change.sign_changes)
    # signs say more than that there is more trouble, which is their sum
    differences = (each for each in change.differences if not signs or each.measure != "trouble")
    return [*map(_change_text, differences), *signs]


def _change_text(difference: Difference) -> str:
    """Returns a difference in words: the measure, whether it rose or fell, and both values."""
    name, first, last, *_ = difference_cells(difference)
    rose = difference.change.value > 0
    # standard scores mean nothing to a reader
    if difference.measure in ("trouble", "trouble in goal"):
        return f"{'more' if rose else 'less'} {name}"
    verb = "rose" if rose else "fell"
    return f"{name} {verb} from {first} to {last}"


def change_sentences(breakdown: Breakdown) -> list[str]:
    """Returns for each value which signs of trouble differ significantly from those of what it is compared with; for
    the last period all that differs."""
    last = breakdown.last_change
    return [
        f"{part.value} against {part.against}: {'; '.join(clauses)}."
        for part in breakdown.parts
        if (
            clauses := change_clauses(last)
            if last is not None and last.last == part.value
            else sign_clauses(part.sign_changes)
        )
    ]


def _breakdown_notes(breakdown: Breakdown) -> Iterator[str]:
    """Yields notes on what is not listed, and on how to read the table."""
    yield from _doubts(breakdown)
    yield from change_sentences(breakdown)
    values, conversations = breakdown.left_out
    if values:
        yield f"... {counted(values, 'further value')} with {counted(conversations, 'conversation')}"
    if breakdown.without:
        yield f"{counted(breakdown.without, 'conversation')} without a {breakdown.field}"
    if any(part.outcomes[1] for part in breakdown.parts):
        yield FAILED
    against = {part.against for part in breakdown.parts if part.change is not None}
    if against:
        against_name = next(iter(against)) if len(against) == 1 else "the one before"
        yield (
            f"Change: against {against_name}. Intervals 95%; p corrected for the many rows; * below .05."
        )
    if any(part.sign_changes for part in breakdown.parts):
        yield "With signs: the share with a sign of trouble. Signs named differ in share, corrected for the many tests."
    yield ENDED
