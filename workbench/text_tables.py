"""Makes lines of text and JSON of results: tables, the counts of a project, and its sets of scores, which
`narrate_set` also names on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len

from engine.base.number_format import counted, figure_range, probability
from engine.base.report_table import (
    Cell,
    CellKind,
    ReportColumn,
    ReportRow,
    ReportTable,
    format_cell,
)
from engine.base.statistics.intervals import Interval
from engine.base.text import one_line
from engine.completeness.records import DecisionRule, ScoreSet
from engine.completeness.service.sets import ScoreSets, in_force, name_of, reliability
from engine.opener.conversations import Counts
from workbench.narration import narrate

UNKNOWN_FIGURE = "-"


def table_lines(
    table: ReportTable,
    *,
    max_name_length: int = 200,
    indent: str = "",
    with_chance_row: bool = False,
) -> list[str]:
    """Returns a table as lines of text: the titles of its columns, then a line for each row with its note.

    Text is aligned to the left, figures to the right. Widths are counted in cells of the terminal. Both ends of an
    interval follow its figure in a column of their own.

    Args:
        table: The table; its title and its own notes are not printed.
        max_name_length: Most characters that are printed of the name of a row, which is its first cell.
        indent: Spaces before each line.
        with_chance_row: Whether a last line says what guessing gives in each column.
    """
    rows = list(table.rows)
    if with_chance_row:
        rows.append(ReportRow(("by chance", *(column.chance for column in table.columns[1:]))))
    text_columns: list[list[str]] = []
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in rows]
        texts = [
            UNKNOWN_FIGURE if cell is None else format_cell(column.kind, cell) for cell in cells
        ]
        if index == 0:
            texts = [one_line(name, max_name_length) for name in texts]
        text_columns.append(_aligned([column.text_title or column.title, *texts], column))
        if column.has_intervals and column.ends_in_text:
            text_columns.append(_aligned(["95%", *map(_interval_text, cells)], column))
    notes = ["", *(row.note for row in rows)]  # The line of titles has no note.
    return [
        f"{indent}{'  '.join(texts)}".rstrip() for texts in zip(*text_columns, notes, strict=True)
    ]


def fact_lines(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Returns a line for each fact, which is a name with a text."""
    return [f"{name:<17}  {text}" for name, text in facts]


def cell_lines(
    columns: Sequence[tuple[str, CellKind]], rows: Iterable[Sequence[Cell]]
) -> list[str]:
    """Returns rows of cells as lines of text, for a table that only the command line prints.

    Args:
        columns: The title of each column, and the kind of its cells.
        rows: The cells of each row, one for each column.
    """
    report_columns = tuple(ReportColumn(title, kind) for title, kind in columns)
    report_rows = tuple(ReportRow(tuple(row)) for row in rows)
    return table_lines(ReportTable("", report_columns, report_rows))


def _interval_text(cell: Cell) -> str:
    """Returns both ends of an interval; `UNKNOWN_FIGURE` for None, and nothing for a cell without an interval."""
    if isinstance(cell, Interval):
        return figure_range(cell.low, cell.high)
    return UNKNOWN_FIGURE if cell is None else ""


def _aligned(texts: Sequence[str], column: ReportColumn) -> list[str]:
    """Returns the texts of a column padded to the same width; text is aligned left, figures right."""
    width = max(map(cell_len, texts))
    pads = [" " * (width - cell_len(text)) for text in texts]
    if column.kind == "text":
        return [text + pad for text, pad in zip(texts, pads, strict=True)]
    return [pad + text for text, pad in zip(texts, pads, strict=True)]


def headline(counts: Counts, rule: DecisionRule) -> str:
    """Returns a line with the counts and, where there are scores, `rate_line` below it."""
    text = (
        f"{counted(counts.conversations, 'conversation')}, {counted(counts.messages, 'message')},"
        f" {counted(counts.duplicates, 'duplicate')}, {counts.quarantined:,} quarantined"
    )
    return f"{text}\n{rate_line(counts, rule)}" if counts.scored else text


def rate_line(counts: Counts, rule: DecisionRule) -> str:
    """Returns a line on the rate of ended conversations: its interval, the rule behind it, and the coverage."""
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
    """Returns the counts as JSON values, with the coverage of the scores, the rate of ended ones and its rule."""
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
    """Returns a set in words: its name, its number of scores, and how reliable they are."""
    scored = counted(score_set.scored, "conversation")
    return f"{name_of(score_set)}, {scored}; {reliability(score_set, sets).test}"


def set_lines(sets: Sequence[ScoreSet]) -> list[str]:
    """Returns lines on the set in force, on doubts about it and what would help, and on the number of other sets."""
    set_in_force = in_force(sets)
    if set_in_force is None:
        return []
    judgment = reliability(set_in_force, sets)
    lines = [f"scores in force: set {set_in_force.number}, {set_text(set_in_force, sets)}"]
    lines += [f"  {kind}" for kind in judgment.kinds]
    if judgment.doubt:
        lines.append(f"  {judgment.doubt}")
    if judgment.remedy:
        lines.append(f"  what would help: {judgment.remedy}")
    others = len(sets) - 1
    if others:
        lines.append(f"  {counted(others, 'other set')} (`workbench scores PROJECT`)")
    return lines


def narrate_set(score_sets: ScoreSets) -> None:
    """Prints on standard error from which set of scores states and probabilities come; nothing without scores."""
    set_in_force = in_force(score_sets.all())
    if set_in_force is not None:
        narrate(f"Scores of set {set_in_force.number}, {name_of(set_in_force)}.")


def set_json(score_set: ScoreSet, sets: Sequence[ScoreSet]) -> dict[str, Any]:
    """Returns a set as JSON values, with doubts about it and what would help."""
    judgment = reliability(score_set, sets)
    return {
        **asdict(score_set),
        "doubt": judgment.doubt or None,
        "remedy": judgment.remedy or None,
    }


def sets_json(sets: Sequence[ScoreSet]) -> dict[str, Any]:
    """Returns the set in force, and the number of sets, as JSON values."""
    set_in_force = in_force(sets)
    return {"in_force": set_in_force and set_json(set_in_force, sets), "score_sets": len(sets)}
