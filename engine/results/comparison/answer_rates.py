"""Tells how often each answer to a question was given, by the values of a field."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from engine.base.errors import NotYet, UsageError
from engine.base.report_table import Cell, ReportColumn, ReportRow, ReportTable
from engine.base.statistics.intervals import Z95, Interval, wilson
from engine.conversations.filters import is_number
from engine.questions.question import PEOPLE, Question
from engine.questions.tables import answers, machine_answers


def answer_rates(
    conn: sqlite3.Connection,
    question: Question,
    members: Mapping[str, Collection[int]],
    field: str,
) -> ReportTable:
    """Returns a table with a row for each value of a field and each answerer: the people, or a machine.

    A row has the share of each answer with its Wilson interval and, where answers are numbers, their mean with its
    normal interval. The errors of machines are not corrected.

    Args:
        members: Ids of conversations by the value of the field, in the order of the rows.
        field: Name of the field, which is the title of the first column.

    Raises:
        UsageError: The answers are texts.
        NotYet: Nobody has answered.
    """
    if question.kind == "text":
        raise UsageError(f"Answers to {question.name} are texts.", "`answers` lists them.")
    people = answers.of_question(conn, question.name)
    values_by_answerer = {
        PEOPLE: {key: value for key, (value, _) in people.items()},
        **machine_answers.values_by_name(conn, question.name, [PEOPLE]),
    }
    values_by_answerer = {by: by_id for by, by_id in values_by_answerer.items() if by_id}
    if not values_by_answerer:
        raise NotYet(
            f"Nobody has answered {question.name}.", f"`workbench ask PROJECT {question.name}`"
        )
    has_numbers = _has_numbers(question)
    columns = [
        ReportColumn(field, "text", "value"),
        ReportColumn("by", "text", "by"),
        ReportColumn("answered", "count", "answered"),
    ]
    if has_numbers:
        columns.append(ReportColumn("mean", "interval", "mean"))
    columns += [
        ReportColumn(answer, "interval", answer, ends_in_text=not has_numbers)
        for answer in question.answers
    ]
    rows = []
    for value, ids in members.items():
        for by, by_id in values_by_answerer.items():
            texts = [by_id[key] for key in ids if key in by_id]
            if not texts:
                continue
            cells: list[Cell] = [value, by, len(texts)]
            if has_numbers:
                cells.append(_mean_with_interval([float(text) for text in texts]))
            counts = Counter(answer for text in texts for answer in _split_answer(question, text))
            cells += [wilson(counts[answer], len(texts)).interval for answer in question.answers]
            rows.append(ReportRow(tuple(cells)))
    return ReportTable(question.text, tuple(columns), tuple(rows))


def rates_json(table: ReportTable, question: Question) -> list[dict[str, Any]]:
    """Returns the rows of a table of `answer_rates` as JSON values; the mean is None where answers are no numbers."""
    rates = []
    for row in table.rows:
        value, by, answered, *figure_cells = row.cells
        figures = list(map(_figure_json, figure_cells))
        mean = figures.pop(0) if _has_numbers(question) else None
        shares = [
            {"answer": answer, **share}
            for answer, share in zip(question.answers, figures, strict=True)
        ]
        rates.append(
            {"value": value, "by": by, "answered": answered, "mean": mean, "shares": shares}
        )
    return rates


def _has_numbers(question: Question) -> bool:
    """Returns whether the answers to a question are numbers, which have a mean."""
    return question.kind == "number" or all(map(is_number, question.answers))


def _figure_json(cell: Cell) -> dict[str, Cell]:
    """Returns a figure with both ends of its interval as JSON values; the ends are None without an interval."""
    if isinstance(cell, Interval):
        return {"value": cell.value, "low": cell.low, "high": cell.high}
    return {"value": cell, "low": None, "high": None}


def _split_answer(question: Question, text: str) -> Sequence[str]:
    """Returns the answers of which an answer consists: several to a question that allows it, else one."""
    return text.split(",") if question.kind == "several" else (text,)


def _mean_with_interval(values: Sequence[float]) -> Interval | float:
    """Returns the mean of some values with its 95% interval, but without the interval where all are equal."""
    if len(set(values)) < 2:
        return values[0]
    mean, half = fmean(values), Z95 * stdev(values) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)
