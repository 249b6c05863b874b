"""How often each answer to a question was given, in all conversations or by the values of a field."""

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

ALL = "all"
"""Name of the only row where no field is named."""


def answer_rates(
    conn: sqlite3.Connection,
    question: Question,
    members: Mapping[str, Collection[int]],
    field: str,
) -> ReportTable:
    """Returns a row for each value of a field and each who answered: the share of each answer with its Wilson interval,
    and where answers are numbers their mean with its normal interval. Nothing corrects for the errors of a machine.

    Args:
        members: Ids of conversations by the value of the field, in the order of the rows.
        field: Its name, the title of the first column.

    Raises:
        UsageError: The answers are texts.
        NotYet: Nobody has answered.
    """
    if question.kind == "text":
        raise UsageError(f"Answers to {question.name} are texts.", "`answers` lists them.")
    people = answers.of_question(conn, question.name)
    given = {
        PEOPLE: {key: value for key, (value, _) in people.items()},
        **machine_answers.values_by_name(conn, question.name),
    }
    given = {who: by_id for who, by_id in given.items() if by_id}
    if not given:
        raise NotYet(
            f"Nobody has answered {question.name}.", f"`workbench ask PROJECT {question.name}`"
        )
    has_numbers = question.kind == "number" or all(map(is_number, question.answers))
    columns = [
        ReportColumn(field, "text", "value"),
        ReportColumn("by", "text", "by"),
        ReportColumn("answered", "count", "answered", "Conversations with an answer."),
    ]
    if has_numbers:
        columns.append(ReportColumn("mean", "interval", "mean", "Mean of the answers."))
    columns += [
        ReportColumn(
            answer, "interval", answer, "Share of the answers.", ends_in_text=not has_numbers
        )
        for answer in question.answers
    ]
    rows = []
    for value, ids in members.items():
        for who, by_id in given.items():
            texts = [by_id[key] for key in ids if key in by_id]
            cells: list[Cell] = [value, who, len(texts)]
            if has_numbers:
                cells.append(_mean([float(text) for text in texts]))
            counts = Counter(answer for text in texts for answer in _answers(question, text))
            cells += [_share(counts[answer], len(texts)) for answer in question.answers]
            if texts:
                rows.append(ReportRow(tuple(cells)))
    return ReportTable(question.text, tuple(columns), tuple(rows))


def rates_json(table: ReportTable) -> list[dict[str, Any]]:
    """Returns the rows of `answer_rates` as JSON values; the mean is None where answers are no numbers."""
    rates = []
    for row in table.rows:
        cells = dict(zip((column.key for column in table.columns), row.cells, strict=True))
        fixed = {key: cells.pop(key) for key in ("value", "by", "answered")}
        mean = _json(cells.pop("mean")) if "mean" in cells else None
        shares = [{"answer": answer, **_json(cell)} for answer, cell in cells.items()]
        rates.append({**fixed, "mean": mean, "shares": shares})
    return rates


def _json(cell: Cell) -> dict[str, Cell]:
    """Returns a figure with both ends of its interval, None where it has none."""
    if isinstance(cell, Interval):
        return {"value": cell.value, "low": cell.low, "high": cell.high}
    return {"value": cell, "low": None, "high": None}


def _answers(question: Question, text: str) -> Sequence[str]:
    """Returns the answers of which an answer consists."""
    return text.split(",") if question.kind == "several" else (text,)


def _share(part: int, of: int) -> Interval | None:
    """Returns a share with its 95% interval; None of nothing."""
    if not of:
        return None
    share = wilson(part, of)
    return Interval(share.value, share.low, share.high)


def _mean(values: Sequence[float]) -> Interval | float | None:
    """Returns a mean with its 95% interval; without one where all values are equal, None of nothing."""
    if len(set(values)) < 2:
        return values[0] if values else None
    mean, half = fmean(values), Z95 * stdev(values) / len(values) ** 0.5
    return Interval(mean, mean - half, mean + half)
